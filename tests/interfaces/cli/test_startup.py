"""What the everyday commands import: each only what it needs, because imports are most of the time they take."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

RUN = """
import sys, time
now = time.time_ns
time.time_ns = lambda: now() + 3_600_000_000_000  # an hour later, so that files written just now count as settled
from prowess.interfaces.cli.main import cli
cli.main(sys.argv[1:], standalone_mode=False)
print(*sys.modules, file=sys.stderr)
"""

NEVER = {
    "alembic",
    "httpx",
    "numpy",
    "opentelemetry",
    "psycopg",
    "pydantic_ai",
    "rich.console",
    "sqlalchemy.orm",
    "wasmtime",
}
DATABASE = {"sqlalchemy", "prowess.storage.tables"}
LOOP = {"asyncio", "concurrent.futures", "logging", "ssl"}  # an event loop, and what only it and SQLAlchemy need
SCHEMAS = {"importlib.metadata", "pydantic.plugin._loader"}  # where a schema is built, pydantic looks for plugins
READERS = {"yaml", "prowess.skill.forms.conversion", "prowess.skill.text.reader"}
CHECKS = {"prowess.skill.profiles.table"}
WRITERS = {"ctypes", "difflib", "glob", "prowess.catalog.exporter", "shutil", "tempfile"}
UNICODE = {"prowess.skill.text.hidden"}  # what enters a prompt or a terminal is checked for hidden characters


FORK = r"""
import os, sys, time
from importlib import import_module
now = time.time_ns
time.time_ns = lambda: now() + 3_600_000_000_000
from prowess.interfaces.cli.main import cli
for name in sys.argv[2:]:
    import_module(name)
