"""Writing a native folder: SKILL.md with the standard's fields, a sidecar with the rest, one file per artifact."""

from __future__ import annotations

from typing import cast

from prowess.skill.forms.data import same
from prowess.skill.forms.draft import SKILL_MD, draft
from prowess.skill.forms.form import Reading
from prowess.skill.forms.frontmatter import block, compose, tools_text
from prowess.skill.forms.layout import SIDECAR, Places, files_of, has_file, kind_of, settings_of
from prowess.skill.forms.markdown import find_skill_md
from prowess.skill.forms.native import read
from prowess.skill.forms.origin import Origin
from prowess.skill.forms.sidecar import FIELD_OF, render_sidecar
from prowess.skill.forms.source import Source, content_of
from prowess.skill.kinds import FILE_KINDS, Artifact, JsonObject
from prowess.skill.model import Provenance, Skill
from prowess.skill.package import File, Package
from prowess.skill.text.document import Document
from prowess.skill.text.reader import read_document
from prowess.skill.text.yaml import load

DESCRIPTION_LIMIT = 1024
COMPATIBILITY_LIMIT = 500
_LIMITS = {"description": DESCRIPTION_LIMIT, "compatibility": COMPATIBILITY_LIMIT}
_FIELD_LIMIT = 4000
_DATA_FORMS = ("devai", "inklings", "agentlayerrules")
STANDARD_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_HOLDERS = ("instructions", "description")


def render(skill: Skill, source: Source) -> list[File]:
    """Write a folder that passes for a plain skill everywhere: only the standard's fields stand in SKILL.md."""
    return render_folder(skill, source, standard_only=True)


def render_folder(skill: Skill, source: Source, *, standard_only: bool) -> list[File]:
    """Write a native folder; without `standard_only`, a SKILL.md that still holds stays as it is whatever its fields."""
    holder = _body_holder(skill)
    skill_md, document, kept = _skill_md(skill, holder, source, standard_only)
    if holder is not None and document.body != holder.content:
        holder = None
    artifacts, files, entries = _artifact_files(skill, holder, skill_md, source)
    fields = _fields(skill, source, skill_md, document, kept)
    plain = _plain_files(source, files)
    if plain:
        fields["not_artifacts"] = plain
    files = [skill_md, *files, *_free_files(source, files)]
    return _with_sidecar(skill.slug.rpartition(".")[2], fields, files, artifacts, entries)


def _body_holder(skill: Skill) -> Artifact | None:
    """The artifact whose content is the body of SKILL.md."""
    for kind in _HOLDERS:
        for artifact in skill.artifacts:
            if artifact.kind == kind and artifact.content:
                return artifact
    return None


def _skill_md(
    skill: Skill, holder: Artifact | None, source: Source, standard_only: bool
) -> tuple[File, Document, bool]:
    """SKILL.md: the one there is where it says the same, else a new one; the last value says which."""
    body = holder.content if holder is not None else ""
    path = find_skill_md(source.package)
    before = source.package.get(path) if path else None
    document = source.reading.document
    if before is not None and document is not None and document.body == body:
        name_only = before.path if not standard_only else SKILL_MD
        if _still_holds(skill, source, before.path, document, standard_only):
            return File(path=name_only, content=before.content, mode=before.mode), document, True
    fresh = compose(block(_standard_fields(skill)), body)
    written = read_document(fresh)
    if written.body != body:
        fresh = compose(block(_standard_fields(skill)), "")
        written = read_document(fresh)
    return File(path=SKILL_MD, content=fresh), written, False


def _standard_fields(skill: Skill) -> JsonObject:
    """The fields of the open standard, in so far as it has room for the values."""
    description = skill.description
    if len(description) > DESCRIPTION_LIMIT:
        description = description[: DESCRIPTION_LIMIT - 1].rstrip() + "…"
    tools = tools_text(skill.allowed_tools)
    compatibility = skill.compatibility or ""
    return {
        "name": skill.slug.rpartition(".")[2],
        "description": description,
        "license": skill.license if len(skill.license or "") <= _FIELD_LIMIT else None,
        "compatibility": compatibility if len(compatibility) <= COMPATIBILITY_LIMIT else None,
        "allowed-tools": tools if isinstance(tools, str) and len(tools) <= _FIELD_LIMIT else None,
        "metadata": skill.metadata if _is_plain(skill.metadata) else None,
    }


