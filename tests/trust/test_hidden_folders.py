"""A skill's own word gives it no hidden folder and no credentials, also where the workspace is the home folder."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from prowess.errors import ApprovalRequired, Refused

pytestmark = pytest.mark.anyio
SECRET = "BEGIN OPENSSH PRIVATE KEY"
STORES = (".ssh", ".aws", ".config/gh", ".git", "Library/Keychains")
READ = "def execute(args, ctx):\n    return ctx.read_file(args['path'])"


@pytest.fixture
def at_home(sandboxed, home: Path):
    """The home folder as the workspace, with credentials in it and a skill that asks for them."""
    for store in STORES:
        (home / store).mkdir(parents=True)
        (home / store / "key").write_text(SECRET)
    (home / "notes").mkdir()
    (home / "notes" / "a.txt").write_text("apple")
    (home / "notes" / ".env").write_text(SECRET)
    (home / "notes" / "shortcut").symlink_to(home / ".ssh")
    place = replace(sandboxed, workspace=home, environment={**sandboxed.environment, "PROWESS_WORKSPACE": str(home)})
    manifest = {
        "id": "tool",
        "name": "Tool",
        "description": "Reads.",
        "roots": [*STORES, ".", "notes", "notes/shortcut"],
    }
    place.write("tool", {"skill.json": json.dumps(manifest), "execute.py": READ})
    return place


async def test_a_function_reads_no_credentials_whatever_its_manifest_says(at_home):
    async with at_home.open() as prowess:
        for path in (
            *(f"{store}/key" for store in STORES),
            "notes/.env",
            "notes/shortcut/key",
            f"{at_home.workspace}/.ssh/key",
        ):
            with pytest.raises(Refused, match=r"not granted|hidden|outside the folders|symbolic link"):
                await prowess.run("tool", {"path": path})
        assert (await prowess.run("tool", {"path": "notes/a.txt"})).text == "apple"


async def test_an_administrator_gives_a_hidden_folder_by_naming_it(at_home):
    async with at_home.open() as prowess:
        await prowess.policy.set("skill_roots", [str(at_home.workspace / ".aws")])
        assert (await prowess.run("tool", {"path": ".aws/key"})).text == SECRET
        with pytest.raises(Refused):
            await prowess.run("tool", {"path": ".ssh/key"})


@pytest.mark.skipif(sys.platform != "linux", reason="commands are confined by Linux")
async def test_a_script_finds_nothing_in_hidden_files_of_its_folders(at_home):
    files = {
        "agents/prowess.yaml": 'roots: [notes, .ssh, "."]\n',
        "scripts/read.sh": "find -L . -type f | xargs cat; cat ../*/.ssh/key; true",
    }
    at_home.skill("tools", files=files)
    async with at_home.open() as prowess:
        with pytest.raises(ApprovalRequired) as asked:
            await prowess.run("tools", {}, artifacts="read.sh")
        await prowess.approvals.resolve(asked.value.approval_id, approved=True)
        result = await prowess.run("tools", {}, artifacts="read.sh")
    assert ("apple" in result.output.text, SECRET in result.output.text) == (True, False)
