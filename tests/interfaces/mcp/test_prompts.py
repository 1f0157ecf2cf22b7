"""Skills as prompts, which clients show to people as slash commands."""

from __future__ import annotations

import asyncio

import pytest
from mcp import Client
from mcp.server.subscriptions import PromptsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ElicitResult, PromptListChangedNotification
from tests.cpu import cpu_limit

from prowess.errors import Invalid
from prowess.interfaces.mcp.prompts import fill_arguments
from prowess.interfaces.mcp.protocol import PROMPTS_PER_PAGE, REFUSED
from prowess.interfaces.mcp.server import make_security, make_server
from prowess.open import Prowess

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("mode", ["auto", "legacy"])

PATIENCE = 60


def frontmatter(name: str, *lines: str, body: str = "Do it.") -> str:
    return "\n".join(["---", f"name: {name}", f"description: What {name} does.", *lines, "---", "", body, ""])


async def listed(client):
    return {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}


async def text_of(client, name, arguments=None):
    return (await client.get_prompt(name, arguments)).messages[-1].content.text


@both
async def test_skills_with_text_are_prompts_with_title_and_description(connect, mode):
    async with connect(mode) as client:
        assert client.server_capabilities.prompts.list_changed
        found = await listed(client)
        assert {"invoice-reader", "release-notes"} <= found.keys()
        notes = found["release-notes"]
        assert (notes.title, notes.description) == ("Release notes", "Writes release notes from merged changes.")
        assert [(one.name, one.required) for one in notes.arguments] == [("arguments", False)]
        assert "Write." in await text_of(client, "release-notes")


@both
async def test_the_author_says_who_may_start_a_skill(in_memory, write_skill, mode):
    write_skill("background", frontmatter("background", "user-invocable: false"))
    write_skill("by-hand", frontmatter("by-hand", "disable-model-invocation: true"))
    async with in_memory(mode) as client:
        assert sorted(await listed(client)) == ["by-hand", "invoice-reader", "release-notes"]
        with pytest.raises(MCPError, match="Unknown prompt 'background'") as unknown:
            await client.get_prompt("background")
        assert unknown.value.error.code == INVALID_PARAMS
        assert "Do it." in await text_of(client, "by-hand")


@both
async def test_an_agent_reads_the_files_of_a_skill_for_people_only_once_a_person_has_started_it(
    in_memory, write_skill, mode
):
    write_skill(
        "by-hand", frontmatter("by-hand", "disable-model-invocation: true"), **{"references/hosts.md": "Two hosts."}
    )
    asked = {"skill": "by-hand", "reference": "hosts.md"}
    async with in_memory(mode) as client:
        assert "only people start this skill" in str(await client.call_tool("load_skill", asked))
        await text_of(client, "by-hand")
        assert "Two hosts." in str(await client.call_tool("load_skill", asked))


@both
async def test_packs_of_roles_are_not_prompts(in_memory, mode):
    async with in_memory(mode) as client:
        with pytest.raises(MCPError, match="Unknown prompt 'backend'"):
            await client.get_prompt("backend")


@both
async def test_declared_arguments_are_filled_in(in_memory, write_skill, mode):
    fields = ["arguments: issue branch", "argument-hint: '[issue] [branch]'"]
    write_skill("fix", frontmatter("fix", *fields, body="Fix $issue on $1, costs $5."))
    async with in_memory(mode) as client:
        prompt = (await listed(client))["fix"]
        assert [one.name for one in prompt.arguments] == ["issue", "branch"]
        assert prompt.arguments[0].description == "[issue] [branch]"
        assert "Fix 17 on main, costs $5." in await text_of(client, "fix", {"issue": "17", "branch": "main"})


@both
async def test_a_hint_that_yaml_reads_as_a_list_is_shown_as_written(in_memory, write_skill, mode):
    write_skill("fix", frontmatter("fix", "argument-hint: [issue, branch]"))
    async with in_memory(mode) as client:
        assert (await listed(client))["fix"].arguments[0].description == "[issue, branch]"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("Look.", "Look.\n\nARGUMENTS: the old one"),
        ("Look at $ARGUMENTS now.", "Look at the old one now."),
        ("$ARGUMENTS[1] or $2, not $3 nor $HOME", "old or one, not $3 nor $HOME"),
        (r"\$1.00 for $1, \\$2 and \$HOME, \$ARGUMENTS", r"$1.00 for old, \\one and \$HOME, $ARGUMENTS"),
    ],
)
def test_free_arguments_are_filled_in_as_claude_does(body, text):
    assert fill_arguments(body, ["arguments"], {"arguments": "the old one"}) == text


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("'the old one' now", "the old one, now; 'the old one' now"),
        ('src/a.py "last week"', 'src/a.py, last week; src/a.py "last week"'),
        ("don't touch", "don't, touch; don't touch"),
        ("one", "one, $ARGUMENTS[1]; one"),
    ],
)
def test_a_person_quotes_words_that_belong_together(typed, text):
    assert fill_arguments("$0, $ARGUMENTS[1]; $ARGUMENTS", ["arguments"], {"arguments": typed}) == text


