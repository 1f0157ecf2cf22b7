"""The native form: a SKILL.md that every client can read, and `agents/prowess.yaml` for everything else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prowess.errors import Problem
from prowess.skill.filenames import SIDECAR, SKILL_MD, find_skill_md
from prowess.skill.form_info import form_info
from prowess.skill.forms.artifact_builder import artifact_from, build_artifact, check_artifacts, limit_entries
from prowess.skill.forms.data import same_json
from prowess.skill.forms.form import Candidate, Reading, error, info
from prowess.skill.forms.frontmatter_fields import read_fields
from prowess.skill.forms.layout import PathAllocator, files_of, kind_of, needs_file, settings_of, with_execute_file
from prowess.skill.forms.markdown_reader import build_skill, check_body, construct_instructions, file_artifact
from prowess.skill.forms.markdown_writer import body_artifact
from prowess.skill.forms.origin import Origin, Original, dump_content
from prowess.skill.forms.prompt_files import is_data
from prowess.skill.forms.sidecar_file import RUN_FIELDS, SKILL_FIELDS, Sidecar, dump_sidecar, edit_sidecar, read_sidecar
from prowess.skill.forms.skill_md import SkillMd, write_skill_md
from prowess.skill.kinds import KINDS, Artifact, Instructions, JsonObject, Kind, is_plugin_kind, kind_info
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Provenance, Skill
from prowess.skill.needs import NEED_FIELDS
from prowess.skill.package import File, Package
from prowess.skill.slug import is_slug
from prowess.skill.text.document import Document
from prowess.skill.text.reader import read_document


def recognises(candidate: Candidate) -> bool:
    """Return True for a package with `agents/prowess.yaml`."""
    return candidate.package.get(SIDECAR) is not None


def read(candidate: Candidate) -> Reading:
    """Read SKILL.md, then apply `agents/prowess.yaml`, which takes precedence."""
    package, limits = candidate.package, candidate.limits
    skill_md = candidate.skill_md
    path = skill_md.path if skill_md else SKILL_MD
    document = candidate.document if skill_md else read_document(b"")
    if isinstance(document, Problem):
        return Reading(form="native", package=package, skill=None, problems=(document,))
    problems = list(document.problems)
    if skill_md is None:
        hint = "Add a SKILL.md with `name` and `description`."
        problems = [error("skill-md-missing", f"There is a {SIDECAR} but no SKILL.md.", hint, field=SKILL_MD)]
    sidecar = sidecar_of(package, problems, limits)
    values = read_fields("native", package, path, document, problems)
    if values is None:
        return Reading(form="native", package=package, skill=None, problems=tuple(problems), document=document)
    overlay(values, sidecar, problems)
    artifacts = check_artifacts(_artifacts(package, path, document, sidecar, problems, limits), problems)
    if document.body or not artifacts:
        check_body(document, limits, problems)
    skill = build_skill(values, "native", package, document, artifacts)
    return Reading(form="native", package=package, skill=skill, problems=tuple(problems), document=document)


def sidecar_of(package: Package, problems: list[Problem] | None = None, limits: Limits = DEFAULT_LIMITS) -> Sidecar:
    """Return the sidecar of a package, or an empty one."""
    file = package.get(SIDECAR)
    return Sidecar() if file is None else read_sidecar(file.content, [] if problems is None else problems, limits)


def origin(reading: Reading, limits: Limits) -> Origin | None:
    """Return the form that the skill had before it became native, as the sidecar states it."""
    return sidecar_of(reading.package, limits=limits).origin


def controls(package: Package, limits: Limits) -> frozenset[str]:  # noqa: ARG001  the signature of all forms
    """Return the paths of SKILL.md and the sidecar."""
    skill_md = find_skill_md(package)
    return frozenset({SIDECAR, skill_md.path if skill_md else SKILL_MD})


def overlay(values: dict[str, Any], sidecar: Sidecar, problems: list[Problem]) -> None:
    """Apply the fields of the sidecar over those of SKILL.md."""
    for name, field in SKILL_FIELDS.items():
        if name in sidecar.model_fields_set:
            value = getattr(sidecar, name)
            # An empty title or version says nothing; SKILL.md, or its default, stays. Any other empty field empties the
            # skill's.
            if not value and field in ("title", "version"):
                continue
            values[field] = value
    if sidecar.id:
        values["id"] = sidecar.id
    if sidecar.slug:
        _take_slug(values, sidecar.slug, problems)
    if sidecar.description is not None:
        _describe(values, sidecar.description, problems)
    extra: JsonObject = {**sidecar.frontmatter, **(sidecar.origin.extra if sidecar.origin else {})}
    about_runs = _run_fields(sidecar)
    if extra or about_runs:
        # Of unknown fields the sidecar only keeps those that SKILL.md cannot hold, so SKILL.md wins. Fields about runs
        # are the sidecar's own.
        values["extra"] = {**extra, **values.get("extra", {}), **about_runs}
    if sidecar.provenance != Provenance() or sidecar.source:
        values["provenance"] = sidecar.provenance.model_copy(
            update={"source": sidecar.source or sidecar.provenance.source}
        )


def _run_fields(sidecar: Sidecar) -> JsonObject:
    fields: JsonObject = {}
    if "observability" in sidecar.model_fields_set:
        fields["observability"] = sidecar.observability
    if "produces_artifacts" in sidecar.model_fields_set:
        fields["produces_artifacts"] = list(sidecar.produces_artifacts)
    needs = {name: getattr(sidecar, name) for name in NEED_FIELDS}
    return fields | {name: value for name, value in needs.items() if value is not None}


def _take_slug(values: dict[str, Any], slug: str, problems: list[Problem]) -> None:
    if is_slug(slug):
        values["slug"] = slug
    else:
        message = f"{SIDECAR}: the slug {slug[:80]!r} is not valid; {values['slug']!r} is used instead."
        problems.append(error("slug-invalid", message, "Use lowercase letters, digits and hyphens.", field="slug"))


def _describe(values: dict[str, Any], full: str, problems: list[Problem]) -> None:
    """Use the sidecar's description if SKILL.md has a shortened version of it, or differs in white space only."""
    short = " ".join(str(values.get("description", "")).split()).removesuffix("…")
    # Without a description in SKILL.md, `short` is the first words of its text.
    if not short or not values.get("described", True) or " ".join(full.split()).startswith(short):
        values["description"] = full
        values.pop("described", None)
        # Problems about a missing or shortened description are settled by the sidecar.
        problems[:] = [problem for problem in problems if not problem.code.startswith("description-")]
    else:
        message = f"SKILL.md and {SIDECAR} have different descriptions; the one in SKILL.md is used."
        problems.append(
            info("description-differs", message, f"Remove the description from {SIDECAR}.", field="description")
        )


