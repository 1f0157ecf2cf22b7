"""The `agentskills` profile gives the verdict of the reference validator, on every real file there is."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from skills_ref.validator import validate as reference_validate

from prowess.skill.package import Package
from prowess.skill.validate import validate

DOCS = Path(__file__).resolve().parents[2] / "docs" / "profiles.md"

Verdict = bool | str
"""Whether a file is accepted, or the name of the exception that the reference raised."""


def frontmatter(data: bytes) -> str:
    return data.decode().partition("\n---")[0]


def cut_inside_a_line(data: bytes, _: Verdict) -> bool:
    """The reference ends the frontmatter at the first three dashes, wherever they stand."""
    parts = data.decode().replace("\r\n", "\n").replace("\r", "\n").split("---", 2)
    return len(parts) == 3 and not parts[1].endswith("\n")


def not_utf_8(data: bytes, verdict: Verdict) -> bool:
    """The reference does not catch the error of decoding."""
    return verdict == "UnicodeDecodeError"


def control_character(data: bytes, verdict: Verdict) -> bool:
    """The reference trips over the error that its YAML library raises for such characters."""
    return verdict == "AttributeError"


def unicode_line_break(data: bytes, _: Verdict) -> bool:
    """The reference's YAML library takes three characters for line breaks in some places and for text in others."""
    return any(char in frontmatter(data) for char in "\x85\u2028\u2029")


def merge_key(data: bytes, _: Verdict) -> bool:
    """The reference's YAML library merges mappings under `<<`, and raises where there are two."""
    return "\n<<:" in frontmatter(data)


BUGS: dict[str, Callable[[bytes, Verdict], bool]] = {
    "not-utf-8": not_utf_8,
    "control-character": control_character,
    "cut-inside-a-line": cut_inside_a_line,
    "unicode-line-break": unicode_line_break,
    "merge-key": merge_key,
}
"""The bugs of the reference that docs/profiles.md argues from the specification, each with its test."""


def rows(shared: Callable[[str], Path]) -> Iterator[tuple[str, bytes]]:
    with gzip.open(shared("corpus/skills.jsonl.gz"), "rt", encoding="utf-8") as lines:
        for line in lines:
            row: dict[str, Any] = json.loads(line)
            folder = Path(row["path"]).parent.name or row["repo"].rpartition("/")[2]
            yield folder, row["text"].encode() if "text" in row else base64.b64decode(row["base64"])


def reference(folder: Path, data: bytes) -> Verdict:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_bytes(data)
    try:
        return not reference_validate(folder)
    except Exception as raised:  # noqa: BLE001  what it raises is what is being looked at
        return type(raised).__name__


def ours(folder: str, data: bytes) -> bool:
    return validate(Package.of_texts(folder, {"SKILL.md": data}), "agentskills").ok


def why(data: bytes, verdict: Verdict) -> str | None:
    return next((name for name, applies in BUGS.items() if applies(data, verdict)), None)


@pytest.mark.long
def test_every_verdict_equals_that_of_the_reference_except_for_its_documented_bugs(
    shared: Callable[[str], Path], tmp_path: Path
) -> None:
    unexplained: list[str] = []
    causes: Counter[str] = Counter()
    accepted = count = 0
    for count, (folder, data) in enumerate(rows(shared), start=1):
        expected = reference(tmp_path / str(count) / folder, data)
        verdict = ours(folder, data)
        accepted += verdict
        if verdict != expected:
            cause = why(data, expected)
            causes[cause or "none"] += 1
            if cause is None:
                unexplained.append(f"file {count}: the reference says {expected}, we say {verdict}")
    assert not unexplained
    assert count > 4000
    assert accepted > 1000
    assert causes.total() <= 5


def test_every_documented_bug_of_the_reference_is_real(tmp_path: Path) -> None:
    cases = {
        "cut-inside-a-line": b"---\nname: a\ndescription: one --- two\ncolour: red\n---\nBody.\n",
        "not-utf-8": b"---\nname: a\ndescription: caf\xe9\n---\n",
        "control-character": b"---\nname: a\ndescription: bell \x07\n---\n",
        "merge-key": b"---\n<<:\n  name: a\ndescription: d\n<<:\n  license: b\n---\n",
        "unicode-line-break": "---\nname: a\ndescription: |\n  one\n  two\u2028three: four\n---\n".encode(),
    }
    assert cases.keys() == BUGS.keys()
    for name, data in cases.items():
        expected = reference(tmp_path / name / "a", data)
        assert ours("a", data) != expected
        assert BUGS[name](data, expected)


def test_the_documentation_lists_exactly_these_bugs() -> None:
    section = DOCS.read_text(encoding="utf-8").partition("## Where we differ from the reference")[2]
    section = section.partition("\n## ")[0]
    documented = {line.split("`")[1] for line in section.splitlines() if line.startswith("| `")}
    assert documented == BUGS.keys()


LINE = st.sampled_from(
    [
        "name: a",
        "name: A b",
        "name: 'a'",
        "name:",
        "description: Does a thing.",
        "description: Does: a thing",
        "description: >-\n  Does a\n  thing",
        "description: |\n  Does a\n   thing",
        "description: ~",
        "description: *star",
        "description: &anchor x",
        "description: !tag x",
        "description: 'it''s'",
        'description: "tab\\t and \\u00e9"',
        "description: a\tb",
        "\tdescription: x",
        "license: MIT",
        "license: [MIT]",
        "compatibility: any",
        "compatibility:\n  - any",
        "metadata:\n  a: b\n  c:\n    d: e",
        "metadata:\n    a: 1",
        "metadata: {}",
        "metadata:\n  a:\n    b: c\n  d:\n     e: f",
        "allowed-tools: Read Write",
        "allowed-tools:\n- Read\n- Bash(git:*)",
        "tags: [a, b]",
        "tags:\n  - a",
        "# a comment",
        "",
        "...",
        "%YAML 1.2",
        "? key\n: value",
        "<<:\n  name: a",
        "- item",
        "just text",
        "version: 1.10",
        "date: 2026-01-01",
        "on: yes",
        "name: ａ",
        "'name': a",
        '"description": quoted key',
    ]
)


@given(lines=st.lists(LINE, max_size=5), end=st.sampled_from(["---", "---\nBody.", "--- ", "---# Title", "----", ""]))
@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_made_up_frontmatter_gets_the_verdict_of_the_reference(lines: list[str], end: str, tmp_path: Path) -> None:
    data = "\n".join(["---", *lines, end, ""]).encode()
    expected = reference(tmp_path / "a", data)
    assert ours("a", data) == expected or why(data, expected)


@pytest.mark.parametrize("data", [b"", b"---", b"---\n---\n", b"\xef\xbb\xbf---\nname: a\ndescription: b\n---\n"])
def test_what_is_hardly_a_file_gets_the_verdict_of_the_reference(data: bytes, tmp_path: Path) -> None:
    assert ours("a", data) == reference(tmp_path / "a", data)
