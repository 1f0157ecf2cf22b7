"""Archives: the files of one or more skills in one file, read defensively and written reproducibly.

The first bytes determine the type of an archive, and its suffix must match. Entries are read one by one, with running limits
on the unpacked bytes, and nothing is unpacked to disk. Reading stops at the first bad entry, with its name.
"""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
from typing import Literal

from prowess.errors import Invalid
from prowess.skill.archive.entries import EntryCollector
from prowess.skill.archive.tar import GZIP_MAGIC, gunzip, is_tar, read_tar
from prowess.skill.archive.zip import ZIP_MAGIC, read_zip
from prowess.skill.filenames import is_marker, outermost_folders
from prowess.skill.limits import DEFAULT_LIMITS, KIB, Limits
from prowess.skill.package import File, Package, check_path, too_large_error

__all__ = ["ARCHIVE_SUFFIXES", "ArchiveKind", "is_archive", "read_archive", "write_archive"]

ArchiveKind = Literal["zip", "tar.gz"]
ARCHIVE_SUFFIXES = (".skill", ".zip", ".tar.gz", ".tgz", ".tar")

_SUFFIX_KINDS = {".tar.gz": "gzip", ".tgz": "gzip", ".tar": "tar", ".zip": "zip"}
"""The archive type by suffix. A `.skill` file may be any of them."""

# Room for each file's headers and padding, on top of the bytes that skills may have: gzip is unpacked before the
# entries are known.
_TAR_OVERHEAD = 4 * KIB
# The earliest date that a zip can hold. A real date would give other bytes each time.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def is_archive(data: bytes) -> bool:
    """Return True if the bytes (the first 512 are enough) start an archive that can be read."""
    return data.startswith((*ZIP_MAGIC, GZIP_MAGIC)) or is_tar(data)


def read_archive(data: bytes, name: str, limits: Limits = DEFAULT_LIMITS) -> list[Package]:
    """Return the skills in an archive, at least one; `name` is the name of the archive.

    A single top-level folder is removed and names the skill; otherwise the name of the archive does. If the top level is not a
    skill but folders below it are, each of them is a skill.
    """
    return _split_packages(read_archive_files(data, name, limits), _stem(name), limits)


def read_archive_files(data: bytes, name: str, limits: Limits = DEFAULT_LIMITS) -> list[File]:
    """Return the files of an archive, at least one, under their paths in it."""
    if len(data) > limits.archive_bytes:
        raise too_large_error("bytes in one archive", limits.archive_bytes, f"{len(data):,}", "max_archive_bytes")
    _check_suffix(data, name)
    collector = EntryCollector(limits)
    if data.startswith(ZIP_MAGIC):
        read_zip(data, collector)
    elif data.startswith(GZIP_MAGIC):
        read_tar(_unpack_tar_gz(data, limits), collector)
    elif is_tar(data):
        read_tar(data, collector)
    else:
        raise Invalid(
            f"{name!r} is not a supported archive.",
            hint="Use a zip (.skill, .zip) or tar (.tar.gz, .tgz, .tar) file without other data before the archive.",
        )
    if not collector.files:
        raise Invalid(f"The archive {name!r} contains no files.", hint="Pack the skill's folder.")
    return collector.files


def _check_suffix(data: bytes, name: str) -> None:
    """Raise `Invalid` for an archive of another type than its suffix says: programs that go by the suffix would unpack something else."""
    lower = name.lower()
    stated = next((kind for suffix, kind in _SUFFIX_KINDS.items() if lower.endswith(suffix)), None)
    actual = "zip" if data.startswith(ZIP_MAGIC) else "gzip" if data.startswith(GZIP_MAGIC) else "tar"
    if stated and stated != actual and is_archive(data):
        raise Invalid(
            f"{name!r} is a {actual} archive, but its suffix says {stated}.",
            hint="Check where the file comes from, then rename it or pack it again.",
        )


def _unpack_tar_gz(data: bytes, limits: Limits) -> bytes:
    unpacked = gunzip(data, limits.skill_bytes + limits.files * _TAR_OVERHEAD)
    if not is_tar(unpacked):
        raise Invalid("The gzip file does not contain a tar archive.", hint="Pack the skill's folder with `tar -czf`.")
    return unpacked


def _stem(name: str) -> str:
    name = name.rpartition("/")[2]
    lower = name.lower()
    suffix = next((suffix for suffix in ARCHIVE_SUFFIXES if lower.endswith(suffix)), "")
    return name[: len(name) - len(suffix)] or name


def _split_packages(files: list[File], name: str, limits: Limits) -> list[Package]:
    tops = {file.path.partition("/")[0] for file in files}
    if len(tops) == 1 and all("/" in file.path for file in files):
        name = tops.pop()
        files = _files_below(files, name)
    marked = [folder for folder, _, last in (file.path.rpartition("/") for file in files) if is_marker(last)]
    # Without any marker the whole archive is one package: the readers then say what is missing.
    if "" in marked or not marked:
        return [Package.of(name, files, limits)]
    return [
        Package.of(folder.rpartition("/")[2], _files_below(files, folder), limits)
        for folder in outermost_folders(marked)
    ]


def _files_below(files: list[File], folder: str) -> list[File]:
    prefix = folder + "/"
    return [
        File(path=file.path.removeprefix(prefix), content=file.content, mode=file.mode)
        for file in files
        if file.path.startswith(prefix)
    ]


def write_archive(package: Package, kind: ArchiveKind, *, folder: bool = True) -> bytes:
    """Return the skill as an archive; the same files always give the same bytes.

    Its folder is at the top level, or with `folder=False` its files are, as well-known sites must have it.
    """
    top = package.name
    if "/" in top:
        raise Invalid(f"{top[:80]!r} is not a valid folder name.", hint="Rename the skill.")
    check_path(top)
    prefix = f"{top}/" if folder else ""
    return _write_zip(package, prefix) if kind == "zip" else _write_tar_gz(package, prefix)


def _write_zip(package: Package, prefix: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in package.files:
            info = zipfile.ZipInfo(prefix + file.path, _EPOCH)
            info.create_system = 3  # Unix: only then do readers look at the mode
            info.external_attr = (stat.S_IFREG | int(file.mode, 8)) << 16
            archive.writestr(info, file.content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _write_tar_gz(package: Package, prefix: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in package.files:
            info = tarfile.TarInfo(prefix + file.path)
            info.size = len(file.content)
            info.mode = int(file.mode, 8)
            archive.addfile(info, io.BytesIO(file.content))
    # `mtime=0`, because gzip writes the current time into its header by default. Dates and owners in the tar are 0
    # already, the defaults of `TarInfo`.
    return gzip.compress(out.getvalue(), mtime=0)