def _artifacts(
    package: Package, path: str, document: Document, sidecar: Sidecar, problems: list[Problem], limits: Limits
) -> list[Artifact]:
    """Return the body, then the sidecar's list in its order, then files that are artifacts by location."""
    entries = with_execute_file(limit_entries(sidecar.artifacts, problems), package, sidecar.not_artifacts)
    listed = {entry.get("path") for entry in entries if isinstance(entry.get("path"), str)}
    found: list[Artifact | None] = []
    if document.body.strip() and path not in listed:
        found.append(construct_instructions(path, document.body))
    for index, entry in enumerate(entries):
        body = construct_instructions(path, document.body)
        found.append(_listed_artifact(f"artifacts[{index}]", entry, package, body, problems, limits))
    names = {artifact.name for artifact in found if artifact is not None}
    for kind, unlisted in _unlisted(package, listed, sidecar.not_artifacts):
        if kind_info(kind).is_file:
            found.append(file_artifact(kind, unlisted, names))
        else:
            found.append(
                artifact_from(settings_of(kind, unlisted, package, problems, limits=limits), unlisted, problems)
            )
    return [artifact for artifact in found if artifact is not None]


def _unlisted(package: Package, listed: set[Any], plain: tuple[str, ...]) -> list[tuple[Kind, str]]:
    """Return the files that are artifacts by location, sorted by kind and path."""
    folders = tuple(path for path in plain if path.endswith("/"))
    passed = {*listed, *plain}
    found: list[tuple[Kind, str]] = []
    for file in package.files:
        kind = kind_of(file.path)
        if kind is None or file.path in passed or file.path.startswith(folders):
            continue
        if not _is_other_data(kind, file):
            found.append((kind, file.path))
    order = list(KINDS)
    return sorted(found, key=lambda item: (order.index(item[0]), item[1]))


