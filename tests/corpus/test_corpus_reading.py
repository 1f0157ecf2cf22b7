"""Thousands of real SKILL.md files: every one is read, and what is said about it is true."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from prowess.skill.text.document import TEXT_CODES, Document
from prowess.skill.text.fields import as_text, first_heading, first_paragraph
from prowess.skill.text.hidden import find_hidden, show_hidden
from prowess.skill.text.reader import read_document
from prowess.skill.text.yaml import load
from prowess.skill.text.yaml_writer import dump

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
CORPUS = SHARED / "corpus" / "skills.jsonl.gz"

pytestmark = pytest.mark.skipif(not CORPUS.exists(), reason="shared/corpus does not lie beside this checkout")


class Entry(NamedTuple):
    path: str
    text: str
    document: Document


@pytest.fixture(scope="module")
def corpus() -> list[Entry]:
    with gzip.open(CORPUS, "rt", encoding="utf-8") as lines:
        return [read_line(json.loads(line)) for line in lines]


def read_line(row: dict[str, Any]) -> Entry:
    return Entry(row["path"], row["text"], read_document(row["text"].encode()))


def card(entry: Entry) -> tuple[str, str]:
    """Name and description as the reader and the fields give them, with the fallbacks of a plain skill."""
    fields, body = entry.document.fields, entry.document.body
    folder = Path(entry.path).parent.name
    metadata = fields.get("metadata")
    more = metadata if isinstance(metadata, dict) else {}
    name = as_text(fields.get("name")) or as_text(fields.get("title")) or folder or first_heading(body)
    description = as_text(fields.get("description")) or as_text(fields.get("summary"))
    return name, description or as_text(more.get("description")) or first_paragraph(body)


@pytest.mark.long
def test_all_of_it_is_read(corpus: list[Entry]) -> None:
    assert len(corpus) == 4482


def test_nearly_every_file_with_frontmatter_gives_a_name_and_a_description(corpus: list[Entry]) -> None:
    marked = [entry for entry in corpus if entry.document.raw is not None]
    unusable = [entry.path for entry in marked if not all(card(entry))]
    assert len(marked) > 3800
    assert len(unusable) <= 0.002 * len(marked), unusable


def test_nearly_every_description_is_its_authors(corpus: list[Entry]) -> None:
    """Repair must find the fields: falling back on the body for most of them would pass the test above too."""
    marked = [entry for entry in corpus if entry.document.raw is not None]
    stated = [entry for entry in marked if "description:" in (entry.document.raw or "")]
    lost = [entry.path for entry in stated if "description" not in entry.document.fields]
    assert len(lost) <= 0.002 * len(stated), lost


def test_a_file_without_frontmatter_gives_both_from_folder_heading_and_text(corpus: list[Entry]) -> None:
    bare = [entry for entry in corpus if entry.document.raw is None and entry.text.strip()]
    assert len(bare) > 500
    assert [entry.path for entry in bare if not all(card(entry))] == []


def test_whatever_is_not_plain_yaml_is_told(corpus: list[Entry]) -> None:
    assert [entry.path for entry in corpus if entry.document.how != "yaml" and not entry.document.problems] == []


def test_every_problem_is_documented_and_says_what_to_do_at_a_line_that_exists(corpus: list[Entry]) -> None:
    for entry in corpus:
        count = entry.text.count("\n") + 1
        for problem in entry.document.problems:
            assert problem.code in TEXT_CODES
            assert problem.hint
            assert problem.line is not None
            assert 1 <= problem.line <= count, (entry.path, problem)


def test_raw_is_verbatim_and_so_is_the_body(corpus: list[Entry]) -> None:
    for entry in corpus:
        text = entry.text.removeprefix("\ufeff")
        assert entry.document.raw is None or entry.document.raw in text
        assert text.endswith(entry.document.body) or "text-before-frontmatter" in problem_codes(entry)


def test_every_key_stands_on_the_line_that_is_told(corpus: list[Entry]) -> None:
    for entry in corpus:
        lines = entry.text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
        for key, line in entry.document.lines.items():
            assert key in lines[line - 1], (entry.path, key, line)


def test_the_body_starts_on_the_line_that_is_told(corpus: list[Entry]) -> None:
    for entry in corpus:
        if "text-before-frontmatter" in problem_codes(entry):
            continue
        before = entry.text.removeprefix("\ufeff").removesuffix(entry.document.body)
        assert entry.document.body_line == before.count("\n") + 1 or not entry.document.body, entry.path


def test_mended_lines_read_as_they_were_mended(corpus: list[Entry]) -> None:
    for entry in corpus:
        for line, key in mended_lines(entry.document):
            assert load(line).value == {key: entry.document.fields[key]}, entry.path


def mended_lines(document: Document) -> Iterator[tuple[str, str]]:
    """The whole lines that hints propose for a top-level key that has no other fault."""
    fields = [problem.field for problem in document.problems]
    for problem in document.problems:
        if fields.count(problem.field) > 1:
            continue
        start = problem.hint.find(f"`{problem.field}: '")
        line = problem.hint[start + 1 : problem.hint.rfind("`")]
        if start >= 0 and " … " not in line and problem.field and "\n" not in str(document.fields[problem.field]):
            yield line, problem.field


def problem_codes(entry: Entry) -> set[str]:
    return {problem.code for problem in entry.document.problems}


def test_what_was_read_can_be_written_and_read_again(corpus: list[Entry]) -> None:
    for entry in corpus[::40]:
        fields = dict(entry.document.fields)
        assert load(dump(fields), typed=True).value == (fields or {})


@pytest.mark.long
def test_hidden_text_is_rare_and_shown(corpus: list[Entry]) -> None:
    """Every finding is true: none of these characters can be seen, and none belongs where it is."""
    found = {entry.path: entry.text for entry in corpus if find_hidden(entry.text)}
    hidden = {path: {one.char_class for one in find_hidden(text)} for path, text in found.items()}
    # Two were decoded as Latin-1 and one as GBK, which leaves controls and private-use characters; one has a
    # zero-width space before a code fence.
    expected = ["control", "control", "private-use", "zero-width"]
    assert sorted(one for kinds in hidden.values() for one in kinds) == expected
    assert all(find_hidden(show_hidden(text)) == [] for text in found.values())


def test_reading_stays_cheap(corpus: list[Entry], monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is counted, not timed: how often YAML is parsed for a file is bounded, whatever is wrong with it."""
    worst = max(parses(entry.text, monkeypatch) for entry in corpus if entry.document.how == "repaired")
    assert worst <= 40


def parses(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    calls = 0

    def counted(load: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            return load(*args, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr("prowess.skill.text.reader.load", counted(load))
        patch.setattr("prowess.skill.text.repair.load", counted(load))
        read_document(text)
    return calls
