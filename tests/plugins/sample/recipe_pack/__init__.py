"""Skills about baking, for Prowess."""

from pathlib import Path

from prowess.plugins import Plugin


def plugin() -> Plugin:
    return Plugin(name="recipes", packs=(Path(__file__).parent / "skills",))