def _is_other_data(kind: Kind, file: File) -> bool:
    """Return True for a data file among the prompts that is not a prompt."""
    return kind == "prompt_template" and is_data(file.path) and b"template" not in file.content


def _listed_artifact(
    where: str, entry: JsonObject, package: Package, body: Instructions, problems: list[Problem], limits: Limits
) -> Artifact | None:
    path = entry.get("path")
    if path is None:
        # As for files, so that artifacts with and without a file run in the order of the list.
        return build_artifact({"ordinal": 1, **entry}, entry, where, problems)
    if path == body.path:
        settings = {**body.model_dump(include={"kind", "name", "path", "content", "ordinal"}), **entry}
        return build_artifact(settings, entry, where, problems)
    if not isinstance(path, str) or package.get(path) is None:
        message = f"{SIDECAR} lists {path!r}, which is not in the package."
        problems.append(error("missing-file", message, "Add the file, or remove it from the list.", field=where))
        return None
    kind = entry.get("kind", kind_of(path))
    if not isinstance(kind, str) or not (kind in KINDS or is_plugin_kind(kind)):
        return build_artifact({**entry, "kind": kind}, entry, where, problems)
    state = entry.get("state")
    state = state if isinstance(state, str) else None
    settings = settings_of(kind, path, package, problems, state_path=state, limits=limits)
    settings |= {name: value for name, value in entry.items() if name not in ("state", "content")}
    return build_artifact(settings, entry, where, problems)


def render(skill: Skill, original: Original) -> list[File]:
    """Write a folder that every client can read: SKILL.md has only the fields of the standard."""
    return render_folder(skill, original, standard_only=True)


def render_folder(skill: Skill, original: Original, *, standard_only: bool) -> list[File]:
    """Write a native folder. Without `standard_only`, SKILL.md keeps all fields that still apply."""
    skill_md = write_skill_md(skill, original, standard_only=standard_only)
    holder = body_artifact(skill)
    # Some bodies do not survive in a document, for example one with NUL characters, which is read as UTF-16. Such a
    # text gets its own file.
    if holder is not None and skill_md.document.body != holder.content:
        holder = None
    artifacts, files, entries = _artifact_files(skill, holder, skill_md.file, original)
    fields = _fields(skill, original, skill_md)
    plain = _plain_files(original, files)
    if plain:
        fields["not_artifacts"] = plain
    files = [skill_md.file, *files, *_free_files(original, files)]
    placed = skill.model_copy(update={"artifacts": tuple(artifacts)})
    return _with_kept_sidecar(placed, fields, files, entries, original) or _with_sidecar(
        skill.name, fields, files, artifacts, entries, original.limits
    )


