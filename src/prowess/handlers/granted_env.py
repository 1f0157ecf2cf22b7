"""The environment of a run: the values that its skill declares and was given."""

from __future__ import annotations

from collections.abc import Mapping

from prowess.run.call import Call
from prowess.run.grants import Grants
from prowess.skill.needs import needs_of


def granted_env(call: Call, grants: Grants) -> Mapping[str, str]:
    """The values by name, which nothing that is said about the run shows. Their names are on its receipt, and so is what is missing."""
    receipt = call.notes.receipt
    for name in needs_of(call.skill).env:
        (receipt.touch if name in grants.env else receipt.refuse)("env", name)
    call.confide(grants.env)
    return grants.env


def why_missing(call: Call, grants: Grants) -> str:
    """Why the skill was not given values that it declares; '' where it has all of them."""
    return " ".join(grants.denied[name] for name in needs_of(call.skill).env if name in grants.denied)
