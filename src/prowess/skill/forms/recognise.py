"""Which form a package is in, by its content, and reading it in that form."""

from __future__ import annotations

from prowess.skill.filenames import SIDECAR, find_skill_md
from prowess.skill.forms import agentcy, agentlayerrules, bernstein, devai, inklings, markdown, native
from prowess.skill.forms.codes import error
from prowess.skill.forms.form import Reading
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import FormName
from prowess.skill.package import File, Package
from prowess.skill.text.document import Document

_SHOWN = 5


def read_package(package: Package, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """Read a package in the form that it is in. Bad content never raises; it is reported."""
    if package.get(SIDECAR) is not None:
        return native.read(package, limits)
    skill_md = find_skill_md(package)
    if skill_md is not None:
        return _read_document(package, skill_md, limits)
    if agentcy.is_lone(package):
        return markdown.read("agentcy", package, limits)
    if devai.recognises(package, limits):
        return devai.read(package, limits)
    if inklings.recognises(package, limits):
        return inklings.read(package, limits)
    if agentlayerrules.recognises(package, limits):
        return agentlayerrules.read(package, limits)
    return _nothing(package)


def _read_document(package: Package, file: File, limits: Limits) -> Reading:
    document = markdown.document_of(file, limits)
    if not isinstance(document, Document):
        return Reading(form="agentskills", package=package, skill=None, problems=(document,))
    form: FormName = "agentskills"
    if bernstein.claims(document):
        form = "bernstein"
    elif agentcy.claims(document):
        form = "agentcy"
    return markdown.read_skill(form, package, file.path, document, limits)


def _nothing(package: Package) -> Reading:
    there = ", ".join(package.paths[:_SHOWN]) + (", …" if len(package.paths) > _SHOWN else "")
    message = f"There is no skill here: the package has {there or 'no files'}."
    hint = (
        "A skill is a folder with SKILL.md, a single markdown file, a folder with skill.json and an execute file, "
        "a JSON object with 'artifacts', or a YAML descriptor with 'skill_id'."
    )
    return Reading(form="agentskills", package=package, skill=None, problems=(error("no-skill", message, hint),))
