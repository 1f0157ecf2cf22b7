"""The asset that a review judges: which of the inputs it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from prowess.errors import Invalid
from prowess.run.judged import Judged

NAMES = ("asset", "content", "text", "output")
"""The inputs that are taken for the asset, in this order."""
LONGEST_ASSET = 1_000_000


def asset_of(inputs: Mapping[str, Any]) -> Judged:
    """The input called `asset`, else `content`, `text` or `output`, else what the artifact before gave, else all inputs.

    A field of what the artifact before gave is no input of that name. `Invalid` where there is nothing, or too much.
    """
    previous = inputs.get("previous")
    given = {name: inputs[name] for name in NAMES if name in inputs and not _is_field(previous, name, inputs[name])}
    value = next(iter(given.values()), inputs if previous is None else previous)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    if not inputs or not text.strip():
        raise Invalid("There is nothing to judge.", hint="Give the input `asset`: a text, or any JSON.")
    if len(text) > LONGEST_ASSET:
        message = f"The asset has {len(text):,} characters; a review takes at most {LONGEST_ASSET:,}."
        raise Invalid(message, hint="Judge it part by part.")
    return Judged(value=value, text=text)


def _is_field(previous: Any, name: str, value: Any) -> bool:
    return isinstance(previous, dict) and name in previous and cast("dict[str, Any]", previous)[name] == value
