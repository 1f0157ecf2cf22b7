"""The sample workspace, and the skill that finds what does not fit together in it."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from prowess.llm.scripted import ScriptedModel
from prowess.open import Prowess
from prowess.settings import read_settings
from prowess.workspace.workspace import Workspace

SAMPLE = Path(__file__).resolve().parents[2] / "examples/workspace"


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "workspace"))


@pytest.fixture
def pages(sample: Path) -> Workspace:
    return Workspace(sample)


def test_every_page_is_read_and_every_link_leads_to_a_page(pages):
    cards = pages.get_all_pages()
    assert len(cards) == 13
    assert pages.skipped == ()
    for card in cards:
        assert pages.get_references(card["slug"])["missing"] == []
    assert {card["type"] for card in cards} == {"", "character", "place", "event", "timeline"}


def test_two_things_in_it_cannot_both_be_true(pages):
    def said(slug: str, pattern: str) -> str:
        found = re.search(pattern, pages.get_page(slug)["content"])
        assert found is not None
        return found[1]

    assert said("mara-venn", r"born in the spring of (\d+)") != said("timeline", r"(\d+) \| \[\[Mara Venn\]\] is born")
    assert said("tobin-ash", r"from (\w+), in one pour") != said("bell-tower", r"great bell is of (\w+)")


def test_the_contradicting_pages_are_found_together(pages):
    mara = [page["slug"] for page in pages.search("Mara Venn")]
    assert {"characters/mara-venn", "timeline"} <= set(mara[:3])
    bell = [page["slug"] for page in pages.search("great bell")]
    assert {"characters/tobin-ash", "places/bell-tower"} <= set(bell[:3])


CLAIMS = [
    {"text": "Mara was born in 388.", "page": "characters/mara-venn"},
    {"text": "Mara was born in 391.", "page": "timeline"},
]
ANSWER = "1 and 2: nobody is born in two years."


def test_the_consistency_checker_runs_whole_with_stand_ins_where_the_sandbox_is_not_installed(
    sample, pages, home, monkeypatch
):
    monkeypatch.setattr("prowess.sandbox.wasm.component.WASMTIME", "no such version")
    found = pages.get_pages([page["slug"] for page in pages.search("Mara Venn")])
    model = ScriptedModel([{"claims": CLAIMS}, ANSWER])

    async def run() -> tuple[Any, list[Any]]:
        async with Prowess.open(
            settings=read_settings({"HOME": str(home)}, workspace=sample), trusted_folders=[sample]
        ) as prowess:
            inputs = {"entity": "Mara Venn", "pages": found}
            return await prowess.run("consistency-checker", inputs, model=model), await prowess.traces.list()

    result, traces = asyncio.run(run())
    assert result.text == ANSWER
    ran = {trace.artifact_name: trace for trace in traces}
    assert {name: trace.status for name, trace in ran.items() if trace.status != "unavailable"} == {
        "Overview": "ok",
        "claims": "ok",
        "Check Prompt": "ok",
    }
    assert ran["Check Prompt"].fallback_of == ran["DSPy Checker"].id
    assert ran["DSPy Checker"].status == "unavailable"
    extracting, checking = (request.messages[-1].text for request in model.requests)
    assert "born in the spring of 388" in extracting
    assert "391" in extracting
    assert "1. Mara was born in 388. (page: characters/mara-venn)" in checking
