"""Ordinary text stays as it is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from prowess.redaction import Redactor

ROOT = Path(__file__).resolve().parents[2]


def altered(texts):
    redactor = Redactor(["a-known-value-that-none-of-them-has-7719"])
    return [text for text in texts if redactor.text(text) != text]


@pytest.mark.long
def test_at_most_one_of_a_hundred_real_skills_is_altered_and_one_of_a_thousand_lines(shared):
    with gzip.open(shared("corpus/skills.jsonl.gz"), "rt") as corpus:
        texts = [text for line in corpus if (text := json.loads(line).get("text"))]
    changed = altered(texts)
    assert len(changed) <= 0.01 * len(texts)
    lines = [line for text in changed for line in text.splitlines()]
    assert len(altered(lines)) <= 0.001 * sum(text.count("\n") + 1 for text in texts)


def test_nothing_in_our_own_documentation_is_altered():
    pages = sorted((ROOT / "docs").glob("*.md"))
    assert pages
    assert altered([page.read_text() for page in pages if page.name != "traces.md"]) == []
