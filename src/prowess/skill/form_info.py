"""The forms that a skill can come in: one row of `FORMS` for each.

Code that has to know something about a form asks its row (`form_info`), never its own list: a plugin adds a form by
adding a row (`add_form`). The code of a form is imported when it is first needed, since most processes meet one or two.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from prowess.lazy_dataclass import dataclass
from prowess.patterns import lazy_pattern
from prowess.skill.reader_version import add_reader_extension

if TYPE_CHECKING:
    from prowess.skill.forms.form import Candidate, Reading
    from prowess.skill.forms.origin import Origin, Original
    from prowess.skill.limits import Limits
    from prowess.skill.model import Skill
    from prowess.skill.package import File, Package

FormName = str
"""The name of a form: one of the built-in ones, or a plugin's, which has a namespace: `acme.notebook`."""


class Form(Protocol):
    """The code of one form. Its functions never raise for bad content: they report problems."""

    def recognises(self, candidate: Candidate, /) -> bool:
        """Return True if the package is in this form; forms are asked in the order of `FORMS`, and the first one reads."""
        ...

    def read(self, candidate: Candidate, /) -> Reading:
        """Read the package in this form, whether or not it is recognised."""
        ...

    def render(self, skill: Skill, original: Original, /) -> list[File]:
        """Return the files of the skill in this form. Rendering what `read` returned loses nothing that the form can hold."""
        ...

    def origin(self, reading: Reading, limits: Limits, /) -> Origin | None:
        """Return what only this form needs, to be kept when the skill is written in another one."""
        ...

    def controls(self, package: Package, limits: Limits, /) -> frozenset[str]:
        """Return the paths of the files that say what the skill is, as opposed to those that belong to it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FormInfo:
    """One row of `FORMS`: everything that the rest of Prowess has to know about a form."""

    name: FormName
    markers: tuple[str, ...]
    """Names of files, in lower case, that make the folder that they lie in a skill."""
    is_data: bool
    """True for JSON or YAML, False for a document with frontmatter."""
    has_needs: bool
    """True if its manifest can declare hosts, environment variables, folders, packages and programs."""
    is_descriptor: bool
    """True if it declares one template or implementation, and its prompts and rubrics only serve that one."""
    load: Callable[[], Form]
    """Imports the code of the form."""


def _module(name: str) -> Callable[[], Form]:
    """Import by name: with an import statement, every form would depend on all others through this table."""
    return cache(lambda: cast("Form", import_module(f"prowess.skill.forms.{name}")))


_DOCUMENT, _MANIFEST = ("skill.md",), ("skill.json",)

# fmt: off
_BUILT_IN = (
    FormInfo(name="native", markers=_DOCUMENT, is_data=False, has_needs=True, is_descriptor=False, load=_module("native")),
    # The two that a document claims by its own field come before the one that takes every SKILL.md.
    FormInfo(name="bernstein", markers=_DOCUMENT, is_data=False, has_needs=False, is_descriptor=False, load=_module("bernstein")),
    FormInfo(name="agentcy", markers=_DOCUMENT, is_data=False, has_needs=False, is_descriptor=False, load=_module("agentcy")),
    FormInfo(name="agentskills", markers=_DOCUMENT, is_data=False, has_needs=False, is_descriptor=False,
             load=_module("agentskills")),
    FormInfo(name="devai", markers=_MANIFEST, is_data=True, has_needs=True, is_descriptor=False, load=_module("devai")),
    FormInfo(name="inklings", markers=_MANIFEST, is_data=True, has_needs=False, is_descriptor=False, load=_module("inklings")),
    FormInfo(name="agentlayerrules", markers=(), is_data=True, has_needs=True, is_descriptor=True,
             load=_module("agentlayerrules")),
)
# fmt: on

FORMS: dict[FormName, FormInfo] = {row.name: row for row in _BUILT_IN}
"""All forms in the order in which they are tried: the built-in ones, then those of plugins."""

MARKER_FILES = {marker for row in _BUILT_IN for marker in row.markers}
"""A folder that holds one of these, in upper or lower case, is a skill; everything below it belongs to it.

The old spelling SKILLS.md is read as SKILL.md but marks no folder: collections call the list of their skills so.
"""

_PLUGIN_FORM = lazy_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9]+(?:-[a-z0-9]+)*)+", re.ASCII)
_MARKER = lazy_pattern(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)


def form_info(form: FormName) -> FormInfo:
    """Return the row of a form; for one whose plugin is not installed, the row of a plain document."""
    return FORMS.get(form) or FORMS["agentskills"]


def add_form(row: FormInfo) -> None:
    """Add a plugin's form to `FORMS` for the whole process. Raise `ValueError` if it is not valid."""
    if not _PLUGIN_FORM.fullmatch(row.name):
        raise ValueError(f"the form {row.name[:100]!r} needs a namespace, as in 'acme.notebook'")
    wrong = next((marker for marker in row.markers if not _MARKER.fullmatch(marker)), None)
    if wrong is not None:
        raise ValueError(f"the marker {wrong[:64]!r} of {row.name} must be a file name in lower case")
    known = FORMS.setdefault(row.name, row)
    if known != row:
        raise ValueError(f"the form {row.name} is already registered")
    MARKER_FILES.update(row.markers)
    add_reader_extension(row.name)
