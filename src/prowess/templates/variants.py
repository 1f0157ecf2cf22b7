"""Which variant of an artifact suits a model."""

from __future__ import annotations

from collections.abc import Sequence

from prowess.errors import NotFound
from prowess.skill.kinds import Artifact

DEFAULT = "default"
"""What a variant may be called that is written for no family in particular; one without a name is the same."""


def choose_variant(candidates: Sequence[Artifact], family: str) -> Artifact:
    """The candidate that is written for the family, else the default one, else the first by ordinal.

    Of several that would do, the first by ordinal is taken, and of equal ordinals the one that comes first.
    """
    if not candidates:
        raise NotFound("There is no variant to choose from.", hint="Name an artifact that the skill has.")
    ordered = sorted(candidates, key=lambda artifact: artifact.ordinal)
    exact = [artifact for artifact in ordered if _family(artifact) == family.casefold()]
    default = [artifact for artifact in ordered if _family(artifact) == DEFAULT]
    return (exact or default or ordered)[0]


def _family(artifact: Artifact) -> str:
    return (artifact.variant or DEFAULT).casefold()
