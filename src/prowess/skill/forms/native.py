"""The native form: a SKILL.md that every client can read, and a sidecar for what the standard has no field for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from prowess.errors import Problem
from prowess.skill.filenames import SIDECAR, SKILL_MD, find_skill_md
from prowess.skill.forms.artifacts import MODELS, artifact_from, build_artifact, capped, checked
from prowess.skill.forms.codes import error, info
from prowess.skill.forms.draft import draft
from prowess.skill.forms.form import Reading
from prowess.skill.forms.layout import EXECUTE, EXECUTE_FILES, kind_of, settings_of
from prowess.skill.forms.markdown import check_body, document_of, file_artifact, finish
from prowess.skill.forms.origin import Origin
from prowess.skill.forms.registry import is_data
from prowess.skill.forms.sidecar import FIELD_OF, Sidecar, read_sidecar
from prowess.skill.forms.trusted import trusted_instructions
from prowess.skill.kinds import FILE_KINDS, KINDS, Artifact, Instructions, JsonObject, Kind
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Provenance
from prowess.skill.needs import NEED_FIELDS
from prowess.skill.package import File, Package
from prowess.skill.slug import is_slug
from prowess.skill.text.document import Document


def read(package: Package, limits: Limits = DEFAULT_LIMITS) -> Reading:
    """Read SKILL.md, then let the sidecar have the last word."""
    skill_md = find_skill_md(package)
    path = skill_md.path if skill_md else SKILL_MD
    document = document_of(skill_md, limits)
    if isinstance(document, Problem):
        return Reading(form="native", package=package, skill=None, problems=(document,))
    problems = list(document.problems)
    if skill_md is None:
        hint = "Add a SKILL.md with name and description."
        problems = [error("skill-md-missing", f"There is {SIDECAR} but no SKILL.md.", hint, field=SKILL_MD)]
    sidecar = sidecar_of(package, problems, limits)
    values = draft("native", package, path, document, problems)
    if values is None:
        return Reading(form="native", package=package, skill=None, problems=tuple(problems), document=document)
    overlay(values, sidecar, problems)
    artifacts = checked(_artifacts(package, path, document, sidecar, problems, limits), problems)
    if document.body or not artifacts:
        check_body(document, limits, problems)
    skill = finish(values, "native", package, document, artifacts)
    return Reading(form="native", package=package, skill=skill, problems=tuple(problems), document=document)


def sidecar_of(package: Package, problems: list[Problem] | None = None, limits: Limits = DEFAULT_LIMITS) -> Sidecar:
    """The sidecar of a package; an empty one where there is none."""
    file = package.get(SIDECAR)
    return Sidecar() if file is None else read_sidecar(file.content, [] if problems is None else problems, limits)


def origin(reading: Reading, limits: Limits) -> Origin | None:
    """The form that the skill had before it became native, as the sidecar tells."""
    return sidecar_of(reading.package, limits=limits).origin


def controls(package: Package, limits: Limits) -> frozenset[str]:  # noqa: ARG001  the signature of all forms
    """The files that say what the skill is."""
    skill_md = find_skill_md(package)
    return frozenset({SIDECAR, skill_md.path if skill_md else SKILL_MD})


def overlay(values: dict[str, Any], sidecar: Sidecar, problems: list[Problem]) -> None:
    """Let what the sidecar gives count instead of what SKILL.md says."""
    for name, field in FIELD_OF.items():
        if name in sidecar.model_fields_set:
            value = getattr(sidecar, name)
            if not value and field in ("title", "version"):
                continue
            values[field] = value
    if sidecar.id:
        values["id"] = sidecar.id
    if sidecar.slug:
        _take_slug(values, sidecar.slug, problems)
    if sidecar.description is not None:
        _describe(values, sidecar.description, problems)
    extra: JsonObject = {
        **sidecar.frontmatter,
        **(sidecar.origin.extra if sidecar.origin else {}),
    }
    about_runs = _about_runs(sidecar)
    if extra or about_runs:
        values["extra"] = {**extra, **values.get("extra", {}), **about_runs}
    if sidecar.provenance != Provenance() or sidecar.source:
        values["provenance"] = sidecar.provenance.model_copy(
            update={"source": sidecar.source or sidecar.provenance.source}
        )


def _about_runs(sidecar: Sidecar) -> JsonObject:
    said: JsonObject = {}
    if "observability" in sidecar.model_fields_set:
        said["observability"] = sidecar.observability
    if "produces_artifacts" in sidecar.model_fields_set:
        said["produces_artifacts"] = list(sidecar.produces_artifacts)
    needs = {name: getattr(sidecar, name) for name in NEED_FIELDS}
    return said | {name: value for name, value in needs.items() if value is not None}


def _take_slug(values: dict[str, Any], slug: str, problems: list[Problem]) -> None:
    if is_slug(slug):
        values["slug"] = slug
    else:
        message = f"{SIDECAR}: the slug {slug[:80]!r} breaks the pattern; {values['slug']!r} is used."
        problems.append(error("slug-invalid", message, "Use lowercase letters, digits and hyphens.", field="slug"))


def _describe(values: dict[str, Any], full: str, problems: list[Problem]) -> None:
    """Take the sidecar's description where SKILL.md has the same in short or in other white space."""
    short = " ".join(str(values.get("description", "")).split()).removesuffix("…")
    if not short or " ".join(full.split()).startswith(short):
        values["description"] = full
        problems[:] = [problem for problem in problems if not problem.code.startswith("description-")]
    else:
        message = f"SKILL.md and {SIDECAR} give different descriptions; SKILL.md counts."
        problems.append(info("description-differs", message, f"Remove it from {SIDECAR}.", field="description"))


