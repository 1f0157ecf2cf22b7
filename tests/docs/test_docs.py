"""The documentation says what is there, and what it shows is true."""

from __future__ import annotations

import asyncio
import json
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from prowess.authoring.optimize.proposal import OptimizationRequest
from prowess.engine.engine import Engine
from prowess.errors import ApprovalRequired, ProwessError
from prowess.events import EVENT_NAMES
from prowess.interfaces.cli.error_output import EXIT_CODES
from prowess.llm.scripted import ScriptedModel
from prowess.open import Prowess
from prowess.policy.actor import PERMISSIONS
from prowess.policy.organization import ENABLEMENTS, SETTING_NAMES
from prowess.policy.roles import shipped_roles
from prowess.run.request import RunRequest
from prowess.settings import read_settings
from prowess.skill.form_info import FORMS
from prowess.skill.forms.sidecar_file import Sidecar
from prowess.skill.kinds import KINDS
from prowess.skill.model import SCOPES
from prowess.skill.profiles import PROFILES
from prowess.sources.scripted import ScriptedFetcher
from prowess.tools.toolbox import builtin_tools

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text()


def all_errors(kind: type[ProwessError] = ProwessError) -> list[type[ProwessError]]:
    return [kind, *(error for sub in kind.__subclasses__() for error in all_errors(sub))]


def test_every_variable_that_the_source_reads_is_documented():
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for variable in set(re.findall(r"\bPROWESS_[A-Z_]+[A-Z]\b", source)):
        assert f"`{variable}`" in page("settings"), variable


def test_every_error_is_documented_with_its_code_and_exit_code():
    for error in all_errors():
        code = next(EXIT_CODES[kind] for kind in error.__mro__ if kind in EXIT_CODES)
        assert f"| `{error.__name__}` | `{error.code}` | {code} |" in page("errors")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("skill", KINDS),
        ("skill", SCOPES),
        ("forms", FORMS),
        ("forms", tuple(Sidecar.model_fields)),
        ("profiles", tuple(PROFILES)),
        ("catalog", SCOPES),
        ("events", EVENT_NAMES),
        ("policy", SETTING_NAMES),
        ("policy", ENABLEMENTS),
        ("policy", tuple(sorted(PERMISSIONS))),
        ("policy", tuple(shipped_roles())),
        ("roles", tuple(path.parent.name for path in sorted((ROOT / "src/prowess/packs").glob("*/SKILL.md")))),
    ],
)
def test_every_word_of_a_family_is_documented(name, words):
    for word in words:
        assert f"`{word}`" in page(name)


@pytest.mark.parametrize("name", builtin_tools())
def test_every_tool_is_documented_with_its_arguments_and_an_answer(name):
    section = page("tools").split(f"## {name}\n")[1].split("\n## ")[0]
    required = builtin_tools()[name].parameters.get("required", [])
    arguments = [
        f"{one}{'' if one in required else '?'}" for one in builtin_tools()[name].parameters.get("properties", {})
    ]
    assert f"`{name}({', '.join(arguments)})`" in section
    for answer in re.findall(r"```json\n(.*?)```", section, re.DOTALL):
        assert isinstance(json.loads(answer), dict)
    assert "```json" in section


PARTS = {name: value for name, value in vars(Engine).items() if isinstance(value, cached_property)}


@pytest.mark.parametrize("name", [name for name in dir(Prowess) if not name.startswith("_")])
def test_every_method_of_the_engine_is_named_in_the_page_about_it(name):
    assert re.search(rf"`(Prowess\.)?{name}[`(]", page("library"))


@pytest.mark.parametrize("name", PARTS)
def test_every_part_of_the_engine_leads_to_its_methods(name):
    assert f"| [`{name}`](api.md#prowess{name}) |" in page("library")


async def one_event_of_each_kind(home: Path) -> dict[str, dict[str, Any]]:
    settings = read_settings({"HOME": str(home)}, workspace=ROOT / "examples/workspace")
    async with Prowess.open(settings=settings, fetcher=ScriptedFetcher()) as prowess:
        source = await prowess.sources.create("Nothing", "github", {"repo": "acme/nothing"})
        await prowess.sources.sync(source.id)
        session = await prowess.sessions.open("docs")
        await prowess.load("commit-messages")
        await prowess.policy.set("skill_enablement_policy", "prompt-user")
        with pytest.raises(ApprovalRequired) as asked:
            await prowess.enable("commit-messages", session=session)
        await prowess.approvals.resolve(asked.value.approval_id, approved=True)
        await prowess.enable("commit-messages", session=session)
        await prowess.policy.set("skill_enablement_policy", None)
        await prowess.agent.rename((await prowess.agent.start()).id, "Minutes")
        await prowess.skills.import_path(ROOT / "examples/more/review-minutes", scope="account")
        judged = ScriptedModel([{}])
        await prowess.run("review-minutes", {"minutes": "We met."}, session=session, model=judged)
        package = await prowess.turns.context("Good morning!", session=session)
        await prowess.turns.decide(package, await prowess.turns.suggest(package))
        job = await prowess.jobs.start_run(RunRequest(slug="commit-messages", artifacts=("instructions",)))
        await prowess.jobs.wait(job.id)
        draft = f"scripted:{ROOT}/examples/compose/first-draft.json"
        await prowess.optimize.prepare(OptimizationRequest(skill="commit-messages", method="phrases"))
        await prowess.compose.start("check timeline consistency", model=draft)
    async with Prowess.open(settings=settings) as prowess:
        return {event.name: event.data for event in await prowess.events.list()}


def test_every_event_is_documented_with_its_fields(tmp_path):
    events = asyncio.run(one_event_of_each_kind(tmp_path))
    assert set(events) == set(EVENT_NAMES)
    for name, data in events.items():
        section = page("events").split(f"## {name}\n")[1].split("\n## ")[0]
        assert all(f"`{field}`" in section for field in data), (name, set(data))


def snippets() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path in sorted([*DOCS.rglob("*.md"), ROOT / "README.md"]):
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL), start=1):
            found.append((f"{path.relative_to(ROOT)}-{number}", code))
    return found


@pytest.mark.few(4)
@pytest.mark.parametrize(("name", "code"), snippets(), ids=[name for name, _ in snippets()])
def test_a_python_snippet_runs(name, code, new_process):
    ran = new_process(code=code, environment=os.environ, folder=ROOT)
    assert ran.returncode == 0, ran.stderr


def test_python_that_does_not_run_here_is_run_by_the_tests_of_its_page():
    pages = {path.name for path in DOCS.rglob("*.md") if "```py\n" in path.read_text()}
    assert pages == {"api.md", "client.md", "frameworks.md", "functions.md", "plugins.md", "programs.md", "sandbox.md"}
