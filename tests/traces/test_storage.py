"""Rows are read by whose they are and what they are about, in order and in pages."""

from __future__ import annotations

import pytest

from prowess.errors import Conflict
from prowess.redaction import Redactor
from prowess.storage.sql.traces import traces
from prowess.storage.tables import ORDERED_JSON
from prowess.storage.traces import (
    DOCUMENTS,
    TraceFilter,
    add_many,
    get_row,
    insert_many,
    position_of,
    read_newest,
    read_oldest,
    to_values,
)
from prowess.traces.trace_row import to_row

ALL = TraceFilter(organization_id="acme", user_id=None)


@pytest.fixture
def keep(database, begun):
    def add(*traces):
        with database.write() as connection:
            insert_many(connection, [to_values(to_row(trace, Redactor())) for trace in traces])

    return add


def test_the_columns_with_json_are_known_without_sqlalchemy():
    assert {column.name for column in traces.c if column.type is ORDERED_JSON} == DOCUMENTS


def ids(rows):
    return [row.id for row in rows]


def test_another_organization_and_another_user_are_never_among_them(database, keep, begun):
    mine, hers, theirs = begun(), begun(user_id="eve"), begun(organization_id="other")
    keep(mine, hers, theirs)
    with database.read() as connection:
        own = TraceFilter(organization_id="acme", user_id="ada")
        assert ids(read_newest(connection, own, limit=10)) == [mine.id]
        assert set(ids(read_newest(connection, ALL, limit=10))) == {mine.id, hers.id}
        assert get_row(connection, own, hers.id) is None
        assert get_row(connection, ALL, theirs.id) is None
        assert get_row(connection, ALL, hers.id).user_id == "eve"


@pytest.mark.parametrize(
    ("narrowed", "wanted"),
    [
        ({"skill": "lint"}, ["2"]),
        ({"skill": "skill-3"}, ["3"]),
        ({"artifact": "Summary"}, ["4"]),
        ({"artifact": "artifact-5"}, ["5"]),
        ({"status": "failed"}, ["6"]),
        ({"session": "s7"}, ["7"]),
        ({"model": "openai:gpt"}, ["8"]),
        ({"run": "9"}, ["9"]),
        ({"since": "2026-03-05"}, ["9", "8", "7", "6", "5"]),
        ({"status": "failed", "skill": "lint"}, []),
        ({"skill": "'; DROP TABLE skills; --"}, []),
    ],
)
def test_each_filter_narrows(database, keep, begun, narrowed, wanted):
    more = [
        {},
        {"skill_slug": "lint"},
        {"skill_id": "skill-3"},
        {"artifact_name": "Summary"},
        {"artifact_id": "artifact-5"},
        {"status": "failed"},
        {"session_id": "s7"},
        {"model_id": "openai:gpt"},
        {},
    ]
    keep(*(begun(run_id=str(day), started_at=f"2026-03-0{day}T00:00:00Z", **said) for day, said in enumerate(more, 1)))
    with database.read() as connection:
        which = TraceFilter(organization_id="acme", user_id="ada", **narrowed)
        assert [row.run_id for row in read_newest(connection, which, limit=10)] == wanted
        assert [row.run_id for row in read_oldest(connection, which, limit=10)] == wanted[::-1]


@pytest.mark.parametrize("read", [read_newest, read_oldest])
def test_pages_have_every_row_once_also_of_runs_that_began_at_one_moment(database, keep, begun, read):
    traces = [begun(started_at=f"2026-03-0{number // 7 + 1}T00:00:00Z") for number in range(30)]
    keep(*traces)
    found, after = [], None
    with database.read() as connection:
        while page := read(connection, ALL, limit=4, after=after):
            found += ids(page)
            after = position_of(page[-1])
    assert sorted(found) == sorted(trace.id for trace in traces)


def test_a_list_leaves_out_what_is_large(database, keep, begun):
    keep(begun(inputs={"a": 1}, raw_output="long"))
    with database.read() as connection:
        [brief] = read_newest(connection, ALL, limit=1)
        [whole] = read_oldest(connection, ALL, limit=1, whole=True)
    assert (brief.raw_output, brief.inputs) == (None, {})
    assert (whole.raw_output, whole.inputs) == ("long", {"a": 1})


ODD_TEXTS = [
    "",
    "\\N",
    "\\.",
    "a\tb\nc\rd\\e",
    "\x01",
    "\x02",
    "None",
    "between\x01\x02\x03words",
    "\\\n\\",
    "é🎉\u2028",
]


def test_new_rows_come_back_as_they_were_whatever_characters_their_texts_have(database, begun):
    traces = [begun(raw_output=text, error=text, inputs={text: [text]}, rendered_input=None) for text in ODD_TEXTS]
    with database.write() as connection:
        add_many(connection, [to_values(to_row(trace, Redactor())) for trace in traces])
    with database.read() as connection:
        found = [get_row(connection, ALL, trace.id) for trace in traces]
    assert [(row.raw_output, row.error, row.inputs, row.rendered_input) for row in found] == [
        (text, text, {text: [text]}, None) for text in ODD_TEXTS
    ]


def test_a_new_row_whose_id_is_stored_already_is_a_conflict_and_nothing_is_added(database, begun):
    first, second = (to_row(begun(), Redactor()) for _ in range(2))
    with database.write() as connection:
        add_many(connection, [to_values(first)])
    with pytest.raises(Conflict), database.write() as connection:
        add_many(connection, [to_values(second), to_values(first)])
    with database.read() as connection:
        assert get_row(connection, ALL, second.id) is None
