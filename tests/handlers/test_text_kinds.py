"""The kinds that are text: running one gives what its author wrote, and executes nothing."""

from __future__ import annotations

import asyncio

import pytest

from prowess.errors import Invalid, NotFound
from prowess.handlers.text import text_handlers
from prowess.skill.kinds import Approach, Asset, Description, Example, Instructions, Reference
from prowess.skill.model import Skill

FILES = {
    "references/guide.md": "# Führer\n".encode(),
    "assets/old.txt": "Stra\xdfe".encode("latin-1"),
    "assets/wide.txt": "wide".encode("utf-16"),
    "assets/logo.png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
}


async def read_file(skill: Skill, path: str) -> bytes:
    if path not in FILES:
        raise NotFound(f"{skill.slug!r} has no file {path!r}.")
    return FILES[path]


HANDLERS = {handler.kind: handler for handler in text_handlers(read_file)}


@pytest.fixture
def run(new_call):
    """The output of an artifact."""

    def ran(artifact):
        skill = Skill(slug="checker", title="C", description="Checks.", artifacts=(artifact,))
        return asyncio.run(HANDLERS[artifact.kind].run(new_call(skill, artifact, {"name": "Älva"})))

    return ran


def test_there_is_a_handler_for_each_kind_of_text_and_none_for_scripts():
    assert sorted(HANDLERS) == ["approach", "asset", "description", "example", "instructions", "reference"]


@pytest.mark.parametrize("kind", [Description, Instructions, Approach, Example])
def test_a_text_is_given_as_it_is_written(run, kind):
    artifact = kind(name="a", content="  Say {{ name }}, <b>{% raw %}.\n")
    output = run(artifact)

    assert (output.kind, output.text, output.data) == (artifact.kind, artifact.content, None)


@pytest.mark.parametrize(
    ("artifact", "text"),
    [
        (Reference(name="guide", path="references/guide.md"), "# Führer\n"),
        (Asset(name="old", path="assets/old.txt"), "Straße"),
        (Asset(name="wide", path="assets/wide.txt"), "wide"),
        (Reference(name="inline", path=None, content="Here."), "Here."),
    ],
)
def test_a_file_is_given_as_text_in_whatever_encoding_it_is(run, artifact, text):
    output = run(artifact)

    assert (output.kind, output.text) == (artifact.kind, text)


def test_a_file_that_is_not_text_is_refused(run):
    with pytest.raises(Invalid, match="is a binary file"):
        run(Asset(name="logo", path="assets/logo.png"))


def test_a_file_that_is_not_there_is_not_found(run):
    with pytest.raises(NotFound):
        run(Reference(name="gone", path="references/gone.md"))
