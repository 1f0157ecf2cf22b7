"""The original form of a skill, kept so that a conversion can be undone without loss."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any, cast

from pydantic import Field

from prowess.lazy_dataclass import dataclass
from prowess.skill.form_info import FormName
from prowess.skill.forms.data import same_json
from prowess.skill.forms.form import Reading
from prowess.skill.forms.layout import is_path, state_path_of
from prowess.skill.kinds import Artifact, FrozenModel, JsonObject
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill
from prowess.skill.package import File, Package

_INLINE = 80
_DIGITS = 10
"""Longer than any index. Python rejects very long numbers."""


class Origin(FrozenModel):
    """The original form of a skill, the file it was in, and the differences from the default output.

    `frontmatter` is the source's own, verbatim, for the forms that have one; `bare` means that it had none. `changes` is for
    the other forms.
    """

    form: FormName
    path: str | None = None
    frontmatter: str | None = None
    bare: bool = False
    extra: JsonObject = Field(default_factory=dict)
    changes: tuple[JsonObject, ...] = ()

    def stated(self) -> JsonObject:
        """Return the fields that are set."""
        return self.model_dump(exclude_defaults=True, exclude_none=True)


def diff_values(plain: Any, source: Any, at: str = "") -> list[JsonObject]:
    """Return the changes that turn `plain` into `source`. `now` is the value in `source`; without it, the value is absent."""
    if isinstance(plain, dict) and isinstance(source, dict):
        return _object_changes(cast("JsonObject", plain), cast("JsonObject", source), at)
    if isinstance(plain, (list, tuple)) and isinstance(source, (list, tuple)):
        plain_items, source_items = cast("list[Any]", plain), cast("list[Any]", source)
        # Item by item only if the lengths are equal; otherwise an index would point at another item after an edit.
        if len(plain_items) == len(source_items):
            pairs = enumerate(zip(plain_items, source_items, strict=True))
            return [change for index, (a, b) in pairs for change in diff_values(a, b, f"{at}/{index}")]
    if same_json(plain, source):
        return []
    return [{"at": at, "was": _fingerprint(plain), "now": source}]


def _object_changes(plain: JsonObject, source: JsonObject, at: str) -> list[JsonObject]:
    found: list[JsonObject] = []
    for key in {**plain, **source}:
        where = f"{at}/{_escaped(key)}"
        if key not in plain:
            found.append({"at": where, "now": source[key]})
        elif key not in source:
            found.append({"at": where, "was": _fingerprint(plain[key])})
        else:
            found += diff_values(plain[key], source[key], where)
    return found


def apply_changes(plain: Any, changes: tuple[JsonObject, ...]) -> Any:
    """Return `plain` with every change whose surroundings are still the same."""
    value = copy.deepcopy(plain)
    for change in changes:
        value = _apply_change(value, change)
    return value


def _apply_change(value: Any, change: JsonObject) -> Any:
    keys = [_unescaped(part) for part in str(change.get("at", "")).split("/")[1:]]
    if not keys:
        return change.get("now") if same_json(change.get("was"), _fingerprint(value)) else value
    inside = value
    for key in keys[:-1]:
        inside = _path_step(inside, key)
    _replace(inside, keys[-1], change)
    return value


def _path_step(inside: Any, key: str) -> Any:
    if isinstance(inside, dict):
        return cast("JsonObject", inside).get(key)
    return cast("list[Any]", inside)[int(key)] if _contains(inside, key) else None


def _contains(inside: Any, key: str) -> bool:
    return (
        isinstance(inside, list)
        and key.isdecimal()
        and len(key) < _DIGITS
        and int(key) < len(cast("list[Any]", inside))
    )


def _replace(inside: Any, key: str, change: JsonObject) -> None:
    there = key in cast("JsonObject", inside) if isinstance(inside, dict) else _contains(inside, key)
    # The value has changed since the origin was recorded, so the edit wins and the recorded change is dropped.
    if there != ("was" in change) or (there and not same_json(_fingerprint(_path_step(inside, key)), change["was"])):
        return
    if isinstance(inside, dict) and "now" in change:
        cast("JsonObject", inside)[key] = change["now"]
    elif isinstance(inside, dict):
        del cast("JsonObject", inside)[key]
    elif there and "now" in change:
        cast("list[Any]", inside)[int(key)] = change["now"]


def _fingerprint(value: Any) -> Any:
    """Return a short value itself, or the hash of a long one: enough to detect that it changed."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    # A hash, because the sidecar must not repeat the content of the skill only to detect that it changed.
    if len(text) <= _INLINE and not isinstance(value, (dict, list, tuple)):
        return value
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unescaped(part: str) -> str:
    # In this order, as in JSON Pointer: `~01` stands for `~1`, not for a slash.
    return part.replace("~1", "/").replace("~0", "~")


_BY_STORE = {"id", "scope", "location", "created_at", "updated_at"}
_BY_FILES = {"form", "manifest", "digest", "content_length", "frontmatter", "described"}
_ARTIFACT_BY_STORE = {"id", "skill_id", "revision"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """The files of a skill before it is written, their reading, and their first form.

    `controls` are the files that define the skill in that form; they are replaced when it is written in another form.
    `claimed` are the files of its artifacts.
    """

    package: Package
    reading: Reading
    origin: Origin | None
    controls: frozenset[str]
    claimed: frozenset[str] = frozenset()
    limits: Limits = DEFAULT_LIMITS

    def path_in(self, form: FormName, otherwise: str) -> str:
        """Return the path that the skill had in this form, or `otherwise` if it had none or an invalid one."""
        path = self.origin.path if self.origin is not None and self.origin.form == form else None
        return path if path is not None and is_path(path) else otherwise

    def before(self, artifact: Artifact) -> Artifact | None:
        """Return the artifact as it was read from its file, or None."""
        skill = self.reading.skill
        if skill is None or artifact.path is None:
            return None
        return next((other for other in skill.artifacts if other.path == artifact.path), None)

    @property
    def others(self) -> list[File]:
        """Return the files that are neither artifacts nor controls."""
        skill = self.reading.skill
        owned = {*self.controls, *self.claimed}
        for artifact in skill.artifacts if skill else ():
            if artifact.path is not None:
                owned.add(artifact.path)
                if artifact.kind == "dspy_module":
                    owned.add(state_path_of(artifact.path))
        return [file for file in self.package.files if file.path not in owned]


def dump_content(skill: Skill) -> dict[str, Any]:
    """Return the content of a skill, without the parts that depend on its store and its files."""
    values = skill.model_dump(exclude=_BY_STORE | _BY_FILES)
    for artifact in values["artifacts"]:
        for field in _ARTIFACT_BY_STORE:
            del artifact[field]
    return values
