"""`prowess run --batch` with wrong input: the line is named, and nothing starts."""

from __future__ import annotations

import json

import pytest

from prowess.errors import Invalid, NotFound
from prowess.interfaces.cli.job_runs import read_items


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"n": 1}\n\n{"n":\n', r"Line 3 of .*items\.jsonl is not valid JSON"),
        ('{"n": 1}\n[1]\n', r"Line 2 of .*items\.jsonl is not a JSON object"),
        ('{"n": NaN}\n', "Line 1 .* NaN is not JSON"),
        ('{"n": 1e999}\n', "Line 1 .* the number 1e999 is too large"),
        ("\n \n", "has no items"),
        ("", "has no items"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, text, said):
    (tmp_path / "items.jsonl").write_text(text)
    with pytest.raises(Invalid, match=said):
        read_items(str(tmp_path / "items.jsonl"))


def test_lines_that_are_not_text_and_files_that_are_missing_are_reported(tmp_path):
    (tmp_path / "items.jsonl").write_bytes(b'{"n": "\xff"}\n')
    with pytest.raises(Invalid, match="Line 1 of"):
        read_items(str(tmp_path / "items.jsonl"))
    with pytest.raises(NotFound):
        read_items(str(tmp_path / "missing.jsonl"))
    with pytest.raises(Invalid, match="is a folder"):
        read_items(str(tmp_path))


def test_every_line_is_an_item_and_a_byte_order_mark_is_ignored(tmp_path):
    items = [{"n": n, "text": "å\u2028"} for n in range(3)]
    written = "\ufeff" + "\r\n".join(json.dumps(item, ensure_ascii=False) for item in items)
    (tmp_path / "items.jsonl").write_bytes(written.encode())
    assert read_items(str(tmp_path / "items.jsonl")) == items
