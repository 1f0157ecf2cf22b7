"""Turn the frontmatter of a document into the fields of a skill: lenient, and every oddity is reported."""

from __future__ import annotations

import unicodedata
from typing import Any, cast

from prowess.errors import Problem, Severity
from prowess.skill.filenames import SKILL_MD, STANDARD_FOLDERS, is_skill_md
from prowess.skill.form_info import FormName
from prowess.skill.forms.form import unknown_fields
from prowess.skill.kinds import JsonObject
from prowess.skill.package import Package
from prowess.skill.slug import is_slug, slugify
from prowess.skill.text.document import Document
from prowess.skill.text.fields import as_list, as_text, as_tools, first_heading, first_paragraph

DEFAULT_VERSION = "1.0.0"

_KEYS: dict[str, str] = {
    **{key: key for key in ("name", "slug", "title", "description", "summary", "version", "author", "license")},
    **{key: key for key in ("compatibility", "metadata", "tags", "references", "scripts", "assets")},
    **dict.fromkeys(("allowed-tools", "allowed_tools", "allowedTools"), "allowed_tools"),
    **dict.fromkeys(("keywords", "trigger_keywords", "trigger-keywords"), "keywords"),
    **dict.fromkeys(("triggers", "trigger_phrases", "trigger-phrases"), "trigger_phrases"),
    **dict.fromkeys(("intent_patterns", "intent-patterns"), "intent_patterns"),
    **dict.fromkeys(("when_to_use", "when-to-use", "whenToUse"), "when_to_use"),
}
_LISTS = frozenset({"tags", "keywords", "trigger_phrases", "intent_patterns"})
_IN_METADATA: dict[str, str] = {
    **{key: key for key in ("author", "version", "title", "when_to_use", "tags", "keywords", "intent_patterns")},
    "triggers": "trigger_phrases",
}
"""What the standard has no field for may stand under `metadata` by these names."""


def read_fields(
    form: FormName, package: Package, path: str, document: Document, problems: list[Problem]
) -> dict[str, Any] | None:
    """The fields of a skill that a document gives, or None when nothing gives it a slug."""
    return FieldReader(package, path, document, problems).fields(form)


def field_for_key(key: str) -> str | None:
    """The field of a skill that a key of the frontmatter stands for, also when it is written in other letters."""
    return _KEYS.get(key) or _KEYS.get(key.lower())


