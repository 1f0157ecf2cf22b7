"""Uploads of skills: the body of a request as a file that the engine reads, in a folder that is removed again.

An archive is never unpacked to disk: its reader checks every entry and gives the skills in it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fastapi import Request

from prowess.errors import Invalid, ProwessError
from prowess.skill.filenames import SKILL_MD
from prowess.skill.slug import is_slug
from prowess.skill.text.reader import read_document

JSON = "application/json"
ARCHIVE_NAMES: Mapping[str, str] = {
    "application/zip": "upload.zip",
    "application/gzip": "upload.tar.gz",
    "application/x-tar": "upload.tar",
    JSON: "upload.json",
}
MARKDOWN = "text/markdown"
UPLOAD_TYPES = frozenset({*ARCHIVE_NAMES, MARKDOWN})
"""The content types of an uploaded skill: an archive, one document, or a package in JSON."""


class Upload:
    """An uploaded file."""

    def __init__(self, folder: Path, path: Path) -> None:
        self._folder = str(folder)
        self.path = path

    def clean(self, text: str) -> str:
        """Return a message without the temporary folder."""
        return text.replace(f"{self._folder}/", "").replace(self._folder, "upload")


@contextmanager
def stored_upload(kind: str, data: bytes) -> Generator[Upload]:
    """Yield the upload as a file. No error of the block names the temporary folder."""
    with TemporaryDirectory(prefix="prowess-upload-") as temporary:
        folder = Path(temporary).resolve()
        path = folder / (f"{_document_name(data)}/{SKILL_MD}" if kind == MARKDOWN else ARCHIVE_NAMES[kind])
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        upload = Upload(folder, path)
        try:
            yield upload
        except ProwessError as error:
            error.message, error.hint = upload.clean(error.message), upload.clean(error.hint)
            raise


async def read_upload(request: Request) -> tuple[str, bytes]:
    """Return the content type and the bytes of an upload, or raise `Invalid`. The guard has checked type and size."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    data = await request.body()
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
