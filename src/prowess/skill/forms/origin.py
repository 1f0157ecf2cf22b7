"""What only the source form needs: kept beside a converted skill, so that converting back gives the same content.

A data form (JSON, YAML) is written from the skill in one plain way. Where the source said the same thing otherwise, or
said things that a skill has no field for, the differences are kept as changes to the plain writing. Each change
remembers what it was made against and is passed over once the skill says something else there.
"""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any, cast

from pydantic import Field

from prowess.skill.forms.data import same
from prowess.skill.kinds import JsonObject, Value
from prowess.skill.model import FormName

DATA_FORMS: tuple[FormName, ...] = ("devai", "inklings", "agentlayerrules")
"""The forms that are JSON or YAML; the others are a document with frontmatter."""

_INLINE = 80
_DIGITS = 10
"""No index has as many; a number may be longer than Python is willing to read."""


class Origin(Value):
    """The form that a skill came in, the file it stood in, and what a plain writing of it would get wrong.

    `frontmatter` is the source's own, verbatim, for the forms that have one; `bare` says that it had none; `changes` is
    for the other forms.
    """

    form: FormName
    path: str | None = None
    frontmatter: str | None = None
    bare: bool = False
    extra: JsonObject = Field(default_factory=dict)
    changes: tuple[JsonObject, ...] = ()

    def stated(self) -> JsonObject:
        """What there is to write down."""
        return self.model_dump(exclude_defaults=True, exclude_none=True)


def changes(plain: Any, source: Any, at: str = "") -> list[JsonObject]:
    """The changes that turn `plain` into `source`: `now` is what stands there, and without it there is nothing."""
    if isinstance(plain, dict) and isinstance(source, dict):
        return _object_changes(cast("JsonObject", plain), cast("JsonObject", source), at)
    if isinstance(plain, (list, tuple)) and isinstance(source, (list, tuple)):
        ours, theirs = cast("list[Any]", plain), cast("list[Any]", source)
        if len(ours) == len(theirs):
            pairs = enumerate(zip(ours, theirs, strict=True))
            return [change for index, (a, b) in pairs for change in changes(a, b, f"{at}/{index}")]
    if same(plain, source):
        return []
    return [{"at": at, "was": _mark(plain), "now": source}]


def _object_changes(plain: JsonObject, source: JsonObject, at: str) -> list[JsonObject]:
    found: list[JsonObject] = []
    for key in {**plain, **source}:
        where = f"{at}/{_escaped(key)}"
        if key not in plain:
            found.append({"at": where, "now": source[key]})
        elif key not in source:
            found.append({"at": where, "was": _mark(plain[key])})
        else:
            found += changes(plain[key], source[key], where)
    return found


def apply(plain: Any, made: tuple[JsonObject, ...]) -> Any:
    """`plain` with every change whose ground has not moved since."""
    value = copy.deepcopy(plain)
    for change in made:
        value = _apply_one(value, change)
    return value


def _apply_one(value: Any, change: JsonObject) -> Any:
    keys = [_unescaped(part) for part in str(change.get("at", "")).split("/")[1:]]
    if not keys:
        return change.get("now") if same(change.get("was"), _mark(value)) else value
    inside = value
    for key in keys[:-1]:
        inside = _step(inside, key)
    _replace(inside, keys[-1], change)
    return value


def _step(inside: Any, key: str) -> Any:
    if isinstance(inside, dict):
        return cast("JsonObject", inside).get(key)
    return cast("list[Any]", inside)[int(key)] if _has_item(inside, key) else None


def _has_item(inside: Any, key: str) -> bool:
    return (
        isinstance(inside, list)
        and key.isdecimal()
        and len(key) < _DIGITS
        and int(key) < len(cast("list[Any]", inside))
    )


def _replace(inside: Any, key: str, change: JsonObject) -> None:
    there = key in cast("JsonObject", inside) if isinstance(inside, dict) else _has_item(inside, key)
    if there != ("was" in change) or (there and not same(_mark(_step(inside, key)), change["was"])):
        return
    if isinstance(inside, dict) and "now" in change:
        cast("JsonObject", inside)[key] = change["now"]
    elif isinstance(inside, dict):
        del cast("JsonObject", inside)[key]
    elif there and "now" in change:
        cast("list[Any]", inside)[int(key)] = change["now"]


def _mark(value: Any) -> Any:
    """The value itself where it is short, else its hash: enough to see whether it is still the same."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(text) <= _INLINE and not isinstance(value, (dict, list, tuple)):
        return value
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