for line in sys.argv[1].splitlines():
    if (child := os.fork()) == 0:
        cli.main(line.split(), standalone_mode=False)
        print("\nmodules:", *sys.modules, file=sys.stderr, flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(line)
"""
"""Run commands one after another in children of a process that has imported some modules, but done nothing yet."""


def imported(line: str) -> set[str]:
    """Run a command in a process of its own and return the modules that it imported."""
    command = [sys.executable, "-c", RUN, *line.split()]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return set(ran.stderr.split())


def imported_by_each(lines: Sequence[str], before: set[str]) -> dict[str, set[str]]:
    """Run commands in forks of a process that has imported our modules of `before`; the modules of each at its end."""
    ours = [name for name in before if name.startswith("prowess.")]
    command = [sys.executable, "-c", FORK, "\n".join(lines), *ours]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = [set(told.split()) for told in ran.stderr.splitlines() if told.startswith("modules:")]
    return dict(zip(lines, found, strict=True))


LIMITS = {
    "list": ({*DATABASE, *LOOP, *SCHEMAS, *READERS, *CHECKS, *UNICODE, *WRITERS}, 91),
    "list --json": ({*DATABASE, *LOOP, *SCHEMAS, *READERS, *CHECKS, *UNICODE, *WRITERS}, 91),
    "show commit-messages": ({*DATABASE, *LOOP, *SCHEMAS, *CHECKS, *WRITERS}, 121),
    "enable commit-messages": (
        {"prowess.catalog.database_store", "prowess.net.target", *DATABASE, *LOOP, *CHECKS},
        148,
    ),
    "prompt": ({"prowess.net.target", "prowess.storage.skills", *DATABASE, *LOOP, *READERS, *CHECKS}, 125),
}
"""For each command, modules that it does not need, and how many of Prowess it may import."""


def test_a_command_imports_nothing_that_it_does_not_need(sample: Path) -> None:
    # After the first run of each command, with a skill enabled.
    imported("enable commit-messages")
    imported("list")
    for line, (unneeded, most) in LIMITS.items():
        found = imported(line)
        own = sorted(name for name in found if name.startswith("prowess"))
        assert (line, found & (unneeded | NEVER)) == (line, set())
        assert len(own) <= most, (line, own)


WITHOUT_KEY = """
import atexit, sys
atexit.register(lambda: print("modules:", *sys.modules, file=sys.stderr))
from prowess.interfaces.cli.main import run
run()
"""


def test_a_missing_key_is_reported_before_the_library_of_the_provider_is_imported(
    workspace: Path, prowess: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    prowess("new", "ask", "--kind", "prompt")
    words = ("run", "ask", "--input", "text=x", "--model", "openai:gpt-4o")
    ran = subprocess.run([sys.executable, "-c", WITHOUT_KEY, *words], capture_output=True, text=True, check=False)
    message, _, modules = ran.stderr.partition("modules:")
    assert "OPENAI_API_KEY is not set" in message
    assert {"openai", "pydantic_ai"} & set(modules.split()) == set()


def test_a_prompt_needs_no_sqlalchemy_for_a_new_database_or_an_approved_skill(
    sample: Path, approver: str, prowess: Callable[..., Any]
) -> None:
    assert "sqlalchemy" not in imported("prompt")
    prowess("policy", "set", "skill_enablement_policy", "prompt-user")
    asked = prowess("enable", "release-notes", "--json")
    prowess("approvals", "approve", json.loads(asked.err)["error"]["approval_id"])
    prowess("enable", "release-notes")

    assert imported("prompt") & DATABASE == set()


CHECKED_RUN = """
import asyncio, sys, threading
from prowess.llm.scripted import ScriptedModel
from prowess.open import Prowess

async def main():
    async with Prowess.open() as prowess:
        result = await prowess.run("greeter", {"name": "Ada"}, model=ScriptedModel(["Hello, Ada!"]))
        assert result.verdicts
        for thread in threading.enumerate():
            if thread.name == "prowess-traces-tidy":
                thread.join()

asyncio.run(main())
print(*sys.modules)
"""
GREETER = """
artifacts:
  - path: prompts/greet.j2
    kind: prompt_template
    name: greet
    assertions:
      - {type: length, check: char_range, min: 1, max: 100}
"""


def test_a_run_whose_output_is_checked_needs_no_sqlalchemy(sample: Path) -> None:
    folder = sample / ".agents" / "skills" / "greeter"
    files = {
        "SKILL.md": "---\nname: greeter\ndescription: Greets.\n---\n\nGreet.\n",
        "prompts/greet.j2": "Greet {{ name }}.",
        "agents/prowess.yaml": GREETER,
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    # The first process in an hour deletes old records, and imports all of it.
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", CHECKED_RUN], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
    assert set(ran.stdout.split()) & DATABASE == set()


@pytest.mark.long
def test_after_a_use_of_a_skill_the_list_and_the_index_are_still_known(sample: Path) -> None:
    # Enabling a skill writes to the database, in which there may be others.
    lines = ("list", "match commit", "show commit-messages")
    for line in ("sessions open default", *lines, "enable commit-messages"):
        imported(line)

    assert [line for line in lines if "sqlalchemy" in imported(line)] == []


@pytest.mark.long
def test_a_stored_skill_needs_no_sqlalchemy(sample: Path, tmp_path: Path) -> None:
    folder = tmp_path / "meeting-notes"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: meeting-notes\ndescription: Write the minutes.\n---\n\nBe short.\n")
    reading = (
        "match write the minutes",
        "search minutes",
        "why write the minutes",
        "show meeting-notes",
        "show commit-messages",
        "history meeting-notes",
        "load meeting-notes",
        "enable meeting-notes",
        "prompt",
        "disable meeting-notes",
        "index",
        "sessions",
        "approvals",
        "policy",
        "traces",
        "stats",
        "events",
        "audit",
        "trust list",
        "source list",
    )
    # The first line is the one that makes the database, and the second one finds everything as it is.
    found = {line: imported(line) for line in (f"import {folder}", f"import {folder} --replace", "list")}
    running = "run consistency-checker --dry-run -i entity=Mira"
    found |= imported_by_each((*reading, running, "doctor"), found["list"])

    assert [line for line, modules in found.items() if modules & DATABASE] == []
    assert [line for line in ("list", *reading) if found[line] & {"asyncio", "ssl"}] == []


def test_patterns_are_compiled_only_when_they_are_used() -> None:
    """Those of the readers alone took a tenth of a command."""
    program = (
        "import re, sys; made = []; compile = re.compile; "
        "re.compile = lambda text, flags=0: made.append(sys._getframe(1).f_globals['__name__']) or compile(text, flags); "
        "import prowess.skill.forms.conversion, prowess.session.prompt; "
        "print(*(name for name in made if name.startswith('prowess.skill.text')))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_the_methods_of_a_dataclass_are_generated_only_when_it_is_used() -> None:
    """Those of all that a command imports took a tenth of its time."""
    program = (
        "import dataclasses; made = []; make = dataclasses._process_class; "
        "dataclasses._process_class = lambda cls, *options: made.append(cls.__module__) or make(cls, *options); "
        "import prowess.open, prowess.session.activate; "
        "print(*(name for name in made if name.startswith('prowess')))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert len(ran.stdout.split()) < 20, ran.stdout
