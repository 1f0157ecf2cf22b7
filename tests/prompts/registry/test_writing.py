"""Keeping prompts and rubrics for an organization: who may, what never changes, and what is written down."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from prowess.errors import Conflict, Invalid, NotFound, ProwessError, Refused
from prowess.policy.actor import Actor, agent_of
from prowess.prompts.database_shelf import DatabaseShelf, RegistryWriter
from prowess.prompts.shelf import read_entry
from prowess.storage.audit_chain import verify_audit
from prowess.storage.ledger import read_audit


@pytest.fixture
def writer(database):
    return RegistryWriter(lambda: database)


@pytest.fixture
def shelf(database):
    return DatabaseShelf(lambda: database, lambda: True)


def entry_of(document, name="x.json"):
    return read_entry("prompt", name, json.dumps(document).encode())


def kept(shelf, organization="acme"):
    return [entry.label for entry in shelf.entries("prompt", organization)]


def audit(database, organization="acme"):
    with database.read() as connection:
        return read_audit(connection, organization, after=0, limit=100)


def test_a_prompt_is_kept_once_and_adding_the_same_again_changes_nothing(writer, shelf, ann, prompt_document):
    assert writer.add(ann, entry_of(prompt_document())) is True
    assert writer.add(ann, entry_of(dict(reversed(prompt_document().items())))) is False
    assert kept(shelf) == ["outline@1.0.0"]


def test_a_version_that_is_kept_never_changes(writer, shelf, ann, prompt_document):
    writer.add(ann, entry_of(prompt_document()))
    with pytest.raises(Conflict):
        writer.add(ann, entry_of(prompt_document(template="Another.")))
    (entry,) = shelf.entries("prompt", "acme")
    assert entry.value.template == "Outline {{topic}}."


def test_a_template_that_stands_alone_keeps_its_syntax(writer, shelf, ann):
    writer.add(ann, read_entry("prompt", "ask@1.0.0.j2", b"{{ question }}"))
    (entry,) = shelf.entries("prompt", "acme")
    assert (entry.label, entry.value.syntax, entry.value.template) == ("ask@1.0.0", "jinja", "{{ question }}")


def test_what_breaks_a_rule_or_has_no_semantic_version_is_not_kept(writer, shelf, ann, prompt_document):
    for document in ({"prompt_id": "a", "version": "1.0.0"}, prompt_document(version="2"), prompt_document(version="")):
        with pytest.raises(Invalid):
            writer.add(ann, entry_of(document))
    assert kept(shelf) == []


def test_a_version_is_removed_and_the_others_stay(writer, shelf, ann, prompt_document):
    writer.add(ann, entry_of(prompt_document()))
    writer.add(ann, entry_of(prompt_document(version="2.0.0")))
    writer.remove(ann, "prompt", "outline", "1.0.0")
    assert kept(shelf) == ["outline@2.0.0"]
    with pytest.raises(NotFound):
        writer.remove(ann, "prompt", "outline", "1.0.0")


def test_organizations_do_not_see_each_others_entries(writer, shelf, ann, prompt_document):
    bob = Actor(name="bob", organization="other", user="bob")
    writer.add(ann, entry_of(prompt_document()))
    assert kept(shelf, "other") == []
    with pytest.raises(NotFound):
        writer.remove(bob, "prompt", "outline", "1.0.0")
    writer.add(bob, entry_of(prompt_document(template="Theirs.")))
    assert (kept(shelf), kept(shelf, "other")) == (["outline@1.0.0"], ["outline@1.0.0"])


@pytest.mark.parametrize(
    "actor",
    [
        agent_of(Actor(name="ann", organization="acme", user="ann")),
        Actor(name="eve", organization="acme", permissions=frozenset({"skills.read"})),
        Actor(name="cyd", organization="acme", role="communicator"),
        Actor(name="cyd", organization="acme", role="no-such-role"),
    ],
    ids=["agent", "reader", "role", "unknown-role"],
)
def test_whoever_may_not_write_is_refused_and_the_attempt_is_written_down(
    writer, shelf, ann, prompt_document, database, actor
):
    writer.add(ann, entry_of(prompt_document()))
    with pytest.raises(Refused):
        writer.add(actor, entry_of(prompt_document(version="2.0.0")))
    with pytest.raises(Refused):
        writer.remove(actor, "prompt", "outline", "1.0.0")
    assert kept(shelf) == ["outline@1.0.0"]
    rows = [(row.actor, row.action, row.outcome) for row in audit(database)]
    assert rows[1:] == [(actor.label, "update", "denied"), (actor.label, "delete", "denied")]


def test_every_change_has_a_row_in_the_audit(writer, ann, prompt_document, database):
    writer.add(ann, entry_of(prompt_document()))
    writer.add(ann, entry_of(prompt_document()))
    with pytest.raises(Conflict):
        writer.add(ann, entry_of(prompt_document(template="Another.")))
    writer.remove(ann, "prompt", "outline", "1.0.0")
    rows = audit(database)
    assert [(row.action, row.outcome) for row in rows] == [
        *(("update", "added"), ("update", "same"), ("update", "conflict"), ("delete", "removed")),
    ]
    assert rows[0].detail["registry"] == "prompts"
    assert (rows[0].detail["id"], rows[0].detail["version"]) == ("outline", "1.0.0")
    assert rows[0].digest == rows[3].digest
    with database.read() as connection:
        assert verify_audit(connection, "acme").ok


def test_of_many_who_add_one_version_at_once_exactly_one_is_kept(writer, shelf, ann, prompt_document):
    def add(number):
        try:
            return writer.add(ann, entry_of(prompt_document(template=f"From {number}.")))
        except ProwessError as error:
            return type(error)

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(add, range(24)))
    assert outcomes.count(True) == 1
    assert outcomes.count(Conflict) == 23
    (entry,) = shelf.entries("prompt", "acme")
    assert entry.value.template == f"From {outcomes.index(True)}."


def test_where_there_is_no_database_yet_the_shelf_is_empty_and_none_is_made():
    def never():
        raise AssertionError

    assert DatabaseShelf(never, lambda: False).entries("prompt", "acme") == []


def test_odd_characters_are_kept_as_they_are(writer, shelf, ann):
    template = "a\tb\u2028c\xa0{{x}} \U0001f600"
    writer.add(ann, read_entry("prompt", "odd@1.0.0.mustache", template.encode()))
    (entry,) = shelf.entries("prompt", "acme")
    assert entry.value.template == template