def test_long_arguments_are_filled_in_at_once_and_too_often_repeated_ones_not_at_all():
    long = '"' + "a " * 300_000
    with cpu_limit(5):
        assert fill_arguments("$1", ["arguments"], {"arguments": long}) == "a"
        with pytest.raises(Invalid, match="longer than the limit of 1,000,000 characters"):
            fill_arguments("$ARGUMENTS " * 9_000, ["arguments"], {"arguments": long})


@both
async def test_names_of_arguments_may_have_hyphens(in_memory, write_skill, mode):
    write_skill(
        "fix", frontmatter("fix", "arguments: [issue, issue-number]", body="$issue: $issue-number, $issue-x, $0")
    )
    async with in_memory(mode) as client:
        assert [one.name for one in (await listed(client))["fix"].arguments] == ["issue", "issue-number"]
        assert "bug: 17, bug-x, bug" in await text_of(client, "fix", {"issue": "bug", "issue-number": "17"})


@both
async def test_arguments_that_are_left_out_are_empty_and_move_no_others(in_memory, write_skill, mode):
    write_skill("fix", frontmatter("fix", "arguments: issue branch", body="<$issue|$branch|$0|$1|$2|$ARGUMENTS>"))
    async with in_memory(mode) as client:
        assert "<|main||main|$2|main>" in await text_of(client, "fix", {"branch": "main"})
        assert "<||$0|$1|$2|>" in await text_of(client, "fix")
    assert fill_arguments("<$issue>", ["issue", "branch"], {"branch": "main"}) == "<>\n\nARGUMENTS:\n- branch: main"


@both
async def test_a_prompt_template_is_rendered_with_its_inputs(in_memory, workspace, write_files, mode):
    sidecar = "parameters:\n  type: object\n  properties:\n    name: {type: string, description: Who.}\n"
    sidecar += "    times: {type: integer, default: 1}\n  required: [name]\n"
    files = {
        "SKILL.md": "---\nname: greeter\ndescription: Greets people.\n---\n",
        "agents/prowess.yaml": sidecar,
        "prompts/greet.j2": "Greet {{ name }} {{ times + 1 }} times.",
    }
    write_files(workspace / ".agents/skills/greeter", files)
    async with in_memory(mode) as client:
        arguments = (await listed(client))["greeter"].arguments
        assert [(one.name, one.required, one.description) for one in arguments] == [
            ("name", True, "Who."),
            ("times", False, None),
        ]
        assert await text_of(client, "greeter", {"name": "Ada", "times": "2"}) == "Greet Ada 3 times."
        with pytest.raises(MCPError, match="name"):
            await client.get_prompt("greeter", {})


@both
async def test_a_prompt_passes_the_gate_and_the_person_is_asked(engine, in_memory, mode):
    await engine.policy.set("skill_enablement_policy", "prompt-user")

    async def approve(_, __):
        return ElicitResult(action="accept", content={"approve": True})

    async with in_memory(mode) as client:
        with pytest.raises(MCPError) as refused:
            await client.get_prompt("release-notes")
        assert refused.value.error.code == REFUSED
        assert refused.value.error.data["approval_id"]
    async with in_memory(mode, elicitation_callback=approve) as client:
        assert "Write." in await text_of(client, "release-notes")


async def test_a_skill_that_nobody_accepted_is_not_a_prompt(workspace, caller, monkeypatch):
    monkeypatch.delenv("PROWESS_TRUSTED_FOLDERS", raising=False)
    async with Prowess.open(workspace) as engine:
        server = make_server(engine, caller, security=make_security([b"k" * 32], caller))
        async with Client(server) as client:
            assert await listed(client) == {}
            with pytest.raises(MCPError) as refused:
                await client.get_prompt("release-notes")
    assert "Write." not in str(refused.value.error)


async def test_many_prompts_come_in_pages(in_memory, write_skill):
    names = [f"skill-{number:03}" for number in range(2 * PROMPTS_PER_PAGE)]
    for name in names:
        write_skill(name)
    async with in_memory("auto") as client:
        pages = [await client.list_prompts()]
        while pages[-1].next_cursor:
            pages.append(await client.list_prompts(cursor=pages[-1].next_cursor))
    assert [len(page.prompts) for page in pages] == [PROMPTS_PER_PAGE, PROMPTS_PER_PAGE, 2]
    found = [prompt.name for page in pages for prompt in page.prompts]
    assert found == ["invoice-reader", "release-notes", *names]


async def test_new_prompts_are_announced_in_both_versions_of_the_protocol(in_memory, write_skill):
    arrived = asyncio.Event()

    async def note(message):
        if isinstance(message, PromptListChangedNotification):
            arrived.set()

    async with (
        in_memory("legacy", message_handler=note) as old,
        in_memory("auto") as new,
        new.listen(prompts_list_changed=True) as events,
    ):
        await old.list_prompts()
        write_skill("brand-new")
        await asyncio.wait_for(arrived.wait(), PATIENCE)
        assert await asyncio.wait_for(anext(aiter(events)), PATIENCE) == PromptsListChanged()
        assert "brand-new" in await listed(new)
