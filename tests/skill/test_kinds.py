"""Tests of the table of kinds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from prowess.skill.kinds import (
    KINDS,
    Artifact,
    KindInfo,
    UnknownArtifact,
    add_kind,
    is_plugin_kind,
    kind_info,
    parse_artifact,
    select_kinds,
)


class Query(Artifact):
    kind: str = "acme.query"
    dialect: str = "ansi"


QUERY = KindInfo(
    name="acme.query",
    model=Query,
    folder="queries",
    reads=(".sql",),
    writes=".sql",
    root_files=(),
    is_file=False,
    in_prompt="",
    in_run="work",
    is_tool=False,
    reaches="network",
    runs_code=False,
    gives="data",
    describes_dry_run=True,
)


@pytest.fixture
def own_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test adds is for that test alone: to others, skills would seem to be read by another version."""
    monkeypatch.setattr("prowess.skill.kinds.KINDS", {**KINDS})
    monkeypatch.setattr("prowess.skill.reader_version._extensions", set())


@pytest.mark.parametrize("row", KINDS.values(), ids=lambda row: row.name)
def test_each_row_names_the_model_that_has_its_kind(row: KindInfo) -> None:
    assert row.model.model_fields["kind"].default == row.name
    assert kind_info(row.name) is row


@pytest.mark.parametrize("row", KINDS.values(), ids=lambda row: row.name)
def test_a_kind_that_is_a_file_reads_every_file_of_its_folder(row: KindInfo) -> None:
    assert not row.is_file or row.reads == ("",)
    assert not row.writes or not row.reads or row.writes in row.reads


@pytest.mark.parametrize("row", KINDS.values(), ids=lambda row: row.name)
def test_only_what_runs_reaches_something_is_a_tool_or_gives_data(row: KindInfo) -> None:
    if row.in_run != "work":
        assert not row.is_tool
        assert not row.runs_code
        assert row.gives == "text"
        assert row.reaches == "nothing" or row.name == "script"


def test_a_kind_without_a_row_reaches_nothing_and_is_no_tool() -> None:
    row = kind_info("acme.query")
    assert (row.model, row.reaches, row.is_tool, row.describes_dry_run) == (UnknownArtifact, "nothing", False, False)
    assert "acme.query" not in select_kinds(lambda _: True)


@pytest.mark.usefixtures("own_kinds")
def test_a_plugin_adds_a_kind_and_adding_it_twice_changes_nothing() -> None:
    add_kind(QUERY)
    add_kind(QUERY)
    made = parse_artifact({"kind": "acme.query", "name": "totals", "dialect": "duckdb"})
    assert made == Query(name="totals", dialect="duckdb")


class Unnamed(Artifact):
    kind: str = "acme.other"


class Stateful(Query):
    state: str = ""


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"name": "query"}, "needs a namespace"),
        ({"model": Unnamed}, "default"),
        ({"model": Stateful}, "state"),
        ({"folder": "scripts"}, "belongs to script"),
        ({"folder": "agents"}, "plain folder name"),
        ({"folder": "../queries"}, "plain folder name"),
        ({"root_files": ("execute.py",)}, "outside its folder"),
    ],
)
@pytest.mark.usefixtures("own_kinds")
def test_a_row_that_cannot_be_served_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        add_kind(replace(QUERY, **changes))


@pytest.mark.usefixtures("own_kinds")
def test_two_plugins_cannot_bring_the_same_kind() -> None:
    add_kind(QUERY)
    with pytest.raises(ValueError, match="already"):
        add_kind(replace(QUERY, gives="text"))


@pytest.mark.parametrize("name", ["acme.query", "acme.sql-query", "a.b.c"])
def test_a_name_with_a_namespace_is_that_of_a_plugin(name: str) -> None:
    assert is_plugin_kind(name)


@pytest.mark.parametrize(
    "name", ["query", "acme.", ".query", "acme.Query", "acme.sql_query", "acme..q", "a." + "b" * 99]
)
def test_any_other_name_is_not(name: str) -> None:
    assert not is_plugin_kind(name)


def test_an_artifact_without_its_plugin_keeps_all_its_settings() -> None:
    settings = {"kind": "acme.query", "name": "totals", "content": "select 1", "dialect": "duckdb", "limits": [1, 2]}
    kept = parse_artifact(settings)
    assert isinstance(kept, UnknownArtifact)
    assert kept.model_dump(exclude_defaults=True) == settings
