"""The version of the readers: raised whenever the same files give another skill, and compared with what is stored."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from prowess.skill import form_info, kinds
from prowess.skill import reader_version as module
from prowess.skill.package import Package
from prowess.skill.reader_version import (
    READER_VERSION,
    add_reader_extension,
    is_current,
    may_replace,
    reader_version,
)
from prowess.skill.validate import validate

SAMPLES = {
    "agentskills": Package.of_texts(
        "pdf-tools",
        {
            "SKILL.md": "---\nname: pdf-tools\ndescription: Reads PDF files.\nlicense: MIT\nallowed-tools: Read Bash(git:*)\n"
            "compatibility: Python 3.11\nmetadata:\n  author: Ada\n  version: 2.1.0\n  tags: pdf, files\n---\n\n# PDF\n\nRead it.\n",
            "references/guide.md": "# Guide\n",
            "scripts/run.py": "print(1)\n",
            "assets/logo.svg": "<svg/>\n",
        },
    ),
    "agentskills, sloppy": Package.of_texts(
        "Sloppy Skill",
        {
            "skill.md": "\ufeff---\r\nName: Sloppy Skill\r\ndescription: Uses: a colon\r\ntags: [a, b\r\n"
            "whenToUse: on mondays\r\nodd: 7\r\n---\r\nBody first.\r\n",
            "README.md": "ignored\n",
        },
    ),
    "agentskills, for people only": Package.of_texts(
        "deploy",
        {
            "SKILL.md": "---\nname: deploy\ndescription: Deploys.\ndisable-model-invocation: false\n---\n\nPush.\n",
            "agents/openai.yaml": "policy:\n  allow_implicit_invocation: false\n",
        },
    ),
    "agentskills, no frontmatter": Package.of_texts("bare", {"SKILL.md": "# Bare words\n\nFirst paragraph here.\n"}),
    "agentskills, no title": Package.of_texts(
        "plain", {"SKILL.md": "---\nname: plain\ndescription: d\n---\nYou are plain.\n\n## Process\n"}
    ),
    "agentcy": Package.of_texts(
        "write-brief.md",
        {
            "write-brief.md": "---\nslug: acme.write-brief\nname: Write a brief\ndescription: Briefs.\ntriggers:\n  - brief me\n---\nDo.\n"
        },
    ),
    "bernstein": Package.of_texts(
        "backend",
        {
            "SKILL.md": "---\nname: backend\ndescription: Builds the backend of a service.\ntrigger_keywords:\n  - api\n"
            "references:\n  - style.md\nversion: 1.2.0\nauthor: Bo\n---\n\nBuild.\n",
            "references/style.md": "Short lines.\n",
        },
    ),
    "devai": Package.of_texts(
        "word-count",
        {
            "skill.json": json.dumps(
                {
                    "id": "word-count",
                    "name": "Word count",
                    "description": "Counts words.",
                    "version": "1.0.0",
                    "parameters": {"text": {"type": "string", "required": True}},
                    "tags": ["text"],
                    "timeout_seconds": 5,
                    "toolAllowList": [],
                }
            ),
            "execute.py": "def execute(args, context):\n    return len(args['text'].split())\n",
        },
    ),
    "inklings": Package.of_texts(
        "package.json",
        {
            "package.json": json.dumps(
                {
                    "name": "Consistency Checker",
                    "description": "Finds contradictions.",
                    "intent_patterns": ["(?i)contradict"],
                    "trigger_phrases": ["check consistency"],
                    "artifacts": [
                        {"kind": "description", "name": "Overview", "ordinal": 0, "content": "What it is for."},
                        {"kind": "prompt_template", "name": "Ask", "ordinal": 1, "content": "Is {{x}} so?"},
                        {"kind": "approach", "name": "Method", "ordinal": 2, "content": "Slowly.", "variant": "a"},
                    ],
                }
            )
        },
    ),
    "agentlayerrules": Package.of_texts(
        "summarize",
        {
            "summarize.yaml": "skill_id: summarize\nversion: 1.0.0\ntitle: Summarize\ndescription: Makes it short.\n"
            "tags: [text]\ninput_schema:\n  type: object\noutput_schema:\n  type: object\n"
            "template_type: LLM_JSON_GENERATION\ntemplate_config:\n  prompt_id: short\n  prompt_version: 1.0.0\n",
            "prompts/short.json": json.dumps(
                {"prompt_id": "short", "version": "1.0.0", "template": "Shorten {{text}}."}
            ),
        },
    ),
    "native": Package.of_texts(
        "lore",
        {
            "SKILL.md": "---\nname: lore\ndescription: Keeps the lore.\n---\n\nAsk first.\n",
            "agents/prowess.yaml": "slug: acme.lore\ntitle: Lore keeper\nkeywords: [lore]\nobservability:\n  log_input: false\n"
            "hosts: [example.org]\nartifacts:\n  - path: prompts/ask.j2\n    ordinal: 3\n"
            "  - kind: http_call\n    name: fetch\n    handler: https://example.org/{{id}}\n",
            "prompts/ask.j2": "Who is {{ name }}?\n",
            "prompts/ask.claude.j2": "Who, dear, is {{ name }}?\n",
            "rubrics/tone.yaml": "rubric_id: tone\nscoring_mode: binary\ncriteria:\n  - id: a\n    name: A\n    description: d\n"
            "    pass_condition: p\n    fail_condition: f\n",
            "execute.py": "def execute(args, context):\n    return 1\n",
            "approach.md": "Think.\n",
            "examples/one.md": "Like this.\n",
        },
    ),
    "refused, hidden text": Package.of_texts(
        "sly", {"SKILL.md": "---\nname: sly\ndescription: d\n---\nHi\u202eereht\n"}
    ),
    "refused, no skill": Package.of_texts("empty", {"notes.txt": "nothing\n"}),
}

FINGERPRINTS: tuple[int, dict[str, str]] = (
    8,
    {
        "agentskills": "e300ef2523e1ffdf",
        "agentskills, sloppy": "3298d519ce1e3a85",
        "agentskills, for people only": "73d99147c35bf75f",
        "agentskills, no frontmatter": "13cac236121a7a53",
        "agentskills, no title": "626358a5c174db9c",
        "agentcy": "81ea80aec7fa990e",
        "bernstein": "670285043b43a34a",
        "devai": "da76e8b791a7f81f",
        "inklings": "85d3af4171a7bf00",
        "agentlayerrules": "320f9dc58618d432",
        "native": "3583f767bb015d7e",
        "refused, hidden text": "c5924550af04b42c",
        "refused, no skill": "ec8a07612112da49",
    },
)


def fingerprint(package: Package) -> str:
    """Everything that is stored of a reading. Defaults are left out, as in the rows: a new field changes nothing."""
    report = validate(package)
    skill = report.reading.skill
    read = {
        "form": report.reading.form,
        "accepted": report.ok,
        "errors": sorted(problem.code for problem in report.errors),
        "skill": skill.model_dump(mode="json", exclude_defaults=True) if skill else None,
    }
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()[:16]


def test_a_change_of_reading_raises_the_version() -> None:
    version, expected = FINGERPRINTS

    found = {name: fingerprint(package) for name, package in SAMPLES.items()}

    assert found == expected, (
        f"These samples read differently than by version {version}: "
        f"{[name for name in found if found[name] != expected.get(name)]}. If that is meant, raise READER_VERSION in "
        "prowess/skill/reader_version.py, so that skills which are stored already are read again, and update FINGERPRINTS."
    )
    assert version == READER_VERSION, "Update FINGERPRINTS together with READER_VERSION."


@pytest.fixture
def extensions(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The plugin kinds and forms of this process, for one test."""
    names: set[str] = set()
    monkeypatch.setattr(module, "_extensions", names)
    return names


