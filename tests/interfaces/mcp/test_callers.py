"""The caller and the conversation of a request, in both versions of the protocol."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Implementation

from prowess.interfaces.auth.caller import agent_name
from prowess.interfaces.mcp.request import CONVERSATION_META
from prowess.policy.actor import agent_of, local_person

DRAFT = {
    "id": "draft",
    "name": "Draft",
    "description": "Writes drafts of letters.",
    "instructions": "# Draft\n\nWrite it.",
}
in_both_eras = pytest.mark.parametrize("mode", ["auto", "legacy"])


def client_info(name: str) -> Implementation:
    return Implementation(name=name, version="1")


@pytest.mark.long
@pytest.mark.anyio
async def test_what_one_client_wrote_another_does_not_use_unasked(over_stdio):
    # Over HTTP, the next test does the same in both versions of the protocol.
    mode = "auto"
    async with over_stdio(mode, client_info=client_info("Writer")) as client:
        created = await client.call_tool("skill_create", DRAFT)
        own = await client.call_tool("enable_skill", {"skill_slug": "draft"})
    assert not created.is_error, created.structured_content
    assert not own.is_error, own.structured_content
    async with over_stdio(mode, client_info=client_info("Other")) as client:
        refused = await client.call_tool("enable_skill", {"skill_slug": "draft"})
    assert refused.is_error
    assert refused.structured_content["approval_id"]
    async with over_stdio(mode, "--agent", "writer", client_info=client_info("Other")) as client:
        again = await client.call_tool("enable_skill", {"skill_slug": "draft"})
    assert not again.is_error, again.structured_content


@pytest.mark.anyio
@in_both_eras
async def test_over_http_the_agent_has_the_name_of_its_client(over_http, mode):
    slug = f"draft-{mode}"
    async with over_http(mode, client_info=client_info("Writer")) as client:
        created = await client.call_tool("skill_create", {**DRAFT, "id": slug})
    assert not created.is_error, created.structured_content
    async with over_http(mode, client_info=client_info("Other")) as client:
        refused = await client.call_tool("enable_skill", {"skill_slug": slug})
    assert refused.structured_content["approval_id"]
    async with over_http(mode, client_info=client_info("WRITER")) as client:
        own = await client.call_tool("enable_skill", {"skill_slug": slug})
    assert not own.is_error, own.structured_content


@pytest.mark.anyio
@in_both_eras
@pytest.mark.parametrize("named", [True, False])
async def test_the_client_names_the_agent_only_where_the_caller_lets_it(in_memory, engine, caller, mode, named):
    given = replace(caller, named_by_client=named)
    async with in_memory(mode, caller=given, client_info=client_info("Some\u202eClient@home")) as client:
        await client.call_tool("skill_create", DRAFT)
    (version,) = await engine.skills.history("draft")
    assert version.actor == ("agent:some client home" if named else "agent:agent")


@pytest.mark.parametrize(
    ("client", "name"),
    [
        ("Claude-Code", "claude-code"),
        ("a@b", "a b"),
        ("  x\n\ty\x00 ", "x y"),
        ("İ" * 100, "i̇" * 30),
        ("x" * 59 + " y", "x" * 59),
        ("", "agent"),
        ("@\u202e\ud800", "agent"),
    ],
)
def test_any_name_of_a_client_becomes_one_that_an_agent_can_have(client, name):
    assert agent_name(client, "agent") == name
    assert agent_of(local_person("ann"), name=name).label == f"agent:{name}"


@pytest.mark.anyio
@in_both_eras
@pytest.mark.parametrize("named", ["x" * 201, "a\nb", "a\u202eb", 7, ["a"]])
async def test_a_conversation_that_cannot_be_one_is_refused(in_memory, engine, mode, named):
    async with in_memory(mode) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("enable_skill", {"skill_slug": "release-notes"}, meta={CONVERSATION_META: named})
    assert refused.value.error.code == INVALID_PARAMS
    assert CONVERSATION_META in refused.value.error.message
    assert "200 printable characters" in refused.value.error.data["hint"]
    assert await engine.sessions.list() == []


@pytest.mark.anyio
@in_both_eras
async def test_a_conversation_of_200_characters_is_one(in_memory, engine, mode):
    named = "é" * 200
    async with in_memory(mode) as client:
        await client.call_tool("enable_skill", {"skill_slug": "release-notes"}, meta={CONVERSATION_META: named})
    assert [session.conversation for session in await engine.sessions.list()] == [named]


@pytest.mark.anyio
@in_both_eras
async def test_a_conversation_of_somebody_else_is_an_unknown_one(in_memory, engine, caller, mode):
    given = replace(caller, named_by_client=True)
    session = await engine.enable("release-notes", session=await engine.sessions.open("mine"))
    async with in_memory(mode, caller=given, client_info=client_info("Victim")) as client:
        await client.call_tool("enable_skill", {"skill_slug": "release-notes"}, meta={CONVERSATION_META: "theirs"})
    before = {each.id: each.enabled for each in await engine.sessions.list()}
    theirs = next(each for each in await engine.sessions.list() if each.conversation == "theirs")

    async with in_memory(mode, caller=given, client_info=client_info("Intruder")) as client:
        for named in ("mine", "theirs", session.id, theirs.id, "unknown"):
            meta = {CONVERSATION_META: named}
            listed = await client.call_tool("list_enabled_skills", {}, meta=meta)
            disabled = await client.call_tool("disable_skill", {"skill_slug": "release-notes"}, meta=meta)
            assert listed.structured_content["enabled_skills"] == [], named
            assert disabled.is_error, named
            await client.call_tool("enable_skill", {"skill_slug": "release-notes"}, meta=meta)

    after = {each.id: each for each in await engine.sessions.list()}
    assert {key: after[key].enabled for key in before} == before
    assert {after[key].actor for key in after.keys() - before.keys()} == {"agent:intruder"}
    assert len(after) == len(before) + 5
