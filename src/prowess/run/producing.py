"""What a descriptor says that a skill produces, made from what came out."""

from __future__ import annotations

import json
import mimetypes
import re
from dataclasses import dataclass
from typing import Any, cast

from prowess.run.call import Output
from prowess.skill.kinds import JsonObject
from prowess.skill.model import Skill

FIELD = "produces_artifacts"
_MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}", re.IGNORECASE | re.ASCII)
_MOST = 20
_NAME_LIMIT = 120
_NAMES = ("name", "artifact", "path", "type")
_TYPES = ("media_type", "mime_type", "content_type")


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """A file that a run gave: a plain name, what it is, and its text."""

    name: str
    media_type: str
    content: str

    def as_json(self) -> JsonObject:
        """All of it as plain JSON."""
        return {"name": self.name, "media_type": self.media_type, "content": self.content}


def produced_by(skill: Skill, output: Output | None) -> tuple[Produced, ...]:
    """The files that the skill says it produces, each with the output, or with the field of it that has its name."""
    if output is None:
        return ()
    made = (_made(entry, output) for entry in _entries(skill)[:_MOST])
    return tuple(one for one in made if one is not None)


def declared_by(skill: Skill) -> tuple[tuple[str, str], ...]:
    """What the skill says it produces: each as it is written, and the plain name that it gets; '' where it gets none."""
    written = [_first_text(_settings(entry), _NAMES) for entry in _entries(skill)]
    return tuple((name, _plain_name(name) if place < _MOST else "") for place, name in enumerate(written))


def _entries(skill: Skill) -> list[object]:
    declared: object = skill.extra.get(FIELD)
    return cast("list[object]", declared) if isinstance(declared, list) else []


def _settings(entry: object) -> dict[str, object]:
    return cast("dict[str, object]", entry) if isinstance(entry, dict) else {"name": entry}


def _made(entry: object, output: Output) -> Produced | None:
    settings = _settings(entry)
    name = _plain_name(_first_text(settings, _NAMES))
    if not name:
        return None
    said = next((text for text in [_first_text(settings, _TYPES)] if _MEDIA_TYPE.fullmatch(text)), "")
    value = _part_of(output, name)
    guessed = mimetypes.guess_type(name)[0] or ("text/plain" if isinstance(value, str) else "application/json")
    content = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    return Produced(name=name, media_type=said or guessed, content=content.encode("utf-8", "replace").decode())


def _first_text(settings: dict[str, object], keys: tuple[str, ...]) -> str:
    return next((text for key in keys if isinstance(text := settings.get(key), str)), "")


def _part_of(output: Output, name: str) -> Any:
    stem = name.rpartition(".")[0] or name
    data = output.data
    if isinstance(data, dict):
        fields = cast("JsonObject", data)
        for key in (name, stem, stem.replace("-", "_")):
            if key in fields:
                return fields[key]
    return output.value


def _plain_name(given: str) -> str:
    """The last part of a path, as a name that is safe for a file; '' where nothing of it is."""
    name = given.replace("\\", "/").rpartition("/")[2].strip()
    fit = name.isprintable() and name not in (".", "..") and not name.startswith(".") and len(name) <= _NAME_LIMIT
    return name if fit else ""
