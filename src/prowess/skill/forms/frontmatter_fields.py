"""Turn the frontmatter of a document into the fields of a skill. Lenient: everything irregular is reported, not rejected."""

from __future__ import annotations

import unicodedata
from typing import Any, cast

from prowess.errors import Problem, Severity
from prowess.skill.filenames import CODEX_FILE, SKILL_MD, STANDARD_FOLDERS, is_skill_md
from prowess.skill.form_info import FormName
from prowess.skill.forms.data import parse_yaml
from prowess.skill.forms.form import info, unknown_fields
from prowess.skill.json_values import json_object
from prowess.skill.kinds import JsonObject
from prowess.skill.package import Package
from prowess.skill.slug import MAX_NAME_CHARS, is_slug, slugify
from prowess.skill.text.document import Document
from prowess.skill.text.fields import (
    as_flag,
    as_list,
    as_text,
    as_tools,
    find_title,
    first_heading,
    first_paragraph,
)

DEFAULT_VERSION = "1.0.0"
PEOPLE_ONLY = "disable-model-invocation"
"""The field of a skill that only people start, as Claude Code and others read it."""

_KEYS: dict[str, str] = {
    **{key: key for key in ("name", "slug", "title", "description", "summary", "version", "author", "license")},
    **{key: key for key in ("compatibility", "metadata", "tags", "references", "scripts", "assets")},
    **dict.fromkeys(("allowed-tools", "allowed_tools", "allowedTools"), "allowed_tools"),
    **dict.fromkeys(("keywords", "trigger_keywords", "trigger-keywords"), "keywords"),
    **dict.fromkeys(("triggers", "trigger_phrases", "trigger-phrases"), "trigger_phrases"),
    **dict.fromkeys(("intent_patterns", "intent-patterns"), "intent_patterns"),
    **dict.fromkeys(("when_to_use", "when-to-use", "whenToUse"), "when_to_use"),
}
FRONTMATTER_KEYS = frozenset(_KEYS)
"""All keys that have a meaning."""
_LISTS = frozenset({"tags", "keywords", "trigger_phrases", "intent_patterns"})
_IN_METADATA: dict[str, str] = {
    **{key: key for key in ("author", "version", "title", "when_to_use", "tags", "keywords", "intent_patterns")},
    "triggers": "trigger_phrases",
}
"""Fields that the standard does not have may be given under `metadata` with these names."""


def read_fields(
    form: FormName, package: Package, path: str, document: Document, problems: list[Problem]
) -> dict[str, Any] | None:
    """Return the fields of a skill from a document, or None if no slug can be derived."""
    return FieldReader(package, path, document, problems).fields(form)


def field_for_key(key: str) -> str | None:
    """Return the skill field for a frontmatter key, in any capitalisation, or None."""
    return _KEYS.get(key) or _KEYS.get(key.lower())


