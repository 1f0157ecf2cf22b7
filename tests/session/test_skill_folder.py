"""The folder of a skill in its text: what OpenClaw, Claude Code and Hermes fill in."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from prowess.policy.actor import Actor

pytestmark = pytest.mark.anyio

LOCAL = Actor(name="ann")
REMOTE = Actor(name="ann", channel="http")
BODY = "`{baseDir}/scripts/a.sh` `${CLAUDE_SKILL_DIR}/scripts/a.sh` `${HERMES_SKILL_DIR}/scripts/a.sh`"


async def read(place: Any, actor: Actor = LOCAL) -> str:
    async with place.open(actor) as engine:
        return (await engine.load("cutter"))["body"]


@pytest.mark.parametrize("written", ["{baseDir}", "{{baseDir}}", "${SKILL_DIR}"])
async def test_a_reader_at_this_machine_gets_the_path_of_the_folder(place: Any, written: str):
    folder = place.skill("cutter", BODY.replace("{baseDir}", written))
    assert (await read(place)).count(f"`{folder}/scripts/a.sh`") == 3


async def test_a_variable_that_the_commands_of_a_skill_set_is_not_filled_in(place: Any):
    text = 'SKILL_DIR="$HOME/skills"; "${SKILL_DIR}/a.sh"'
    place.skill("cutter", text)
    assert [(await read(place, actor)).endswith(text) for actor in (LOCAL, REMOTE)] == [True, True]


async def test_a_reader_elsewhere_gets_paths_inside_the_skill(place: Any):
    place.skill("cutter", f"{BODY} {{baseDir}}")
    text = await read(place, REMOTE)
    assert text.endswith("`scripts/a.sh` `scripts/a.sh` `scripts/a.sh` {baseDir}")


async def test_the_prompt_has_the_path_and_its_budget_counts_it(place: Any):
    folder = place.skill("cutter", BODY)
    async with place.open(LOCAL) as engine:
        session = await engine.sessions.create()
        session = await engine.enable("cutter", session=session.id)
        text = await engine.prompt(session.id)
        assert (text.count(f"{folder}/scripts/a.sh"), session.budget.used) == (3, len(text))
        assert "{baseDir}/scripts/a.sh" in (await engine.skills.get("cutter")).body


async def test_a_folder_whose_name_a_shell_would_run_is_not_filled_in(place: Any):
    folder = place.skill("cutter", BODY)
    hostile = folder.with_name("a$(id)")
    shutil.move(folder, hostile)
    text = await read(place)
    assert (text.count("`scripts/a.sh`"), "$(id)" in text) == (3, False)


async def test_the_root_of_a_plugin_is_filled_in_for_its_skills_only(place: Any):
    text = "`${CLAUDE_PLUGIN_ROOT}/lib/a.sh` `${baseDir}`"
    folder = place.skill("cutter", text)
    assert (await read(place)).endswith(text)
    root = Path(folder.parent.parent)
    (root / ".claude-plugin").mkdir()
    (root / ".claude-plugin" / "plugin.json").write_text('{"name": "media"}')
    assert (await read(place)).endswith(f"`{root}/lib/a.sh` `${{baseDir}}`")