def _fields(skill: Skill, original: Original, skill_md: SkillMd) -> JsonObject:
    """Return the fields of the sidecar: everything that SKILL.md alone does not contain."""
    # SKILL.md is read back as any reader would, so that the sidecar repeats nothing that it says already.
    package = Package.written(skill.name, [skill_md.file])
    written = read_fields("native", package, skill_md.file.path, skill_md.document, []) or {}
    base = dump_content(Skill.model_validate({"slug": skill.name, "title": skill.name, **written}))
    content = dump_content(skill)
    fields: JsonObject = {
        sidecar: content[field] for sidecar, field in SKILL_FIELDS.items() if not same_json(base[field], content[field])
    }
    if base["slug"] != skill.slug:
        fields["slug"] = skill.slug
    if base["description"] != skill.description:
        fields["description"] = skill.description
    known = original.reading.skill
    if known.id if known else skill.id:
        fields["id"] = known.id if known else skill.id
    there: JsonObject = base["extra"]
    extra = {key: value for key, value in skill.extra.items() if key not in there or not same_json(there[key], value)}
    return fields | _provenance(skill.provenance) | _origin(original, skill_md, extra)


def _provenance(provenance: Provenance) -> JsonObject:
    stated = provenance.model_dump(exclude_defaults=True)
    source = stated.pop("source", None)
    fields: JsonObject = {"source": source} if source else {}
    return fields | ({"provenance": stated} if stated else {})


def _origin(original: Original, skill_md: SkillMd, extra: JsonObject) -> JsonObject:
    """Return the origin, and the unknown fields that SKILL.md does not have, where their form keeps them."""
    origin, document = original.origin, original.reading.document
    if origin is not None and form_info(origin.form).is_data:
        needs = {key: extra[key] for key in NEED_FIELDS if _fits_field(key, extra.get(key))}
        others = {key: value for key, value in extra.items() if key not in needs}
        return {**needs, "origin": origin.model_copy(update={"extra": others}).stated()}
    about_runs = {key: extra[key] for key in RUN_FIELDS if _fits_field(key, extra.get(key))}
    others = {key: value for key, value in extra.items() if key not in about_runs}
    fields: JsonObject = {**about_runs, **({"frontmatter": others} if others else {})}
    # The author's frontmatter is kept in one place: in SKILL.md as long as that is the author's own, else in the
    # origin.
    if origin is not None and skill_md.own and original.reading.form != "native":
        origin = origin.model_copy(update={"frontmatter": None})
    elif origin is not None and not skill_md.own and _lacks_frontmatter(origin) and document is not None:
        origin = origin.model_copy(update={"frontmatter": document.raw})
    if origin is not None and origin != Origin(form="agentskills"):
        fields["origin"] = origin.stated()
    return fields


def _lacks_frontmatter(origin: Origin) -> bool:
    return origin.frontmatter is None and not origin.bare


def _artifact_files(
    skill: Skill, holder: Artifact | None, skill_md: File, original: Original
) -> tuple[list[Artifact], list[File], list[JsonObject]]:
    """Return each artifact with its path, its files, and what the sidecar must add to them."""
    places = PathAllocator({skill_md.path, SIDECAR, *(file.path for file in original.others)})
    placed: list[Artifact] = []
    files: list[File] = []
    for artifact in skill.artifacts:
        path = None
        if artifact is holder:
            path = skill_md.path
        elif needs_file(artifact, original.package):
            path = places.place(artifact)
            files += files_of(artifact, path, original.package, original.before(artifact), original.limits)
        elif kind_info(artifact.kind).is_file:
            continue
        placed.append(artifact.model_copy(update={"path": path}))
    package = Package.written("", [skill_md, *files])
    entries = [_entry(artifact, skill_md.path, package, original.limits) for artifact in placed]
    return placed, files, entries