class FieldReader:
    """Collects the fields of one document."""

    __slots__ = ("document", "extra", "metadata", "package", "path", "problems", "unknown", "values")

    def __init__(self, package: Package, path: str, document: Document, problems: list[Problem]) -> None:
        self.package = package
        self.path = path
        self.document = document
        self.problems = problems
        self.values: dict[str, Any] = {}
        self.extra: JsonObject = {}
        self.metadata: JsonObject = {}
        self.unknown: list[str] = []

    def fields(self, form: FormName) -> dict[str, Any] | None:
        """Return all fields with their final types and values, or None without a slug."""
        values = self.values
        for key, value in self.document.fields.items():
            self.take(key, value)
        if self.unknown:
            self.problems += unknown_fields(self.unknown, self.document.lines.get)
        if self.metadata:
            self.take_metadata()
        if self.path != SKILL_MD:
            self.check_spelling()
        if not self.resolve_name(form):
            return None
        self.resolve_description()
        if not values.get("version"):
            values["version"] = DEFAULT_VERSION
        if self.extra:
            values["extra"] = self.extra
        return {field: value for field, value in values.items() if value or field in ("description", "described")}

    def report(self, code: str, severity: Severity, message: str, hint: str = "", key: str | None = None) -> None:
        """Report a problem with a field."""
        line = self.document.lines.get(key) if key else None
        self.problems.append(Problem(code=code, severity=severity, message=message, hint=hint, field=key, line=line))

    def take(self, key: str, value: Any) -> None:
        """Store one frontmatter field by its meaning, or keep it unchanged."""
        if key == PEOPLE_ONLY:
            self.take_people_only(value)
            return
        field = _KEYS.get(key) or self.by_spelling(key)
        # `summary` means the description in some catalogs, but only where there is no description.
        if field is None or (field == "summary" and self.document.fields.get("description")):
            self.keep_unknown(key, value)
        elif field in STANDARD_FOLDERS:
            self.take_names(field, key, value)
        elif value is None:
            return
        elif field in self.values:
            # Two keys with one meaning, such as `keywords` and `trigger_keywords`. Merging them would change the skill when
            # it is written back, so the second one is kept as it is.
            self.extra[key] = value
            message = f"The field {key!r} has the same meaning as another one; it is kept, but the first one is used."
            self.report("repeated-field", "warning", message, "Remove one of them.", key)
        elif field == "metadata":
            self.take_mapping(key, value)
        elif field in _LISTS:
            self.values[field] = as_list(value)
        elif field == "allowed_tools":
            self.values[field] = as_tools(value)
        else:
            self.values[field] = value.strip() if isinstance(value, str) else self.text(key, value)

    def take_people_only(self, value: Any) -> None:
        """Keep the field of a skill that only people start as it is. `is_people_only` interprets it."""
        self.extra[PEOPLE_ONLY] = value
        if value is not None and as_flag(value) is None:
            message = f"The field {PEOPLE_ONLY!r} must be true or false; it is read as true."
            self.report("wrong-type", "warning", message, "Write `true` or `false`.", PEOPLE_ONLY)

    def by_spelling(self, key: str) -> str | None:
        """Return the field for a key in unusual capitalisation, and report it."""
        field = field_for_key(key)
        if field is not None:
            message = f"The field {key!r} is read as {key.lower()!r}."
            self.report("field-spelling", "info", message, f"Write {key.lower()!r}.", key)
        return field

    def keep_unknown(self, key: str, value: Any) -> None:
        """Keep an unknown field."""
        self.extra[key] = value
        self.unknown.append(key)

    def text(self, key: str, value: Any) -> str:
        """Return a value as text, and report if it was not text."""
        if isinstance(value, (list, dict)):
            shape = "a list" if isinstance(value, list) else "a mapping"
            message = f"The field {key!r} must be text but is {shape}; it was joined into one line."
            self.report("wrong-type", "warning", message, "Write it as text.", key)
        return as_text(value).strip()

    def take_mapping(self, key: str, value: Any) -> None:
        """Store the metadata."""
        if isinstance(value, dict):
            self.metadata = self.values["metadata"] = cast("JsonObject", value)
            return
        self.extra[key] = value
        message = f"The field {key!r} must map names to text; it is kept unchanged."
        self.report("wrong-type", "warning", message, "Write it as indented `key: value` lines.", key)

    def take_names(self, bucket: str, key: str, value: Any) -> None:
        """Check that the files a pack declares exist. Anything but a list of names is kept unchanged."""
        if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[Any]", value)):
            self.keep_unknown(key, value)
            return
        for name in cast("list[str]", value):
            path = name if name.startswith(bucket + "/") else f"{bucket}/{name.removeprefix('./')}"
            if self.package.get(path) is None:
                message = f"The field {key!r} lists {name[:120]!r}, but {path[:200]!r} is not in the package."
                self.report("missing-file", "warning", message, f"Add the file, or remove it from {key!r}.", key)

    def take_metadata(self) -> None:
        """Read the fields that are under `metadata` because the standard does not have them."""
        for key, value in self.metadata.items():
            field = _IN_METADATA.get(key)
            if field is not None and not self.values.get(field):
                self.values[field] = as_list(value) if field in _LISTS else as_text(value).strip()
        # Only a slug with a namespace for the very name of the skill: other tools put unrelated slugs into metadata.
        slug = self.metadata.get("slug")
        if isinstance(slug, str) and slug.rpartition(".")[2] == self.values.get("name") and is_slug(slug):
            self.values.setdefault("slug", slug)

    def check_spelling(self) -> None:
        """Report an unusual spelling of SKILL.md."""
        if is_skill_md(self.path):
            message = f"The file is named {self.path!r}; some clients look for exactly {SKILL_MD!r}."
            self.problems.append(info("skill-md-spelling", message, f"Rename it to {SKILL_MD}.", field=self.path))

    def resolve_name(self, form: FormName) -> bool:
        """Determine slug and title. Return False if no slug can be derived."""
        values = self.values
        name: str = values.pop("name", "")
        slug = name if is_slug(name) else self.derive_slug(name, form)
        if "slug" in values:
            slug = self.correct_slug(values["slug"], slug)
        if not slug:
            hint = "Add `name: …` to the frontmatter, or a heading to the text."
            self.report("no-slug", "error", "The skill has no name.", hint, "name")
            return False
        values["slug"] = slug
        if not values.get("title"):
            # Agentcy's `name` is always a title. Elsewhere a name that is a slug says nothing that the slug does not.
            is_title = name and name != slug and (form == "agentcy" or not is_slug(name))
            values["title"] = name if is_title else find_title(self.document.body) or title_from_slug(slug)
        if name and form != "agentcy" and name != self.package.name:
            self.check_folder(name)
        return True

    def derive_slug(self, name: str, form: FormName) -> str:
        """Make a slug from the name, the folder or the first heading."""
        slug = slugify(name)
        if slug:
            if form != "agentcy":
                message = (
                    f"The name {name[:80]!r} is not a valid slug; {slug!r} is used, and the name becomes the title."
                )
                self.report("name-not-slug", "warning", message, f"Write `name: {slug}`.", "name")
            return slug
        slug = slugify(folder_name(self.package)) or slugify(first_heading(self.document.body))
        if slug and "slug" not in self.values:
            message = f"The frontmatter has no name; {slug!r} is used."
            self.report("name-missing", "warning", message, f"Add `name: {slug}`.", "name")
        return slug

    def correct_slug(self, name: str, otherwise: str) -> str:
        """Return the slug in the document, corrected if it is not valid."""
        if is_slug(name):
            return name
        slug = slugify(name) or otherwise
        is_long = len(name) > MAX_NAME_CHARS and is_slug(name[:MAX_NAME_CHARS].rstrip("-"))
        fault = f"is longer than {MAX_NAME_CHARS} characters" if is_long else "is not valid"
        message = f"The slug {name[:80]!r} {fault}; {slug!r} is used instead."
        self.report("slug-invalid", "warning", message, f"Write `slug: {slug}`.", "slug")
        return slug

    def check_folder(self, name: str) -> None:
        """Report a name that differs from the folder's."""
        folder = self.package.name
        if not folder or not is_skill_md(self.path):
            return
        # Some file systems store names decomposed, so "é" in a name and in its folder may be different code points.
        if unicodedata.normalize("NFKC", name) != unicodedata.normalize("NFKC", folder):
            message = f"The name {name[:80]!r} differs from the folder {folder[:80]!r}."
            hint = "Use the same name for both; some clients require it."
            self.report("name-differs-from-folder", "warning", message, hint, "name")

    def resolve_description(self) -> None:
        """Determine the description: the field, or else the beginning of the text."""
        summary = self.values.pop("summary", "")
        if self.values.get("description"):
            return
        found = summary or as_text(self.metadata.get("description")).strip()
        hint = "Add `description: …` with what the skill does and when to use it."
        if not found:
            found = first_paragraph(self.document.body) or first_heading(self.document.body)
            if found:
                message = (
                    "There is no description, so search and match do not rank the skill. "
                    "Lists show the beginning of its text."
                )
                self.report("description-from-body", "warning", message, hint, "description")
                self.values["described"] = False
            else:
                message = "There is no description, and no text to derive one from."
                self.report("description-missing", "error", message, hint, "description")
        self.values["description"] = found


def is_people_only(extra: JsonObject, package: Package) -> bool:
    """Return True if only people may start a skill, by its frontmatter or by the file that Codex reads.

    A value that is neither true nor false counts as true: someone wanted to keep the skill away from models.
    """
    if extra.get(PEOPLE_ONLY) is not None and as_flag(extra[PEOPLE_ONLY]) is not False:
        return True
    file = package.get(CODEX_FILE)
    if file is None:
        return False
    settings = parse_yaml(CODEX_FILE, file.content).object
    return json_object(json_object(settings).get("policy")).get("allow_implicit_invocation") is False


def folder_name(package: Package) -> str:
    """Return the name of the package's folder or file, without a file suffix."""
    name = package.name
    return name.rpartition(".")[0] if name.lower().endswith((".md", ".json", ".yaml", ".yml")) else name


def title_from_slug(slug: str) -> str:
    """Return the last segment of a slug as words."""
    return slug.rpartition(".")[2].replace("-", " ").capitalize()
