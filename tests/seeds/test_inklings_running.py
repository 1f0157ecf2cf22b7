"""Inklings: its Consistency Checker, run as the page prints it; dispatch, variants, assertions and traces as it says."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from prowess.errors import AssertionFailed, Invalid
from prowess.llm.scripted import ScriptedModel
from prowess.open import Prowess
from prowess.run.request import RunRequest

pytestmark = pytest.mark.anyio

CLAIMS = [
    {"page_name": "Harbour", "text": "The harbour was built in 1201."},
    {"page_name": "Chronicle", "text": "The harbour was built in 1340."},
]
INPUTS = {"entity_name": "Harbour", "claims": CLAIMS}


@pytest.fixture
def document(printed: Callable[..., str]) -> dict[str, Any]:
    text = printed("inklings", '{ "id": "550e8400', "Artifact Kinds\n", keep='{ "id": "550e8400')
    return json.loads(text)


@pytest.fixture
def kept(place, tmp_path) -> Callable[[dict[str, Any]], AbstractAsyncContextManager[Prowess]]:
    """An engine that keeps a printed package in its workspace."""

    @asynccontextmanager
    async def keep(document: dict[str, Any]) -> AsyncIterator[Prowess]:
        file = tmp_path / "consistency-checker.json"
        file.write_text(json.dumps(document))
        async with place.open() as engine:
            [imported] = await engine.skills.import_path(file)
            if imported.error is not None:
                raise imported.error
            yield engine

    return keep


async def test_the_check_prompt_is_sent_as_the_page_writes_it(kept, document):
    async with kept(document) as prowess:
        with ScriptedModel(["Claims 1 and 2 disagree about the year."]) as model:
            result = await prowess.run("consistency-checker", INPUTS, artifacts="Check Prompt", model=model)
    asked = model.requests[0].messages[-1].text
    assert 'about "Harbour"' in asked
    assert "Claim 1 (from [[Harbour]]): The harbour was built in 1201." in asked
    assert "Claim 2 (from [[Chronicle]]): The harbour was built in 1340." in asked
    assert result.text == "Claims 1 and 2 disagree about the year."


async def test_the_dspy_module_gives_way_to_the_check_prompt_and_both_leave_a_row(kept, document):
    async with kept(document) as prowess:
        with ScriptedModel(["None."]) as model:
            result = await prowess.run("consistency-checker", INPUTS, artifacts="DSPy Checker", model=model)
        rows = await prowess.traces.list()
    assert [part.artifact for part in result.parts] == ["DSPy Checker", "Check Prompt"]
    assert {row.artifact_kind: row.status for row in rows} == {"dspy_module": "unavailable", "prompt_template": "ok"}


async def test_a_dspy_module_without_a_fallback_is_not_kept(kept, document):
    del document["artifacts"][3]["metadata"]["fallback_artifact"]
    with pytest.raises(Invalid, match="without a fallback"):
        async with kept(document):
            pass


async def test_three_artifacts_leave_three_rows_of_one_session_and_skill(kept, document):
    document["artifacts"].append({"kind": "approach", "name": "Method", "ordinal": 4, "content": "Compare by date."})
    async with kept(document) as prowess:
        session = await prowess.sessions.open("talk")
        with ScriptedModel(["None."]) as model:
            await prowess.run(
                "consistency-checker",
                INPUTS,
                artifacts=["Overview", "Check Prompt", "Method"],
                session=session,
                model=model,
            )
        rows = await prowess.traces.list()
    assert len(rows) == 3
    assert {row.session_id for row in rows} == {session.id}
    assert len({row.skill_id for row in rows}) == 1
    assert len({row.artifact_id for row in rows}) == 3
    assert model.requests[0].messages[0].role == "system"
    assert "Compare by date." in model.requests[0].messages[0].text


@pytest.mark.parametrize(
    ("family", "variants", "expected"),
    [
        ("anthropic", {"anthropic": "A", None: "D", "openai": "O"}, "A"),
        ("google", {"anthropic": "A", None: "D", "openai": "O"}, "D"),
        ("google", {"openai": "O", "anthropic": "A"}, "O"),
    ],
    ids=["exact family", "the default", "the first by ordinal"],
)
async def test_the_variant_is_chosen_by_the_family_of_the_model_in_use(kept, document, family, variants, expected):
    document["artifacts"] = [
        {"kind": "prompt_template", "name": "Ask", "ordinal": place, "content": text, "model_variant": variant}
        for place, (variant, text) in enumerate(variants.items())
    ]
    async with kept(document) as prowess:
        with ScriptedModel(["Fine."], family=family) as model:
            result = await prowess.run("consistency-checker", artifacts="Ask", model=model)
        [row] = await prowess.traces.list()
        skill = await prowess.skills.get("consistency-checker")
    assert model.requests[0].messages[-1].text == expected
    assert row.artifact_id == next(one.id for one in skill.artifacts if one.content == expected)
    assert result.parts[0].variant == next(variant for variant, text in variants.items() if text == expected)


@pytest.fixture
def asserted(document, printed) -> dict[str, Any]:
    """The package, with the assertions that the page prints on its prompt."""
    text = printed("inklings", '{ "assertions": [', "Assertion Trait", keep='{ "assertions": [')
    document["artifacts"][1]["metadata"] = json.loads(text)
    return document


GOOD = json.dumps({"contradictions": [{"claims": [1, 2], "why": "[[Harbour]] and [[Chronicle]] disagree. " * 3}]})


async def test_the_printed_assertions_pass_on_an_answer_that_keeps_to_them(kept, asserted):
    async with kept(asserted) as prowess:
        with ScriptedModel([GOOD, {"answer": "yes", "reason": "It names pages."}]) as model:
            result = await prowess.run("consistency-checker", INPUTS, artifacts="Check Prompt", model=model)
        [row] = await prowess.traces.list()
    assert [verdict.type for verdict in result.verdicts] == ["structural", "length", "semantic"]
    assert (row.assertions_run, row.assertions_passed) == (3, 3)


async def test_every_printed_assertion_is_evaluated_where_several_fail(kept, asserted):
    async with kept(asserted) as prowess:
        with ScriptedModel(["No.", {"answer": "no", "reason": "No page is named."}]) as model:
            attempt = await prowess.runs.attempt(
                RunRequest(slug="consistency-checker", inputs=INPUTS, artifacts=("Check Prompt",), model=model)
            )
        [row] = await prowess.traces.list()
    assert isinstance(attempt.error, AssertionFailed)
    assert [verdict.passed for verdict in attempt.verdicts] == [False, False, False]
    assert (row.status, row.assertions_run, row.assertions_passed) == ("failed", 3, 0)


async def test_the_trace_table_has_the_columns_and_indices_that_the_page_prints(kept, document, place):
    async with kept(document) as prowess:
        await prowess.run("consistency-checker", artifacts="Overview")
    with sqlite3.connect(Path(place.environment["PROWESS_HOME"], "agents.db")) as connection:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(skill_execution_traces)")}
        indices = {row[1] for row in connection.execute("PRAGMA index_list(skill_execution_traces)")}
    connection.close()
    assert columns >= {
        *("id", "session_id", "skill_id", "artifact_id", "artifact_kind", "rendered_input", "raw_output", "error"),
        *("started_at", "completed_at", "duration_ms", "input_tokens", "output_tokens", "model_id", "estimated_cost"),
        *("assertions_run", "assertions_passed", "created_at"),
    }
    assert indices >= {"idx_traces_session_id", "idx_traces_skill_id", "idx_traces_artifact_id"}
