"""Inklings: a workspace skill overrides the account's and the system's of the same name, so a fork is one step."""

from __future__ import annotations

from typing import Any

import pytest

from prowess.errors import Conflict

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("scope", ["system", "account"])
async def test_a_fork_copies_the_skill_to_the_workspace_and_says_what_it_overrides(place: Any, scope: str) -> None:
    place.environment["PROWESS_SYSTEM_SKILLS"] = "on"
    async with place.open() as engine:
        if scope == "account":
            folder = place.skill("qa", "Mine, for all workspaces.")
            await engine.skills.import_path(folder, scope="account")
            folder.joinpath("SKILL.md").unlink()
            await engine.skills.reload()
        original = await engine.skills.get(f"{scope}:qa")

        copy = await engine.skills.fork("qa")

        assert (copy.scope, copy.digest) == ("workspace", original.digest)
        (card,) = [card for card in await engine.skills.cards() if card.slug == "qa"]
        assert (card.scope, card.trust) == ("workspace", "local")
        assert (card.hides[0].scope, card.hides[0].digest) == (scope, original.digest)
        (version,) = await engine.skills.history("qa")
        assert version.note == f"Fork of {scope}:qa (sha256:{original.digest[:12]})"

        changed = await engine.skills.update(copy.model_copy(update={"description": "Tests what we ship."}))
        assert (await engine.skills.get("qa")).description == changed.description == "Tests what we ship."
        assert (await engine.skills.get(f"{scope}:qa")).digest == original.digest
        with pytest.raises(Conflict, match="already"):
            await engine.skills.fork("qa")

        await engine.skills.delete("qa")
        assert (await engine.skills.get("qa")).scope == scope