def _entry(artifact: Artifact, skill_md: str, package: Package, limits: Limits) -> JsonObject:
    """Return the sidecar entry of an artifact: the differences from what its file alone gives."""
    stated = artifact.model_dump(
        exclude={"content", "id", "skill_id", "revision", "state"}, exclude_defaults=True, mode="json"
    )
    stated |= {"kind": artifact.kind, "name": artifact.name, "ordinal": artifact.ordinal}
    path = artifact.path
    if path is None:
        return {key: value for key, value in stated.items() if key != "ordinal" or value != 1}
    if path == skill_md:
        base: JsonObject = {"kind": "instructions", "name": "instructions", "path": path, "ordinal": 0}
    else:
        base = settings_of(artifact.kind, path, package, [], limits=limits)
        base["kind"] = kind_of(path)
    settings = artifact.model_dump(mode="json")
    for field in base:
        if field in settings and field != "content" and not same_json(base[field], settings[field]):
            stated[field] = settings[field]
    entry = {key: value for key, value in stated.items() if key not in base or not same_json(base[key], value)}
    if is_plugin_kind(artifact.kind):
        # Said even where the folder says it too: a reader without the plugin does not know the folder.
        entry["kind"] = artifact.kind
    return {"path": path, **entry}


def _plain_files(original: Original, files: list[File]) -> list[str]:
    """Return files that are in the place of artifacts but are not artifacts, as whole folders where possible."""
    holding = {file.path.partition("/")[0] for file in files}
    found: dict[str, None] = {}
    for file in _free_files(original, files):
        if kind_of(file.path) is not None:
            folder = file.path.partition("/")[0]
            found[file.path if folder in holding or "/" not in file.path else folder + "/"] = None
    return list(found)


def _free_files(original: Original, files: list[File]) -> list[File]:
    used_paths = {file.path for file in files}
    return [file for file in original.others if file.path not in used_paths and file.path != SIDECAR]


def _with_kept_sidecar(
    skill: Skill, fields: JsonObject, files: list[File], entries: list[JsonObject], original: Original
) -> list[File] | None:
    """Return the files with the sidecar that was there, comments and all, if it still makes this skill or can be edited to."""
    sidecar = original.package.get(SIDECAR)
    if sidecar is None:
        return None
    expected, was = dump_content(skill), dump_content(original.reading.skill or skill)
    edit = {key: fields.get(key) for key, field in SKILL_FIELDS.items() if not same_json(was[field], expected[field])}
    listed = sidecar_of(original.package, limits=original.limits).artifacts
    known = [entry.get("path") for entry in listed]
    added = [*listed, *(one for one in entries if set(one) != {"path"} and one.get("path") not in known)]
    for changes in ({}, edit, {**edit, "artifacts": added}, {**edit, "artifacts": entries}):
        written = [*files, replace(sidecar, content=edit_sidecar(sidecar.content, changes, original.limits))]
        reading = read(Candidate(Package.written(skill.name, written), original.limits))
        is_valid = not any(problem.severity == "error" for problem in reading.problems)
        if is_valid and reading.skill is not None and same_json(dump_content(reading.skill), expected):
            return written
    return None


def _with_sidecar(
    name: str,
    fields: JsonObject,
    files: list[File],
    artifacts: list[Artifact],
    entries: list[JsonObject],
    limits: Limits,
) -> list[File]:
    """Return the files with the shortest sidecar that gives the artifacts in their order."""
    # An entry with nothing but a path says only that the file is an artifact, which its location says already, unless
    # the order differs. Whether it does is found out by reading the result back.
    needed = [entry for entry in entries if set(entry) != {"path"}]
    for listed in (needed, entries):
        sidecar = {**fields, **({"artifacts": listed} if listed else {})}
        written = [*files, File(path=SIDECAR, content=dump_sidecar(sidecar))]
        reading = read(Candidate(Package.written(name, written), limits))
        if _reads_back(reading, artifacts) or listed is entries:
            return written
    raise AssertionError  # the loop ends with the full list


def _reads_back(reading: Reading, artifacts: list[Artifact]) -> bool:
    found = [(artifact.name, artifact.variant) for artifact in reading.skill.artifacts] if reading.skill else []
    return found == [(artifact.name, artifact.variant) for artifact in artifacts]


def _fits_field(field: str, value: object) -> bool:
    """Return True if the sidecar's own field can hold the value."""
    if field in NEED_FIELDS:
        return value is not None
    return isinstance(value, dict if field == "observability" else list)
