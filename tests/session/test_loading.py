"""Loading one text of a skill: by exact name, through the gate, with every fault told in the answer."""

from __future__ import annotations

import os
from typing import Any

import pytest

from prowess.errors import NotFound, ProwessError, Refused
from prowess.policy.actor import Actor, agent_of

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann")
AGENT = agent_of(ANN)
FIELDS = {
    "name",
    "body",
    "available_references",
    "available_scripts",
    "reference_content",
    "script_content",
    "error",
}
HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "../other/references/secret.md",
    "references/../references/locks.md",
    "./locks.md",
    "references//locks.md",
    "/etc/passwd",
    "C:\\secret",
    "references\\locks.md",
    "Locks.md",
    "LOCKS.MD",
    "locks.md ",
    "locks.md\0",
    "locks.md\n",
    "locks\u200b.md",
    "ｌocks.md",
    "%2e%2e/secret.md",
    "secret.md",
    "SKILL.md",
    "\ud800",
    "x" * 100_000,
]
"""None of these is the name of a reference; `secret.md` is one of another skill."""


@pytest.fixture
def filled(each_place: Any) -> Any:
    """A skill with files of all kinds, and another one whose files are none of its business."""
    each_place.skill(
        "triage",
        files={
            "references/locks.md": "# Locks\r\n",
            "references/deep/more.md": "More.",
            "scripts/top.sh": "#!/bin/sh\nps\n",
            "scripts/raw.bin": b"\xff\x00",
            "assets/logo.png": bytes(range(256)),
        },
    )
    each_place.skill("other", files={"references/secret.md": "CANARY"})
    return each_place


async def test_the_body_a_reference_and_a_script_are_loaded_one_at_a_time(filled: Any):
    async with filled.open() as engine:
        body = await engine.load("triage")
        assert body == {
            "name": "triage",
            "body": "# triage\n\nDo it well.",
            "available_references": ["deep/more.md", "locks.md"],
            "available_scripts": ["raw.bin", "top.sh"],
            "reference_content": None,
            "script_content": None,
            "error": None,
        }
        same = {**body, "body": None}
        assert await engine.load("triage", reference="locks.md") == {**same, "reference_content": "# Locks\r\n"}
        assert await engine.load("triage", reference="references/locks.md") == {
            **same,
            "reference_content": "# Locks\r\n",
        }
        assert await engine.load("triage", script="top.sh") == {**same, "script_content": "#!/bin/sh\nps\n"}


async def test_documents_and_scripts_in_other_places_are_loaded_by_their_path(each_place: Any):
    files = {"FORMS.md": "Fill.", "docs/more.md": "More.", "tools/conv.py": "print()", "agents/prowess.yaml": "{}"}
    each_place.skill("triage", files={**files, "scripts/top.sh": "ps"})
    async with each_place.open() as engine:
        assert (await engine.load("triage", reference="FORMS.md"))["reference_content"] == "Fill."
        assert (await engine.load("triage", reference="docs/more.md"))["reference_content"] == "More."
        assert (await engine.load("triage", script="tools/conv.py"))["script_content"] == "print()"
        # A role that may not load scripts gets none of them as a reference.
        for path in ("tools/conv.py", "scripts/top.sh", "SKILL.md", "agents/prowess.yaml"):
            assert "has no reference" in (await engine.load("triage", reference=path))["error"]


async def test_nothing_but_the_exact_name_of_a_reference_gives_its_content(filled: Any):
    (filled.workspace / ".agents/skills/triage/references/link.md").symlink_to("/etc/passwd")
    (filled.workspace / ".agents/skills/triage/references/up.md").symlink_to("../../other/references/secret.md")
    async with filled.open() as engine:
        for name in [*HOSTILE, "link.md", "up.md"]:
            for told in (await engine.load("triage", reference=name), await engine.load("triage", script=name)):
                assert (told["body"], told["reference_content"], told["script_content"]) == (None, None, None)
                assert told["error"]
                assert told["hint"]
                assert len(told["error"]) < 2_000
                assert "CANARY" not in str(told)


async def test_nothing_but_the_exact_path_of_a_file_gives_its_bytes(filled: Any):
    async with filled.open() as engine:
        assert await engine.skills.resource("triage", "assets/logo.png") == bytes(range(256))
        for path in [*HOSTILE, "locks.md", "assets", "assets/"]:
            if path == "SKILL.md":
                continue
            with pytest.raises(ProwessError) as caught:
                await engine.skills.resource("triage", path)
            assert isinstance(caught.value, NotFound)
            assert caught.value.hint


async def test_a_skill_by_a_hostile_name_is_an_error_in_the_answer(filled: Any):
    async with filled.open() as engine:
        for name in [*HOSTILE, "Triage", "nowhere:triage", "system:triage", "triage/", "triage\0"]:
            told = await engine.load(name)
            assert set(told) == FIELDS | {"hint"}
            assert (told["name"], told["body"], told["available_references"]) == (name, None, [])
            assert "not found" in told["error"]
            with pytest.raises(ProwessError):
                await engine.skills.resource(name, "SKILL.md")


async def test_what_is_not_text_is_an_error_in_the_answer(filled: Any):
    async with filled.open() as engine:
        assert "binary file" in (await engine.load("triage", script="raw.bin"))["error"]


