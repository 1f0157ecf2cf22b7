"""Writing a native folder: SKILL.md with the standard's fields, a sidecar with the rest, one file per artifact."""

from __future__ import annotations

from prowess.skill.filenames import SIDECAR
from prowess.skill.forms.data import same
from prowess.skill.forms.draft import draft
from prowess.skill.forms.form import Reading
from prowess.skill.forms.frontmatter import body_holder
from prowess.skill.forms.layout import Places, files_of, has_file, kind_of, settings_of
from prowess.skill.forms.native import read
from prowess.skill.forms.origin import DATA_FORMS, Origin
from prowess.skill.forms.original import Original, content_of
from prowess.skill.forms.sidecar import FIELD_OF, RUN_FIELDS, render_sidecar
from prowess.skill.forms.skill_md import SkillMd, write_skill_md
from prowess.skill.kinds import FILE_KINDS, Artifact, JsonObject
from prowess.skill.limits import Limits
from prowess.skill.model import Provenance, Skill
from prowess.skill.needs import NEED_FIELDS
from prowess.skill.package import File, Package


def render(skill: Skill, original: Original) -> list[File]:
    """Write a folder that passes for a plain skill everywhere: only the standard's fields stand in SKILL.md."""
    return render_folder(skill, original, standard_only=True)


def render_folder(skill: Skill, original: Original, *, standard_only: bool) -> list[File]:
    """Write a native folder; without `standard_only`, SKILL.md keeps all its fields that still hold."""
    skill_md = write_skill_md(skill, original, standard_only=standard_only)
    holder = body_holder(skill)
    if holder is not None and skill_md.document.body != holder.content:
        holder = None
    artifacts, files, entries = _artifact_files(skill, holder, skill_md.file, original)
    fields = _fields(skill, original, skill_md)
    plain = _plain_files(original, files)
    if plain:
        fields["not_artifacts"] = plain
    files = [skill_md.file, *files, *_free_files(original, files)]
    return _with_sidecar(skill.name, fields, files, artifacts, entries, original.limits)


def _fields(skill: Skill, original: Original, skill_md: SkillMd) -> JsonObject:
    """What the sidecar has to say: everything that SKILL.md alone would give otherwise."""
    package = Package.written(skill.name, [skill_md.file])
    said = draft("native", package, skill_md.file.path, skill_md.document, []) or {}
    base = content_of(Skill.model_validate({"slug": skill.name, "title": skill.name, **said}))
    wanted = content_of(skill)
    fields: JsonObject = {
        sidecar: wanted[field] for sidecar, field in FIELD_OF.items() if not same(base[field], wanted[field])
    }
    if base["slug"] != skill.slug:
        fields["slug"] = skill.slug
    if base["description"] != skill.description:
        fields["description"] = skill.description
    known = original.reading.skill
    if known.id if known else skill.id:
        fields["id"] = known.id if known else skill.id
    there: JsonObject = base["extra"]
    extra = {key: value for key, value in skill.extra.items() if key not in there or not same(there[key], value)}
    return fields | _provenance(skill.provenance) | _origin(original, skill_md, extra)


def _provenance(provenance: Provenance) -> JsonObject:
    stated = provenance.model_dump(exclude_defaults=True)
    source = stated.pop("source", None)
    fields: JsonObject = {"source": source} if source else {}
    return fields | ({"provenance": stated} if stated else {})


