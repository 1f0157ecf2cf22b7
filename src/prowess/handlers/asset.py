"""The asset that a review judges: which of the inputs it is."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from prowess.errors import Invalid
from prowess.run.allowance import PREVIOUS
from prowess.run.judged import Judged
from prowess.skill.schema import depth_of

NAMES = ("asset", "content", "text", "output")
"""The inputs that are taken for the asset, in this order."""
LONGEST_ASSET = 1_000_000

_LONGEST_INDENTED = 100_000
_DEEPEST_INDENTED = 16


def asset_of(inputs: Mapping[str, Any], handed_on: Collection[str] = ()) -> Judged:
    """The input called `asset`, else `content`, `text` or `output`, else what the artifact before gave, else all inputs.

    What earlier artifacts have `handed_on` is no input of that name: no model chooses what is judged. `Invalid` where there
    is nothing, or too much.
    """
    given = [inputs[name] for name in NAMES if name in inputs and name not in handed_on]
    value = given[0] if given else inputs.get(PREVIOUS, inputs)
    text = value if isinstance(value, str) else _written(value)
    if not inputs or not text.strip():
        raise Invalid("There is nothing to judge.", hint="Give the input `asset`: a text, or any JSON.")
    if len(text) > LONGEST_ASSET:
        message = f"The asset has {len(text):,} characters; a review takes at most {LONGEST_ASSET:,}."
        raise Invalid(message, hint="Judge it part by part.")
    return Judged(text=text)


def _written(value: Any) -> str:
    """The value as JSON; indented only where that takes little more room."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError as error:
        raise Invalid("The asset nests too deep to be judged.", hint="Judge it part by part.") from error
    if len(text) > _LONGEST_INDENTED or depth_of(value, most=_DEEPEST_INDENTED) > _DEEPEST_INDENTED:
        return text
    return json.dumps(value, ensure_ascii=False, indent=2)