async def test_every_load_is_told_with_its_fields_and_none_with_an_endless_name(filled: Any):
    async with filled.open() as engine:
        session = await engine.sessions.open("chat")
        await engine.load("triage", reference="locks.md", session="chat")
        await engine.load("triage", script="gone.sh", session=session)
        await engine.load("a\0b" + "x" * 100_000)
    async with filled.open() as engine:
        events = await engine.events.list(names=["skill_loaded"])
        first, second, third = [event.data for event in events]
        assert [event.session for event in events] == [session.id, session.id, ""]
        assert all(list(data) == list(first) for data in (second, third))
        assert sorted(first) == ["duration_s", "error", "name", "reference", "script", "source"]
        assert (first["name"], first["reference"], first["script"], first["error"]) == (
            "triage",
            "locks.md",
            None,
            None,
        )
        assert first["source"].startswith("workspace:")
        assert first["duration_s"] > 0
        assert (second["script"], "no script" in second["error"]) == ("gone.sh", True)
        assert len(third["name"]) <= 200
        assert "not found" in third["error"]


async def test_a_file_that_is_read_as_a_resource_is_a_load_too(filled: Any):
    async with filled.open(ANN) as engine:
        session = await engine.sessions.open("chat")
        await engine.skills.resource("triage", "SKILL.md", session=session)
        await engine.skills.resource("triage", "scripts/top.sh")
        for name, path in (("triage", "gone.md"), ("nothing", "SKILL.md")):
            with pytest.raises(NotFound):
                await engine.skills.resource(name, path)
    async with filled.open(ANN) as engine:
        events = await engine.events.list(names=["skill_loaded"])
        told = [(event.data["name"], event.data["reference"], event.data["script"]) for event in events]
        assert told == [
            ("triage", "SKILL.md", None),
            ("triage", None, "scripts/top.sh"),
            ("triage", "gone.md", None),
            ("nothing", "SKILL.md", None),
        ]
        assert [event.session for event in events] == [session.id, "", "", ""]
        assert [event.data["error"] is None for event in events] == [True, True, False, False]
        assert events[0].data["source"].startswith("workspace:")
        assert [card.slug for card, _ in await engine.skills.unused(days=1)] == ["other"]
        assert b'skill_load_total{name="triage",source="workspace"} 2.0' in await engine.events.metrics()


async def test_a_skill_that_needs_approval_is_not_loaded_before_it(filled: Any):
    async with filled.open(ANN) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        await engine.sessions.open("chat")
        waits = await engine.as_actor(AGENT).load("triage", session="chat")
        assert (waits["body"], bool(waits["hint"])) == (None, True)
        (row,) = await engine.approvals.list()
        assert waits["approval_id"] == row.id
        for options in ({"reference": "locks.md"}, {"script": "top.sh"}):
            told = await engine.as_actor(AGENT).load("triage", session="chat", **options)
            assert (told["approval_id"], told["reference_content"], told["script_content"]) == (row.id, None, None)
        with pytest.raises(Refused):
            await engine.as_actor(AGENT).skills.resource("triage", "assets/logo.png", session="chat")
        with pytest.raises(Refused) as same:
            await engine.as_actor(AGENT).enable("triage", session="chat")
        assert same.value.approval_id == row.id
        await engine.approvals.resolve(row.id, approved=True)
        assert (await engine.as_actor(AGENT).load("triage", session="chat"))["error"] is None
        assert (await engine.as_actor(AGENT).load("triage", script="top.sh"))["error"] is None
        (filled.workspace / ".agents/skills/triage/scripts/top.sh").write_text("rm -rf /\n")
        told = await engine.as_actor(AGENT).load("triage", script="top.sh", session="chat")
        assert (told["script_content"], "has changed since the last approval" in told["error"]) == (None, True)
        assert (await engine.as_actor(AGENT).load("triage", session="chat"))["body"] is None


async def test_an_administrators_skill_is_not_loaded_for_an_agent(place: Any):
    place.skill("triage")
    async with place.open(ANN) as engine:
        await engine.policy.set("skill_enablement_policy", "admin-only")
        told = await engine.as_actor(AGENT).load("triage")
        assert (told["body"], "approval_id" in told) == (None, False)
        assert "administrator" in told["hint"].lower()
        assert (await engine.load("triage"))["error"] is None


async def test_a_hidden_skill_is_loaded_by_its_scope(place: Any):
    place.skill("triage", "Near.")
    async with place.open() as engine:
        folder = place.workspace.parent / "given" / "triage"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text("---\nname: triage\ndescription: Far.\n---\n\nFar.\n")
        await engine.skills.import_path(folder, scope="account")
        assert (await engine.load("account:triage"))["body"] == "Far."
        assert (await engine.load("triage"))["body"] == "# triage\n\nNear."


async def test_a_file_that_was_exchanged_with_its_old_date_is_seen_as_it_is(place: Any):
    folder = place.skill("triage", files={"references/locks.md": "Locks."})
    async with place.open() as engine:
        await engine.load("triage")
        file = folder / "references/locks.md"
        moment = file.stat()
        file.write_text("Rocks.")
        os.utime(file, ns=(moment.st_atime_ns, moment.st_mtime_ns))
        assert (await engine.load("triage", reference="locks.md"))["reference_content"] == "Rocks."
        assert await engine.skills.resource("triage", "references/locks.md") == b"Rocks."
