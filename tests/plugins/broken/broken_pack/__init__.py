"""Plugins that are wrong in every way that a plugin can be."""

import sys
from pathlib import Path

from prowess.plugins import Plugin


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


def wrong_value() -> dict:
    return {"name": "wrong"}


def error() -> Plugin:
    raise RuntimeError("the licence has run out")


def leave() -> Plugin:
    sys.exit("not today")