def _is_plain(metadata: JsonObject) -> bool:
    """Whether frontmatter can hold the metadata: names and texts, not too many."""
    texts = all(isinstance(value, str) for value in metadata.values())
    return texts and sum(len(key) + len(str(value)) for key, value in metadata.items()) <= _FIELD_LIMIT


def _is_standard(document: Document) -> bool:
    """Whether a strict reader of the standard would take the frontmatter as it is."""
    fields = document.fields
    if document.how != "yaml" or document.problems or not set(fields) <= set(STANDARD_KEYS):
        return False
    if not all(isinstance(value, str) for key, value in fields.items() if key != "metadata"):
        return False
    too_long = any(len(fields.get(key, "")) > limit for key, limit in _LIMITS.items())
    return not too_long and not load(document.raw or "").styles


def _still_holds(skill: Skill, source: Source, path: str, document: Document, standard_only: bool) -> bool:
    """Whether what SKILL.md says is still what the skill says."""
    fields = document.fields
    if standard_only and not _is_standard(document):
        return False
    said = draft("native", source.package, path, document, [])
    if said is None:
        return False
    if standard_only and fields.get("name") != skill.slug.rpartition(".")[2]:
        return False
    metadata = cast("JsonObject", said.get("metadata", {}))
    if "version" not in fields and "version" not in metadata:
        del said["version"]
    if "title" not in fields and "title" not in metadata and said["slug"] == fields.get("name"):
        del said["title"]
    if said.pop("slug") not in (skill.slug, skill.slug.rpartition(".")[2]):
        return False
    if said["description"] == _standard_fields(skill)["description"]:
        del said["description"]
    current = content_of(skill)
    extra = cast("JsonObject", said.pop("extra", {}))
    covered = all(key in skill.extra and same(skill.extra[key], value) for key, value in extra.items())
    return covered and all(same(current[field], value) for field, value in said.items())


def _fields(skill: Skill, source: Source, skill_md: File, document: Document, kept: bool) -> JsonObject:
    """What the sidecar has to say: everything that SKILL.md alone would give otherwise."""
    name = skill.slug.rpartition(".")[2]
    package = Package.written(name, [skill_md])
    said = draft("native", package, skill_md.path, document, []) or {}
    base, wanted = content_of(Skill.model_validate({"slug": name, "title": name, **said})), content_of(skill)
    fields: JsonObject = {
        sidecar: wanted[field] for sidecar, field in FIELD_OF.items() if not same(base[field], wanted[field])
    }
    fields["version"] = skill.version
    if base["slug"] != skill.slug:
        fields["slug"] = skill.slug
    if base["description"] != skill.description:
        fields["description"] = skill.description
    known = source.reading.skill
    if known.id if known else skill.id:
        fields["id"] = known.id if known else skill.id
    fields |= _provenance(skill.provenance)
    return fields | _origin(skill, source, document, kept)


def _provenance(provenance: Provenance) -> JsonObject:
    stated = provenance.model_dump(exclude_defaults=True)
    source = stated.pop("source", None)
    fields: JsonObject = {"source": source} if source else {}
    return fields | ({"provenance": stated} if stated else {})


def _origin(skill: Skill, source: Source, document: Document, kept: bool) -> JsonObject:
    """The origin, and the fields without a meaning here in the place where their form has them."""
    origin = source.origin
    extra = {key: value for key, value in skill.extra.items() if kept is False or key not in document.fields}
    if origin is not None and origin.form in _DATA_FORMS:
        return {"origin": origin.model_copy(update={"extra": extra}).stated()}
    fields: JsonObject = {"frontmatter": extra} if extra else {}
    if origin is not None and kept and source.reading.form != "native":
        origin = origin.model_copy(update={"frontmatter": None})
    elif origin is not None and not kept and _lacks_frontmatter(origin) and source.reading.document is not None:
        origin = origin.model_copy(update={"frontmatter": source.reading.document.raw})
    if origin is not None and origin != Origin(form="agentskills"):
        fields["origin"] = origin.stated()
    return fields


