"""Turns: a decision uses exactly the bytes that the gate has decided about."""

from __future__ import annotations

from typing import Any

import pytest

from prowess.catalog.catalog import Catalog
from prowess.errors import Conflict
from prowess.session.turn import TurnDecision

pytestmark = pytest.mark.anyio

TEXT = "---\nname: deploy\ndescription: Releases a new version of the website.\n---\n\n# Deploy\n\nPush {}.\n"


async def test_a_skill_that_changes_while_a_decision_is_carried_out_is_not_used(
    place: Any, monkeypatch: pytest.MonkeyPatch
):
    place.write("deploy", {"SKILL.md": TEXT.format("it")})
    find = Catalog.find_outline

    def change_after_reading(catalog: Catalog, name: str) -> Any:
        found = find(catalog, name)
        monkeypatch.setattr(Catalog, "find_outline", find)
        place.write("deploy", {"SKILL.md": TEXT.format("everything")})
        return found

    async with place.open() as prowess:
        package = await prowess.turns.context("deploy")
        monkeypatch.setattr(Catalog, "find_outline", change_after_reading)
        with pytest.raises(Conflict, match="changed while it was being read"):
            await prowess.turns.decide(package, TurnDecision(action="activate", skill="deploy"))
