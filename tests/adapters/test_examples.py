"""The example program of each framework, from the user's message to the answer, on a scripted model.

In all of them the model runs a matched skill, enables another one that nobody has accepted yet, and answers.
A person approves that once, and denies it in another home.
"""

from __future__ import annotations

import asyncio
import json
import re
import runpy
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.adapters.conftest import ROOT, RunExample
from tests.adapters.model_server import ModelServer, Reply, SeenRequest, environment, serve_model

from prowess import Prowess

PAGE = ROOT / "docs/frameworks.md"
MESSAGE = "Do my notes about Mara contradict each other?"
CLAIMS = [
    {"text": "Mara was born in winter.", "page": "mara-venn"},
    {"text": "Mara is a summer child.", "page": "timeline"},
]
RUN = (
    "run_skill",
    {"skill": "consistency-checker", "artifact": "Check Prompt", "inputs": {"entity": "Mara", "claims": CLAIMS}},
)
FOUND = "1 and 2: she cannot be born in both seasons."
ENABLE = ("enable_skill", {"skill": "commit-messages", "reason": "To commit the correction."})
ANSWER = "Yes: two pages disagree about her birth."
MATCHED, APPROVED = '<skill name="Consistency Checker">', '<skill name="Commit messages">'


@dataclass(frozen=True, kw_only=True)
class Example:
    """One program. `framework` is the name of its environment; '' for packages that every developer has."""

    program: str
    framework: str = ""
    model: str = "gpt-6-mini"
    rebuilds: bool = True
    """True if the framework rebuilds the prompt at each step."""
    prefix: str = ""
    """What the framework puts before the names of our tools."""

    @property
    def script(self) -> tuple[Reply, ...]:
        """What the model answers."""
        (run, inputs), (enable, wanted) = RUN, ENABLE
        calls = ((self.prefix + run, inputs), (self.prefix + enable, wanted))
        return (*(Reply(calls=(call,)) for call in calls), Reply(text=ANSWER))


EXAMPLES = {
    example.program: example
    for example in (
        Example(program="with_openai"),
        Example(program="with_anthropic", model="claude-haiku-5-5"),
        Example(program="with_pydantic_ai", model="openai:gpt-6-mini"),
        Example(program="with_openai_agents", framework="openai-agents"),
        Example(program="with_langchain", framework="langchain", model="openai:gpt-6-mini"),
        Example(program="with_deepagents", framework="langchain", model="openai:gpt-6-mini"),
        Example(program="with_agent_framework", framework="agent-framework"),
        Example(
            program="with_claude_agent",
            framework="claude-agent",
            model="claude-haiku-5-5",
            rebuilds=False,
            prefix="mcp__prowess__",
        ),
        Example(program="with_crewai", framework="crewai", model="openai/gpt-6-mini"),
        Example(program="with_google_adk", framework="google-adk", model="claude-haiku-5-5"),
        Example(program="with_llama_index", framework="llama-index", model="gpt-5-mini"),
    )
}
QUICK = "with_pydantic_ai"


@pytest.fixture
def run(run_here: RunExample, run_there: RunExample, run_model: Callable[[list[str]], None]) -> Callable[..., str]:
    """Run an example once for each home, with the script, and the line beside the home typed at its prompt."""

    def start(name: str, model: ModelServer, typed: dict[Path, str]) -> str:
        example = EXAMPLES[name]
        run_model([FOUND])
        program = ROOT / "examples/frameworks" / f"{name}.py"
        options = {"homes": list(typed), "typed": list(typed.values())}
        options |= {"environment": {**environment(model.url), "MODEL": example.model}}
        if example.framework:
            return run_there(example.framework, program, MESSAGE, **options)
        return run_here(program, MESSAGE, **options)

    return start


@pytest.fixture(params=[name if name == QUICK else pytest.param(name, marks=pytest.mark.long) for name in EXAMPLES])
def example(request: pytest.FixtureRequest) -> Example:
    return EXAMPLES[request.param]