def _lacks_frontmatter(origin: Origin) -> bool:
    return origin.frontmatter is None and not origin.bare


def _artifact_files(
    skill: Skill, holder: Artifact | None, skill_md: File, source: Source
) -> tuple[list[Artifact], list[File], list[JsonObject]]:
    """Each artifact with its path, its files, and what the sidecar must say beyond what the file says itself."""
    places = Places({skill_md.path, SIDECAR, *(file.path for file in source.others)})
    placed: list[Artifact] = []
    files: list[File] = []
    for artifact in skill.artifacts:
        path = None
        if artifact is holder:
            path = skill_md.path
        elif has_file(artifact, source.package):
            path = places.place(artifact)
            files += files_of(artifact, path, source.package, source.before(artifact))
        elif artifact.kind in FILE_KINDS:
            continue
        placed.append(artifact.model_copy(update={"path": path}))
    package = Package.written("", [skill_md, *files])
    return placed, files, [_entry(artifact, skill_md.path, package) for artifact in placed]


def _entry(artifact: Artifact, skill_md: str, package: Package) -> JsonObject:
    """The entry of an artifact: what differs from what its file alone would make of it."""
    stated = artifact.model_dump(exclude={"content", "id", "skill_id", "revision", "state"}, exclude_defaults=True)
    stated |= {"kind": artifact.kind, "name": artifact.name, "ordinal": artifact.ordinal}
    path = artifact.path
    if path is None:
        return {key: value for key, value in stated.items() if key != "ordinal" or value}
    if path == skill_md:
        base: JsonObject = {"kind": "instructions", "name": "instructions", "path": path, "ordinal": 0}
    else:
        base = settings_of(artifact.kind, path, package, [])
        base["kind"] = kind_of(path)
    whole = artifact.model_dump()
    for field in base:
        if field in whole and field != "content" and not same(base[field], whole[field]):
            stated[field] = whole[field]
    entry = {key: value for key, value in stated.items() if key not in base or not same(base[key], value)}
    return {"path": path, **entry}


def _plain_files(source: Source, files: list[File]) -> list[str]:
    """The files that lie where artifacts do without being any: by folder where no artifact lies in it."""
    holding = {file.path.partition("/")[0] for file in files}
    found: dict[str, None] = {}
    for file in _free_files(source, files):
        if kind_of(file.path) is not None:
            folder = file.path.partition("/")[0]
            found[file.path if folder in holding or "/" not in file.path else folder + "/"] = None
    return list(found)


def _free_files(source: Source, files: list[File]) -> list[File]:
    taken = {file.path for file in files}
    return [file for file in source.others if file.path not in taken and file.path != SIDECAR]


def _with_sidecar(
    name: str, fields: JsonObject, files: list[File], artifacts: list[Artifact], entries: list[JsonObject]
) -> list[File]:
    """The files with the shortest sidecar that gives the artifacts in their order."""
    needed = [entry for entry in entries if set(entry) != {"path"}]
    for listed in (needed, entries):
        sidecar = {**fields, **({"artifacts": listed} if listed else {})}
        written = [*files, File(path=SIDECAR, content=render_sidecar(sidecar))]
        reading = read(Package.written(name, written))
        if _gives(reading, artifacts) or listed is entries:
            return written
    raise AssertionError  # the loop ends with the full list


def _gives(reading: Reading, artifacts: list[Artifact]) -> bool:
    found = [(artifact.name, artifact.variant) for artifact in reading.skill.artifacts] if reading.skill else []
    return found == [(artifact.name, artifact.variant) for artifact in artifacts]
