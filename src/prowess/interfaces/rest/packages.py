"""Routes of skills as files: validate, import, export, list and read files, and the findings about them."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path as FilePath
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from prowess.catalog.importer import OnConflict
from prowess.errors import Invalid, ProwessError
from prowess.interfaces.rest.problems import read_body
from prowess.interfaces.rest.request import Body, Reader, Shape, Writer, etag, respond
from prowess.interfaces.rest.sessions import LoadShape, Name
from prowess.interfaces.rest.skills import ProblemShape, SkillId, WritableScope, find_readable
from prowess.skill.archive import write_archive
from prowess.skill.filenames import SKILL_MD
from prowess.skill.json_values import map_texts
from prowess.skill.package import Package
from prowess.skill.profiles.profile import ProfileName
from prowess.skill.slug import is_slug
from prowess.skill.text.reader import read_document
from prowess.storage.files.skill_packages import read_folder
from prowess.threads import offload
from prowess.view import JsonObject, checked_json, imported_json

JSON = "application/json"
_ARCHIVE_NAMES: Mapping[str, str] = {
    "application/zip": "upload.zip",
    "application/gzip": "upload.tar.gz",
    "application/x-tar": "upload.tar",
    JSON: "upload.json",
}
_MARKDOWN = "text/markdown"
UPLOAD_TYPES = frozenset({*_ARCHIVE_NAMES, _MARKDOWN})
"""The content types of an uploaded skill: an archive, one document, or a package in JSON."""


class Upload:
    """An uploaded file, in a folder that is removed again. An archive is never unpacked: its reader checks every entry."""

    def __init__(self, folder: FilePath, path: FilePath) -> None:
        self._folder = str(folder)
        self.path = path

    def clean(self, text: str) -> str:
        """Return a message without the temporary folder."""
        return text.replace(f"{self._folder}/", "").replace(self._folder, "upload")


@contextmanager
def _stored_upload(kind: str, data: bytes) -> Generator[Upload]:
    """Yield the upload as a file. No error of the block names the temporary folder."""
    with TemporaryDirectory(prefix="prowess-upload-") as temporary:
        folder = FilePath(temporary).resolve()
        path = folder / (f"{_document_name(data)}/{SKILL_MD}" if kind == _MARKDOWN else _ARCHIVE_NAMES[kind])
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        upload = Upload(folder, path)
        try:
            yield upload
        except ProwessError as error:
            error.message, error.hint = upload.clean(error.message), upload.clean(error.hint)
            raise


async def _read_upload(request: Request) -> tuple[str, bytes]:
    """Return the content type and the bytes of an upload, or raise `Invalid`. The guard has checked type and size."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    data = await read_body(request)
    if kind not in UPLOAD_TYPES or not data:
        raise Invalid(
            "The request has no skill in its body.",
            hint=f"Send an archive or a document as the body, with its type: {', '.join(sorted(UPLOAD_TYPES))}.",
        )
    return kind, data


def _document_name(data: bytes) -> str:
    """Return the folder for a document: the name that it says, as the standard requires of a skill in a folder."""
    name = read_document(data[:100_000]).fields.get("name")
    return name if isinstance(name, str) and is_slug(name) else "skill"


router = APIRouter(prefix="/skills", tags=["packages"])

UPLOAD_PATHS = ("/skills/import", "/skills/validate")

ExportForm = Literal[
    "native", "agentskills", "agentcy", "bernstein", "devai", "inklings", "agentlayerrules", "skill", "zip", "tar.gz"
]
_ARCHIVES = {"skill": "application/zip", "zip": "application/zip", "tar.gz": "application/gzip"}
_TEXT = "text/plain; charset=utf-8"
_BINARY = "application/octet-stream"
_UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "An archive, one Markdown document, or a package in JSON.",
        "content": {
            kind: {"schema": {} if kind == JSON else {"type": "string", "format": "binary", "minLength": 1}}
            for kind in sorted(UPLOAD_TYPES)
        },
    }
}