def _origin(original: Original, skill_md: SkillMd, extra: JsonObject) -> JsonObject:
    """The origin, and the fields without a meaning here, that SKILL.md has not, in the place where their form has them."""
    origin, document = original.origin, original.reading.document
    if origin is not None and origin.form in DATA_FORMS:
        needs = {key: extra[key] for key in NEED_FIELDS if _fits(key, extra.get(key))}
        others = {key: value for key, value in extra.items() if key not in needs}
        return {**needs, "origin": origin.model_copy(update={"extra": others}).stated()}
    about_runs = {key: extra[key] for key in RUN_FIELDS if _fits(key, extra.get(key))}
    others = {key: value for key, value in extra.items() if key not in about_runs}
    fields: JsonObject = {**about_runs, **({"frontmatter": others} if others else {})}
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
    """Each artifact with its path, its files, and what the sidecar must say beyond what the file says itself."""
    places = Places({skill_md.path, SIDECAR, *(file.path for file in original.others)})
    placed: list[Artifact] = []
    files: list[File] = []
    for artifact in skill.artifacts:
        path = None
        if artifact is holder:
            path = skill_md.path
        elif has_file(artifact, original.package):
            path = places.place(artifact)
            files += files_of(artifact, path, original.package, original.before(artifact), original.limits)
        elif artifact.kind in FILE_KINDS:
            continue
        placed.append(artifact.model_copy(update={"path": path}))
    package = Package.written("", [skill_md, *files])
    entries = [_entry(artifact, skill_md.path, package, original.limits) for artifact in placed]
    return placed, files, entries


def _entry(artifact: Artifact, skill_md: str, package: Package, limits: Limits) -> JsonObject:
    """The entry of an artifact: what differs from what its file alone would make of it."""
    stated = artifact.model_dump(exclude={"content", "id", "skill_id", "revision", "state"}, exclude_defaults=True)
    stated |= {"kind": artifact.kind, "name": artifact.name, "ordinal": artifact.ordinal}
    path = artifact.path
    if path is None:
        return {key: value for key, value in stated.items() if key != "ordinal" or value}
    if path == skill_md:
        base: JsonObject = {"kind": "instructions", "name": "instructions", "path": path, "ordinal": 0}
    else:
        base = settings_of(artifact.kind, path, package, [], limits=limits)
        base["kind"] = kind_of(path)
    whole = artifact.model_dump()
    for field in base:
        if field in whole and field != "content" and not same(base[field], whole[field]):
            stated[field] = whole[field]
    entry = {key: value for key, value in stated.items() if key not in base or not same(base[key], value)}
    return {"path": path, **entry}


def _plain_files(original: Original, files: list[File]) -> list[str]:
    """The files that lie where artifacts do without being any: by folder where no artifact lies in it."""
    holding = {file.path.partition("/")[0] for file in files}
    found: dict[str, None] = {}
    for file in _free_files(original, files):
        if kind_of(file.path) is not None:
            folder = file.path.partition("/")[0]
            found[file.path if folder in holding or "/" not in file.path else folder + "/"] = None
    return list(found)


def _free_files(original: Original, files: list[File]) -> list[File]:
    taken = {file.path for file in files}
    return [file for file in original.others if file.path not in taken and file.path != SIDECAR]


def _with_sidecar(
    name: str,
    fields: JsonObject,
    files: list[File],
    artifacts: list[Artifact],
    entries: list[JsonObject],
    limits: Limits,
) -> list[File]:
    """The files with the shortest sidecar that gives the artifacts in their order."""
    needed = [entry for entry in entries if set(entry) != {"path"}]
    for listed in (needed, entries):
        sidecar = {**fields, **({"artifacts": listed} if listed else {})}
        written = [*files, File(path=SIDECAR, content=render_sidecar(sidecar))]
        reading = read(Package.written(name, written), limits)
        if _gives(reading, artifacts) or listed is entries:
            return written
    raise AssertionError  # the loop ends with the full list


def _gives(reading: Reading, artifacts: list[Artifact]) -> bool:
    found = [(artifact.name, artifact.variant) for artifact in reading.skill.artifacts] if reading.skill else []
    return found == [(artifact.name, artifact.variant) for artifact in artifacts]


def _fits(field: str, value: object) -> bool:
    """Whether the sidecar's own field can hold it."""
    if field in NEED_FIELDS:
        return value is not None
    return isinstance(value, dict if field == "observability" else list)