def test_only_the_same_version_is_current(extensions: set[str]) -> None:
    assert is_current(reader_version())
    for other in ("", "0", str(READER_VERSION - 1), str(READER_VERSION + 1), "x", "²"):
        assert not is_current(other)


def test_a_newer_version_is_not_replaced(extensions: set[str]) -> None:
    assert all(map(may_replace, ("", "0", "x")))
    assert not may_replace(str(READER_VERSION + 1))


def test_a_plugin_that_was_added_makes_rows_outdated(extensions: set[str]) -> None:
    before = reader_version()
    add_reader_extension("acme.sql-query")

    assert reader_version() == f"{READER_VERSION} acme.sql-query"
    assert not is_current(before)
    assert may_replace(before)


def test_a_plugin_that_was_removed_concerns_only_the_skills_that_use_it(extensions: set[str]) -> None:
    add_reader_extension("acme.sql-query")
    unused, used = reader_version(["script"]), reader_version(["acme.sql-query"])
    extensions.clear()

    assert is_current(unused)
    assert not is_current(used)


def test_processes_with_different_plugins_do_not_overwrite_each_other(extensions: set[str]) -> None:
    add_reader_extension("acme.one")
    theirs = reader_version()
    extensions.clear()
    add_reader_extension("other.two")

    assert not is_current(theirs)
    assert not may_replace(theirs)


def test_the_kinds_and_forms_of_plugins_are_part_of_the_version(
    extensions: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "KINDS", dict(kinds.KINDS))
    monkeypatch.setattr(form_info, "FORMS", dict(form_info.FORMS))

    class Query(kinds.Artifact):
        kind: str = "acme.sql-query"

    kinds.add_kind(
        replace(kinds.KINDS["approach"], name="acme.sql-query", model=Query, folder="queries", root_files=())
    )
    form_info.add_form(replace(form_info.FORMS["agentcy"], name="acme.notebook", markers=()))

    assert reader_version() == f"{READER_VERSION} acme.notebook acme.sql-query"
