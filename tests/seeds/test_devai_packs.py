"""Devai: the prompt sections of the coordinator (CHAPO) and the builder (DEVO) are packs, in English and German."""

from __future__ import annotations

import re

import pytest

from prowess.engine.places import PACKS
from prowess.tools.toolbox import TOOL_ALIASES, builtin_tools

SECTIONS = {"coordinator": "## SKILLS\n", "builder": "## SKILL-ERSTELLUNG\n"}


@pytest.mark.parametrize("role", SECTIONS)
def test_each_tool_that_the_section_names_is_in_both_languages_of_the_pack(printed, role) -> None:
    section = printed("devai", SECTIONS[role], "```")
    tools = {TOOL_ALIASES.get(name, name) for name in re.findall(r"\bskill_\w+", section)}
    assert tools
    for file in ("SKILL.md", "references/german.md"):
        text = (PACKS / role / file).read_text(encoding="utf-8")
        assert all(f"`{tool}`" in text for tool in tools), file


@pytest.mark.parametrize("role", SECTIONS)
def test_a_pack_names_only_tools_that_exist(role) -> None:
    for file in ("SKILL.md", "references/german.md"):
        text = (PACKS / role / file).read_text(encoding="utf-8")
        assert set(re.findall(r"`((?:skill_|search_|list_)[a-z_]+)`", text)) - {"skill_"} <= set(builtin_tools()), file


def test_the_builder_knows_everything_that_the_context_offers(printed) -> None:
    offered = re.findall(r"\b(fetch|env|readFile|writeFile|log)\b", printed("devai", "ctx bietet: ", "\n"))
    assert len(offered) == 5
    for file in ("SKILL.md", "references/german.md"):
        text = (PACKS / "builder" / file).read_text(encoding="utf-8")
        assert all(f"ctx.{name}" in text for name in offered), file


@pytest.mark.anyio
async def test_the_sections_are_handed_out_as_prompts_of_their_roles(place) -> None:
    async with place.open() as prowess:
        for role in SECTIONS:
            prompt = await prowess.roles.prompt(role)
            assert (prompt.source, "`list_skills`" in prompt.text) == ("pack", True)
