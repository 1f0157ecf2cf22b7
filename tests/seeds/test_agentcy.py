"""Agentcy: PostgreSQL Health Triage, one markdown document, as its page prints it."""

from __future__ import annotations

import pytest

from prowess.skill.forms import read_package, write_package
from prowess.skill.package import Package


@pytest.fixture
def markdown(printed):
    return printed("agentcy", "markdown\n---\n", "The body is prose", keep="---\n")


@pytest.fixture
def triage(markdown):
    return Package.of_texts("health-triage.md", {"health-triage.md": markdown})


def test_the_printed_document_is_recognised_and_read(triage):
    reading = read_package(triage)
    skill = reading.skill
    assert reading.form == "agentcy"
    assert read_package(triage).form == "agentcy"
    assert reading.problems == ()
    assert skill.slug == "postgres.health-triage"
    assert skill.title == "PostgreSQL Health Triage"
    assert skill.version == "1.2.0"
    assert skill.author == "agentcy/community"
    assert skill.tags == ("database", "postgres", "sre")
    assert skill.description.startswith("Diagnose slow queries")


def test_its_body_is_one_artifact_of_instructions(triage, markdown):
    skill = read_package(triage).skill
    body = markdown.split("---\n", 2)[2]
    assert [(artifact.kind, artifact.name) for artifact in skill.artifacts] == [("instructions", "instructions")]
    assert skill.body == body
    assert skill.body.startswith("# PostgreSQL Health Triage\n")
    assert skill.body.endswith("max_connections")


def test_a_document_with_a_slug_is_agentcys_also_when_it_is_called_skill_md(markdown):
    assert read_package(Package.of_texts("triage", {"SKILL.md": markdown})).form == "agentcy"


def test_it_comes_back_from_the_native_form_byte_for_byte(triage):
    native = write_package(read_package(triage).skill, triage, "native")
    assert native.left_out == ()
    assert native.package.name == "health-triage"
    again = read_package(native.package)
    assert again.skill.slug == "postgres.health-triage"
    assert again.problems == ()
    back = write_package(again.skill, native.package, "agentcy")
    assert back.left_out == ()
    assert back.package.get("health-triage.md").content == triage.files[0].content


def test_the_native_skill_md_has_only_the_standards_fields(triage):
    native = write_package(read_package(triage).skill, triage, "native").package
    assert set(read_package(native).document.fields) == {"name", "description"}
    assert read_package(native).document.fields["name"] == "health-triage"


def test_written_afresh_it_has_the_fields_in_the_order_of_the_page(triage):
    skill = read_package(triage).skill
    fresh = write_package(skill, Package(name="", files=()), "agentcy").package
    assert fresh.paths == ("postgres.health-triage.md",)
    document = read_package(fresh).document
    assert list(document.fields) == ["name", "slug", "description", "version", "author", "tags"]
    assert document.body == skill.body