def test_an_example_matches_runs_asks_and_answers(
    example: Example, run: Callable[..., str], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_model(*example.script, *example.script) as model:
        printed = run(example.program, model, {home: "y", tmp_path: "n"})

    check_approved(example, model.requests[:3])
    check_denied(model.requests[3:])
    assert printed.count("agent:agent wants to enable the skill commit-messages.") == 2
    assert [line.endswith(ANSWER) for line in printed.splitlines()].count(True) == 2
    monkeypatch.setenv("PROWESS_HOME", str(home / ".prowess"))
    asyncio.run(_check_records())
    monkeypatch.setenv("PROWESS_HOME", str(tmp_path / ".prowess"))
    assert asyncio.run(_list_denied()) == ["commit-messages"]


def check_approved(example: Example, requests: Sequence[SeenRequest]) -> None:
    first, second, third = requests
    assert MATCHED in first.system, "the skill that fits the message is in the first request"
    assert "You help a writer" in first.system
    assert {f"{example.prefix}run_skill", f"{example.prefix}enable_skill"} <= set(first.tools)
    assert FOUND in second.text, "the result of the run went back to the model"
    assert APPROVED not in second.system
    assert "enabled" in third.text
    if example.rebuilds:
        assert APPROVED in third.system, "the skill that was enabled during the turn is in the next request"
    else:
        assert json.dumps(APPROVED)[1:-1] in third.text, "the answer of the call has the skill"


def check_denied(requests: Sequence[SeenRequest]) -> None:
    _, _, third = requests
    assert APPROVED not in third.system
    assert any(word in third.text.lower() for word in ("denied", "refused", "rejected")), "the model is told"


async def _check_records() -> None:
    """Check that the run left a trace, the match a decision, and the approval the answer of a person."""
    async with Prowess.open(ROOT / "examples/workspace") as prowess:
        (trace,) = await prowess.traces.list()
        (approval,) = await prowess.approvals.list(("approved",))
        decisions = [event for event in await prowess.events.list() if event.name == "decision_made"]
    assert trace.skill_slug == "consistency-checker"
    assert (approval.slug, approval.requester) == ("commit-messages", "agent:agent")
    assert [event.data["skill"] for event in decisions] == ["consistency-checker"]


async def _list_denied() -> list[str]:
    async with Prowess.open(ROOT / "examples/workspace") as prowess:
        return [approval.slug for approval in await prowess.approvals.list(("denied",))]


def test_the_page_about_frameworks_shows_parts_of_the_examples() -> None:
    programs = [path.read_text() for path in (ROOT / "examples/frameworks").glob("*.py")]
    snippets = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert snippets
    for snippet in snippets:
        assert any(textwrap.indent(snippet, " " * 8) in program for program in programs), snippet


@pytest.mark.parametrize("program", ["with_openai", "with_anthropic", "with_pydantic_ai"])
def test_an_example_without_its_key_says_which_one_to_set(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", [program])
    key = "ANTHROPIC_API_KEY" if program == "with_anthropic" else "OPENAI_API_KEY"
    with pytest.raises(SystemExit, match=f"^Set {key} to an API key"):
        runpy.run_path(str(ROOT / "examples/frameworks" / f"{program}.py"), run_name="__main__")


def test_the_page_about_frameworks_names_what_each_example_needs() -> None:
    rows = re.findall(r"^\| .* \| `(.+?)` \| `.+?` \| `(.+?)` \| `(\w+_KEY)` \|$", PAGE.read_text(), re.MULTILINE)
    assert {example for _, example, _ in rows} == {f"{name}.py" for name in EXAMPLES}
    for packages, example, key in rows:
        text = (ROOT / "examples/frameworks" / example).read_text()
        extra, *others = packages.split()
        assert " ".join([f"Needs `pip install '{extra}'", *others]) + f"` and {key}." in text


PACKAGES = (
    *("agent_framework", "agents", "anthropic", "claude_agent_sdk", "crewai", "deepagents"),
    *("google.adk", "langchain", "llama_index", "openai", "pydantic_ai"),
)


@pytest.mark.parametrize("path", sorted((ROOT / "examples/frameworks").glob("*.py")), ids=lambda path: path.stem)
def test_an_example_without_its_framework_says_what_to_install(path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in PACKAGES:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    with pytest.raises(SystemExit, match="Needs `pip install 'prowess"):
        runpy.run_path(str(path))
