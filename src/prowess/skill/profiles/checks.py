"""Checks that several profiles share."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, cast

from prowess.errors import Problem
from prowess.skill.filenames import MAX_COMPATIBILITY_CHARS, MAX_DESCRIPTION_CHARS, SKILL_MD
from prowess.skill.kinds import Artifact
from prowess.skill.package import File, Package
from prowess.skill.slug import slugify

NAME_LIMIT = 64

NAME_AND_DESCRIPTION = frozenset({
    "description-from-body", "description-missing", "name-differs-from-folder", "name-missing", "name-not-slug",
    "slug-invalid",
})  # fmt: skip
"""Reader problems that a profile with its own rules for these two fields replaces."""

FIELDS = frozenset({"field-spelling", "removed-field", "repeated-field", "unknown-field", "wrong-type"})
"""The same for the other fields."""

Fields = Mapping[str, Any]
Lines = Mapping[str, int]


def as_mapping(value: Any) -> dict[str, Any] | None:
    """Return the value if it is a mapping, else None."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_items(value: Any) -> list[Any] | None:
    """Return the value if it is a list, else None."""
    return cast("list[Any]", value) if isinstance(value, list) else None


def are_texts(values: Iterable[Any]) -> bool:
    """Return True if all values are text."""
    return all(isinstance(value, str) for value in values)


def error(code: str, message: str, hint: str, key: str | None = None, line: int | None = None) -> Problem:
    """Return a problem with the severity `error`."""
    return Problem(code=code, severity="error", message=message, hint=hint, field=key, line=line)


def missing_file() -> Problem:
    """Return the problem for a package without SKILL.md."""
    return error(
        "no-skill-md", "The folder has no SKILL.md.", "Create one with `prowess export … --profile`.", SKILL_MD
    )


def check_file(file: File | None) -> Iterator[Problem]:
    """Check that SKILL.md exists, all in capitals or all in lower case."""
    if file is None or file.path not in (SKILL_MD, SKILL_MD.lower()):
        yield missing_file()


def check_name(fields: Fields, lines: Lines, folder: str) -> Iterator[Problem]:
    """Check the name by the open standard: present, a slug of one segment, and equal to the folder name."""
    line = lines.get("name")
    if "name" not in fields:
        hint = f"Add a line `name: {slugify(folder) or 'my-skill'}`."
        yield error("name-missing", "The frontmatter has no name.", hint, "name", line)
        return
    value = fields["name"]
    if not isinstance(value, str) or not value.strip():
        yield error("name-empty", "The name must be a non-empty string.", "Write the name as plain text.", "name", line)
        return
    # Names of folders may be stored decomposed, so both are compared in one normal form.
    name = unicodedata.normalize("NFKC", value.strip())
    yield from check_name_text(name, line)
    if unicodedata.normalize("NFKC", folder) != name:
        yield error(
            "name-differs-from-folder",
            f"The name {name[:80]!r} differs from its folder {folder[:80]!r}.",
            "Use the same name for the folder and the skill.",
            "name",
            line,
        )


def check_name_text(name: str, line: int | None) -> Iterator[Problem]:
    """Check the pattern and the length of a name."""
    suggestion = slugify(name).rpartition(".")[2]
    hint = f"Try {suggestion!r}." if suggestion else "Use letters, digits and hyphens, such as 'release-notes'."
    if len(name) > NAME_LIMIT:
        message = f"The name has {len(name)} characters; the limit is {NAME_LIMIT}."
        yield error("name-long", message, "Shorten it.", "name", line)
    faults = list(_name_faults(name))
    if faults:
        message = f"The name {name[:80]!r} {', '.join(faults)}."
        yield error("name-pattern", message, f"Use lowercase letters, digits and single hyphens. {hint}", "name", line)


def _name_faults(name: str) -> Iterator[str]:
    if name != name.lower():
        yield "has uppercase letters"
    if name.startswith("-") or name.endswith("-"):
        yield "starts or ends with a hyphen"
    if "--" in name:
        yield "has two hyphens in a row"
    odd = sorted({char for char in name if not (char.isalnum() or char == "-")})
    if odd:
        yield f"contains {' '.join(repr(char) for char in odd[:5])}"


def check_description(fields: Fields, lines: Lines, limit: int = MAX_DESCRIPTION_CHARS) -> Iterator[Problem]:
    """Check that the description is present, text, and within the limit."""
    line = lines.get("description")
    say = "Describe in one or two sentences what the skill does and when to use it."
    if "description" not in fields:
        yield error("description-missing", "The frontmatter has no description.", say, "description", line)
        return
    value = fields["description"]
    if not isinstance(value, str) or not value.strip():
        yield error("description-empty", "The description must be a non-empty string.", say, "description", line)
    elif len(value) > limit:
        message = f"The description has {len(value):,} characters; the limit is {limit:,}."
        yield error("description-long", message, "Move details into the body.", "description", line)


def check_compatibility(fields: Fields, lines: Lines) -> Iterator[Problem]:
    """Check that the compatibility note is text within the limit."""
    if "compatibility" not in fields:
        return
    value, line = fields["compatibility"], lines.get("compatibility")
    if not isinstance(value, str):
        message = "The compatibility note must be a string."
        yield error("compatibility-type", message, "Write it as one string.", "compatibility", line)
    elif len(value) > MAX_COMPATIBILITY_CHARS:
        message = f"The compatibility note has {len(value):,} characters; the limit is {MAX_COMPATIBILITY_CHARS}."
        yield error("compatibility-long", message, "Shorten it.", "compatibility", line)


def check_keys(fields: Fields, lines: Lines, known: Collection[str], whose: str) -> Iterator[Problem]:
    """Yield a problem for every key that is unknown to the profile."""
    elsewhere = "move it under `metadata`, " if "metadata" in known else ""
    for key in fields:
        if key not in known:
            yield error(
                "unknown-field",
                f"{str(key)[:80]!r} is not a key of {whose}.",
                f"Remove it, {elsewhere}or fix its spelling. Known keys: {', '.join(known)}.",
                str(key),
                lines.get(key),
            )


def is_whole_file(package: Package, artifact: Artifact) -> bool:
    """Return True if line numbers of the artifact's content are line numbers of its file."""
    file = package.get(artifact.path) if artifact.path else None
    return file is not None and file.content == artifact.content.encode(errors="replace")