def _artifacts(
    package: Package, path: str, document: Document, sidecar: Sidecar, problems: list[Problem], limits: Limits
) -> list[Artifact]:
    """The body, then what the sidecar lists in its order, then what lies where its kind lies."""
    entries = _with_execute_file(capped(sidecar.artifacts, problems), package, sidecar.not_artifacts)
    listed = {entry.get("path") for entry in entries if isinstance(entry.get("path"), str)}
    found: list[Artifact | None] = []
    if document.body.strip() and path not in listed:
        found.append(trusted_instructions(path, document.body))
    for index, entry in enumerate(entries):
        body = trusted_instructions(path, document.body)
        found.append(_listed(f"artifacts[{index}]", entry, package, body, problems, limits))
    taken = {artifact.name for artifact in found if artifact is not None}
    for kind, unlisted in _unlisted(package, listed, sidecar.not_artifacts):
        if kind in FILE_KINDS:
            found.append(file_artifact(kind, unlisted, taken))
        else:
            found.append(
                artifact_from(settings_of(kind, unlisted, package, problems, limits=limits), unlisted, problems)
            )
    return [artifact for artifact in found if artifact is not None]


def _with_execute_file(entries: Sequence[JsonObject], package: Package, plain: tuple[str, ...]) -> list[JsonObject]:
    """The entries, the one that is called `execute` with the path of the file of that name where it gives none itself."""
    listed = {entry.get("path") for entry in entries if isinstance(entry.get("path"), str)} | set(plain)
    path = next((path for path in EXECUTE_FILES if package.get(path) is not None and path not in listed), None)
    return [{**entry, "path": path} if path is not None and _is_execute(entry) else entry for entry in entries]


def _is_execute(entry: JsonObject) -> bool:
    return "path" not in entry and entry.get("name") == EXECUTE and entry.get("kind", "function") == "function"


def _unlisted(package: Package, listed: set[Any], plain: tuple[str, ...]) -> list[tuple[Kind, str]]:
    """The files that are artifacts by where they lie, by kind and path."""
    folders = tuple(path for path in plain if path.endswith("/"))
    passed = {*listed, *plain}
    found: list[tuple[Kind, str]] = []
    for file in package.files:
        kind = kind_of(file.path)
        if kind is None or file.path in passed or file.path.startswith(folders):
            continue
        if not _is_other_data(kind, file):
            found.append((kind, file.path))
    return sorted(found, key=lambda item: (KINDS.index(item[0]), item[1]))


def _is_other_data(kind: Kind, file: File) -> bool:
    """Data that lies among the prompts without being one."""
    return kind == "prompt_template" and is_data(file.path) and b"template" not in file.content


def _listed(
    where: str, entry: JsonObject, package: Package, body: Instructions, problems: list[Problem], limits: Limits
) -> Artifact | None:
    path = entry.get("path")
    if path is None:
        return build_artifact(entry, entry, where, problems)
    if path == body.path:
        settings = {**body.model_dump(include={"kind", "name", "path", "content", "ordinal"}), **entry}
        return build_artifact(settings, entry, where, problems)
    if not isinstance(path, str) or package.get(path) is None:
        message = f"{SIDECAR} lists {path!r}, which is not in the package."
        problems.append(error("missing-file", message, "Add the file, or take it off the list.", field=where))
        return None
    kind = entry.get("kind", kind_of(path))
    if not isinstance(kind, str) or kind not in MODELS:
        return build_artifact({**entry, "kind": kind}, entry, where, problems)
    state = entry.get("state")
    state = state if isinstance(state, str) else None
    settings = settings_of(cast("Kind", kind), path, package, problems, state_path=state, limits=limits)
    settings |= {name: value for name, value in entry.items() if name not in ("state", "content")}
    return build_artifact(settings, entry, where, problems)