class FindingShape(Shape):
    """A suspicious part of a file. Findings are advice."""

    severity: str
    kind: str
    path: str
    line: int | None
    excerpt: str
    message: str
    hint: str


class CheckedShape(Shape):
    """The verdict on one skill of an upload."""

    path: str
    form: str | None
    slug: str | None
    title: str | None
    description: str | None
    ok: bool
    problems: list[ProblemShape]
    findings: list[FindingShape]


class ValidationShape(Shape):
    """The verdict on an upload: `ok` if all its skills are valid."""

    ok: bool
    profile: str
    items: list[CheckedShape]


class ImportErrorShape(Shape):
    """Why a skill was not imported."""

    code: str
    message: str
    hint: str


class ImportedShape(Shape):
    """One skill of an upload: as it was stored, or the error."""

    path: str
    slug: str | None
    form: str | None
    version: str | None
    digest: str | None
    changed: bool
    skipped: bool
    chars: int
    problems: list[ProblemShape]
    findings: list[FindingShape]
    error: ImportErrorShape | None


class ImportShape(Shape):
    """The result of an import, with every skill of the upload."""

    imported: int
    skipped: int
    failed: int
    items: list[ImportedShape]


class FileShape(Shape):
    """One file of a skill."""

    path: str
    mode: str
    size: int
    sha256: str


class FilesShape(Shape):
    """The files of a skill."""

    slug: str
    digest: str
    files: list[FileShape]


class FindingsShape(Shape):
    """The findings about a skill, most severe first."""

    slug: str
    digest: str
    findings: list[FindingShape]


@router.post("/validate", response_model=ValidationShape, openapi_extra=_UPLOAD, summary="Validate an uploaded skill")
async def validate_upload(
    request: Request,
    engine: Reader,
    profile: Annotated[ProfileName, Query(description="The rules to check against.")] = "prowess",
) -> Response:
    """Check every skill of an upload, and report its problems and findings. Nothing is stored."""
    kind, data = await _read_upload(request)
    with _stored_upload(kind, data) as upload:
        checked = await engine.skills.check(upload.path, profile=profile)
        results = [map_texts(checked_json(result), upload.clean) for result in checked]
    return respond({"ok": all(result.ok for result in checked), "profile": profile, "items": results})


@router.post("/import", response_model=ImportShape, openapi_extra=_UPLOAD, summary="Import an uploaded skill")
async def import_upload(
    request: Request,
    engine: Writer,
    scope: Annotated[WritableScope, Query(description="The scope of the new skills.")] = "org",
    on_conflict: Annotated[OnConflict, Query(description="What to do if a slug is already taken.")] = "refuse",
    prefix: Annotated[str, Query(max_length=100, description="A namespace for all slugs.")] = "",
    slug: Annotated[str, Query(alias="as", max_length=200, description="The slug of the only skill.")] = "",
) -> Response:
    """Import every skill of an upload. A skill that cannot be imported does not stop the others.

    If none can be imported, the answer is the first error. Only a person can import.
    """
    if slug and prefix:
        raise Invalid("`as` and `prefix` cannot be combined.", hint="Use one of them.")
    kind, data = await _read_upload(request)
    with _stored_upload(kind, data) as upload:
        done = await engine.skills.import_path(
            upload.path, scope=scope, on_conflict=on_conflict, slug=slug, prefix=prefix, origin="upload"
        )
        failed = [result.error for result in done if result.error is not None]
        if failed and len(failed) == len(done):
            raise failed[0]
        results = [map_texts(imported_json(result), upload.clean) for result in done]
    skipped = sum(result.skipped for result in done)
    counts = {"imported": len(done) - len(failed) - skipped, "skipped": skipped, "failed": len(failed)}
    return respond({**counts, "items": results})