class FieldReader:
    """The fields of one document on their way to those of a skill."""

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
        """All fields that are given, settled and in the types of the skill; None without a slug."""
        values = self.values
        for key, value in self.document.fields.items():
            self.take(key, value)
        if self.unknown:
            self.problems += unknown_fields(self.unknown, self.document.lines.get)
        if self.metadata:
            self.take_metadata()
        if self.path != SKILL_MD:
            self.check_spelling()
        if not self.settle_name(form):
            return None
        self.settle_description()
        if not values.get("version"):
            values["version"] = DEFAULT_VERSION
        if self.extra:
            values["extra"] = self.extra
        return {field: value for field, value in values.items() if value or field == "description"}

    def tell(self, code: str, severity: Severity, message: str, hint: str = "", key: str | None = None) -> None:
        """Report something about a field."""
        line = self.document.lines.get(key) if key else None
        self.problems.append(Problem(code=code, severity=severity, message=message, hint=hint, field=key, line=line))

    def take(self, key: str, value: Any) -> None:
        """Take one field of the frontmatter by its meaning, or keep it as it stands."""
        field = _KEYS.get(key) or self.by_spelling(key)
        if field is None or (field == "summary" and self.document.fields.get("description")):
            self.keep(key, value)
        elif field in STANDARD_FOLDERS:
            self.take_names(field, key, value)
        elif value is None:
            return
        elif field in self.values:
            self.extra[key] = value
            message = f"The field {key!r} repeats another one; it is kept, the first one counts."
            self.tell("repeated-field", "warning", message, "Keep one of them.", key)
        elif field == "metadata":
            self.take_mapping(key, value)
        elif field in _LISTS:
            self.values[field] = as_list(value)
        elif field == "allowed_tools":
            self.values[field] = as_tools(value)
        else:
            self.values[field] = value.strip() if isinstance(value, str) else self.text(key, value)

    def by_spelling(self, key: str) -> str | None:
        """The meaning of a key that is written in other letters."""
        field = field_for_key(key)
        if field is not None:
            message = f"The field {key!r} is read as {key.lower()!r}."
            self.tell("field-spelling", "info", message, f"Write {key.lower()!r}.", key)
        return field

    def keep(self, key: str, value: Any) -> None:
        """Keep a field that has no meaning."""
        self.extra[key] = value
        self.unknown.append(key)

    def text(self, key: str, value: Any) -> str:
        """The text of a value that should have been text."""
        if isinstance(value, (list, dict)):
            shape = "a list" if isinstance(value, list) else "a mapping"
            message = f"The field {key!r} should be text but is {shape}; it was put into one line."
            self.tell("wrong-type", "warning", message, "Write it as text.", key)
        return as_text(value).strip()

    def take_mapping(self, key: str, value: Any) -> None:
        """Take the metadata."""
        if isinstance(value, dict):
            self.metadata = self.values["metadata"] = cast("JsonObject", value)
            return
        self.extra[key] = value
        message = f"The field {key!r} should be a mapping of names to texts; it is kept as it stands."
        self.tell("wrong-type", "warning", message, "Write it as indented lines 'key: value'.", key)

    def take_names(self, bucket: str, key: str, value: Any) -> None:
        """Check that the files which a pack declares are there; anything but a list of names is kept."""
        if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[Any]", value)):
            self.keep(key, value)
            return
        for name in cast("list[str]", value):
            path = name if name.startswith(bucket + "/") else f"{bucket}/{name.removeprefix('./')}"
            if self.package.get(path) is None:
                message = f"The field {key!r} names {name[:120]!r}, but {path[:200]!r} is not in the package."
                self.tell("missing-file", "warning", message, f"Add the file, or take it out of {key!r}.", key)

    def take_metadata(self) -> None:
        """Take what stands under `metadata` because the standard has no field for it."""
        for key, value in self.metadata.items():
            field = _IN_METADATA.get(key)
            if field is not None and not self.values.get(field):
                self.values[field] = as_list(value) if field in _LISTS else as_text(value).strip()
        slug = self.metadata.get("slug")
        if isinstance(slug, str) and slug.rpartition(".")[2] == self.values.get("name") and is_slug(slug):
            self.values.setdefault("slug", slug)

    def check_spelling(self) -> None:
        """Report a SKILL.md that is spelt another way."""
        if is_skill_md(self.path):
            message = f"The file is called {self.path!r}; some clients look for exactly {SKILL_MD!r}."
            self.problems.append(
                Problem(
                    code="skill-md-spelling",
                    severity="info",
                    message=message,
                    hint=f"Rename it to {SKILL_MD}.",
                    field=self.path,
                )
            )

    def settle_name(self, form: FormName) -> bool:
        """Settle slug and title; False when nothing gives a slug."""
        values = self.values
        name: str = values.pop("name", "")
        slug = name if is_slug(name) else self.made_slug(name, form)
        if "slug" in values:
            slug = self.given_slug(values["slug"], slug)
        if not slug:
            hint = "Add 'name: …' to the frontmatter, or a heading to the text."
            self.tell("no-slug", "error", "Nothing gives this skill a name.", hint, "name")
            return False
        values["slug"] = slug
        if not values.get("title"):
            is_title = name and name != slug and (form == "agentcy" or not is_slug(name))
            values["title"] = name if is_title else first_heading(self.document.body) or title_from_slug(slug)
        if name and form != "agentcy" and name != self.package.name:
            self.check_folder(name)
        return True

    def made_slug(self, name: str, form: FormName) -> str:
        """The slug where the name is not one already: made from the name, the folder or the first heading."""
        slug = slugify(name)
        if slug:
            if form != "agentcy":
                message = f"The name {name[:80]!r} is not a slug; {slug!r} is used, and the name is the title."
                self.tell("name-not-slug", "warning", message, f"Write 'name: {slug}'.", "name")
            return slug
        slug = slugify(folder_name(self.package)) or slugify(first_heading(self.document.body))
        if slug and "slug" not in self.values:
            message = f"There is no name in the frontmatter; {slug!r} is used."
            self.tell("name-missing", "warning", message, f"Add 'name: {slug}'.", "name")
        return slug

    def given_slug(self, given: str, otherwise: str) -> str:
        """The slug that the document gives, mended where it breaks the pattern."""
        if is_slug(given):
            return given
        slug = slugify(given) or otherwise
        message = f"The slug {given[:80]!r} breaks the pattern; {slug!r} is used."
        self.tell("slug-invalid", "warning", message, f"Write 'slug: {slug}'.", "slug")
        return slug

    def check_folder(self, name: str) -> None:
        """Report a name that is not the folder's."""
        folder = self.package.name
        if not folder or not is_skill_md(self.path):
            return
        if unicodedata.normalize("NFKC", name) != unicodedata.normalize("NFKC", folder):
            message = f"The name {name[:80]!r} differs from the folder {folder[:80]!r}."
            hint = "Give both the same name; some clients insist on it."
            self.tell("name-differs-from-folder", "warning", message, hint, "name")

    def settle_description(self) -> None:
        """Settle the description: a field, or else the first words of the text."""
        summary = self.values.pop("summary", "")
        if self.values.get("description"):
            return
        found = summary or as_text(self.metadata.get("description")).strip()
        hint = "Add 'description: …' that says what the skill does and when to use it."
        if not found:
            found = first_paragraph(self.document.body) or first_heading(self.document.body)
            if found:
                message = "There is no description; the first words of the text stand in."
                self.tell("description-from-body", "warning", message, hint, "description")
            else:
                message = "There is no description, and no text to take one from."
                self.tell("description-missing", "error", message, hint, "description")
        self.values["description"] = found


def folder_name(package: Package) -> str:
    """What the package's folder or file is called, without the ending of a file."""
    name = package.name
    return name.rpartition(".")[0] if name.lower().endswith((".md", ".json", ".yaml", ".yml")) else name


def title_from_slug(slug: str) -> str:
    """The last segment of a slug as words."""
    return slug.rpartition(".")[2].replace("-", " ").capitalize()
