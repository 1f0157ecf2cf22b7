"""Plugins that are wrong in every way that a plugin can be."""

import sys
from dataclasses import replace
from pathlib import Path

from prowess.plugins import Plugin, PluginTool
from prowess.skill.kinds import KINDS, Artifact


def missing_folder() -> Plugin:
    return Plugin(name="missing", packs=(Path(__file__).parent / "nowhere",))


def strange_store() -> Plugin:
    return Plugin(name="strange", stores=("a store",))


class UnknownKind:
    kind = "horoscope"

    async def run(self, call):
        raise NotImplementedError


def strange_handler() -> Plugin:
    return Plugin(name="strange", handlers=(UnknownKind(),))


class Query(Artifact):
    kind: str = "broken.query"


def taken_folder() -> Plugin:
    """Brings a kind that is good and one whose folder belongs to another: neither is there afterwards."""
    good = replace(KINDS["example"], name="broken.query", model=Query, folder="broken-queries")
    return Plugin(name="taken", kinds=(good, replace(good, name="broken.script", folder="scripts")))


def nameless_tool() -> Plugin:
    async def skill_create(_context):
        """Create a skill."""

    return Plugin(name="nameless", tools=(PluginTool(function=skill_create, effect="changes"),))


def plain_embedder() -> Plugin:
    return Plugin(name="plain", embedders={"default": dict})


def wrong_value() -> dict:
    return {"name": "wrong"}


def error() -> Plugin:
    raise RuntimeError("the licence has run out")


def leave() -> Plugin:
    sys.exit("not today")