@router.get(
    "/{id}/export",
    response_class=Response,
    responses={200: {"content": {kind: {} for kind in ("application/zip", "application/gzip")}}},
    summary="Export a skill",
)
async def export_skill(
    id: SkillId,
    engine: Reader,
    form: Annotated[ExportForm, Query(description="An archive of its files, or of another form.")] = "zip",
    profile: Annotated[
        ProfileName | None, Query(description="Convert the skill so that it passes this profile.")
    ] = None,
) -> Response:
    """Return a skill as an archive: its files unchanged, in another form, or so that they pass a profile.

    A form that is not an archive is packed as a zip. `X-Prowess-Left-Out` says how many parts the form cannot hold.
    """
    address = await find_readable(engine, id)
    suffix = form if form in _ARCHIVES and profile is None else "zip"
    with TemporaryDirectory(prefix="prowess-export-") as folder:
        written = await engine.skills.export(
            address, FilePath(folder), form=form if profile is None else None, profile=profile
        )
        data = await offload(_read_archive, written.path)
        name = written.path.name if written.path.is_file() and form in _ARCHIVES else f"{written.path.stem}.{suffix}"
    headers = {**_attachment(name), "X-Prowess-Left-Out": str(len(written.left_out))}
    return Response(data, headers={**headers, "content-type": _ARCHIVES[suffix]})


def _read_archive(path: FilePath) -> bytes:
    """Return an exported archive; a folder or a single file is packed as a zip."""
    if path.is_dir():
        return write_archive(read_folder(path), "zip")
    if path.name.endswith((".skill", ".zip", ".tar.gz")):
        return path.read_bytes()
    return write_archive(Package.of_texts(path.stem, {path.name: path.read_bytes()}), "zip")


@router.get("/{id}/files", response_model=FilesShape, summary="List the files of a skill")
async def list_files(id: SkillId, engine: Reader) -> Response:
    """Return path, mode, size and hash of every file."""
    address = await find_readable(engine, id)
    skill = await engine.skills.get(address)
    files = [
        {"path": file.path, "mode": file.mode, "size": file.size, "sha256": file.sha256} for file in skill.manifest
    ]
    return respond({"slug": skill.slug, "digest": skill.digest, "files": files}, 200, {"ETag": etag(skill.digest)})


@router.get(
    "/{id}/files/{path:path}",
    response_class=Response,
    responses={200: {"content": {_BINARY: {}, "text/plain": {}}}},
    summary="Read a file of a skill",
)
async def read_file(
    id: SkillId, path: Annotated[str, Path(min_length=1, max_length=1_000)], engine: Reader
) -> Response:
    """Return one file by its exact path. It is always a download: no browser shows or runs it."""
    address = await find_readable(engine, id)
    data = await engine.skills.read_file(address, path)
    headers = _attachment(path.rpartition("/")[2])
    return Response(data, headers={**headers, "content-type": _TEXT if _is_text(data) else _BINARY})


def _is_text(data: bytes) -> bool:
    try:
        return "\x00" not in data.decode()
    except UnicodeDecodeError:
        return False


def _attachment(name: str) -> dict[str, str]:
    """Return the headers of a download with a file name that cannot end the header."""
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in name) or "file"
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return {"content-disposition": disposition, "x-content-type-options": "nosniff"}


class LoadTextBody(Body):
    """The text to load: the instructions, or a reference or a script by name."""

    reference: Name | None = None
    script: Name | None = None


@router.post("/{id}/load", response_model=LoadShape, summary="Load a text of a skill")
async def load_text(id: SkillId, body: LoadTextBody, engine: Reader) -> Response:
    """Return the instructions, a reference or a script of a skill, outside any session. The load is recorded."""
    address = await engine.skills.locate(id)
    return respond(await engine.sessions.load(address, reference=body.reference, script=body.script))


@router.get("/{id}/findings", response_model=FindingsShape, summary="Get the findings about a skill")
async def read_findings(id: SkillId, engine: Reader) -> Response:
    """Return what the files of a skill appear to do, most severe first."""
    address = await find_readable(engine, id)
    skill = await engine.skills.get(address)
    found: list[JsonObject] = [dict(row) for row in await engine.skills.findings(address)]
    return respond({"slug": skill.slug, "digest": skill.digest, "findings": found})
