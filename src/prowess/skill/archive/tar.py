"""Read tar archives, plain or gzipped.

The blocks are walked here, one header at a time, and `tarfile` only decodes a header: its own walk follows negative
sizes, recurses through chains of long names and searches extended headers in quadratic time.
"""

from __future__ import annotations

import io
import stat
import tarfile
import zlib
from dataclasses import dataclass

from prowess.errors import Invalid
from prowess.skill.archive.entries import (
    CHUNK_BYTES,
    GZIP_WINDOW,
    EntryCollector,
    InflateStream,
    entry_error,
    file_mode,
    special_file_error,
)
from prowess.skill.limits import KIB, MIB
from prowess.skill.package import too_large_error

GZIP_MAGIC = b"\x1f\x8b"

_BLOCK = 512
_NAME_BYTES = 100
# Far above any path. Parsing copies the rest of the header for each record, so its size has to be limited.
_EXTENDED_BYTES = 64 * KIB
# Of all of them together. Thousands that gzip packs into a few KiB took 8 s.
_ALL_EXTENDED_BYTES = 4 * MIB

_EXTENDING = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_SPECIAL = {
    tarfile.SYMTYPE: stat.S_IFLNK,
    tarfile.FIFOTYPE: stat.S_IFIFO,
    tarfile.CHRTYPE: stat.S_IFCHR,
    tarfile.BLKTYPE: stat.S_IFBLK,
}


def is_tar(data: bytes) -> bool:
    """Return True if the bytes start with a tar header."""
    try:
        # The checksum of the header decides: old tar files have no magic bytes.
        _decode_header(data[:_BLOCK])
    except tarfile.HeaderError:
        return False
    return True


def gunzip(data: bytes, limit: int) -> bytes:
    """Unpack gzip, up to a limit on the unpacked size."""
    stream = InflateStream(memoryview(data), GZIP_WINDOW)
    pieces: list[bytes] = []
    size = 0
    try:
        while piece := stream.read(CHUNK_BYTES):
            size += len(piece)
            if size > limit:
                raise too_large_error("bytes in one archive, unpacked", limit, "more", "max_skill_bytes")
            pieces.append(piece)
    except (zlib.error, EOFError) as error:
        raise Invalid(f"The gzip archive is damaged: {error}.", hint="Download or pack it again.") from error
    # A second gzip member would be read by some programs and not by others. Zeros are padding.
    if data[stream.position :].strip(b"\0"):
        raise Invalid("The gzip archive has bytes after its end.", hint="Pack it again without extra data.")
    return b"".join(pieces)


@dataclass(slots=True)
class _ExtendedHeader:
    """Name and size that extended headers give to the next entry; None to use the values of its own header."""

    name: str | None = None
    size: int | None = None


def read_tar(data: bytes, collector: EntryCollector) -> None:
    """Pass every file of the tar archive to `collector`; raise `Invalid` for any irregularity in the archive."""
    position = extended_bytes = count = 0
    extension = _ExtendedHeader()
    # A block of zeros, or the end of the data, ends the archive.
    while (block := data[position : position + _BLOCK]).strip(b"\0"):
        header = _read_header(block, position)
        position += _BLOCK
        extended = header.type in _EXTENDING
        # A pax header may give the size of the next entry. It never applies to another extended header.
        size = header.size if extension.size is None or extended else extension.size
        content = _slice_content(data, position, size, extension.name or header.name)
        position += -(-size // _BLOCK) * _BLOCK  # content is padded to whole blocks
        count += 1
        if count > collector.most_entries:
            raise collector.too_many()
        if extended:
            extended_bytes += size
            if extended_bytes > _ALL_EXTENDED_BYTES:
                raise entry_error(
                    header.name, f"brings the extended headers to more than {_ALL_EXTENDED_BYTES:,} bytes"
                )
            extension = _apply_extension(extension, header, content)
        else:
            _collect_entry(header, extension.name or header.name, content, collector)
            extension = _ExtendedHeader()
    if data[position:].strip(b"\0"):
        raise Invalid("The tar archive has bytes after its end.", hint="Pack it again without extra data.")


def _decode_header(block: bytes) -> tarfile.TarInfo:
    # Bytes that are not UTF-8 become lone surrogates, which `check_path` refuses with the name of the entry.
    return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")


def _read_header(block: bytes, position: int) -> tarfile.TarInfo:
    # A name ends at the first NUL. `tarfile` drops what follows in the field, and other programs may not.
    field = block[:_NAME_BYTES].rstrip(b"\0")
    if b"\0" in field:
        raise entry_error(_decode_text(field), "has a NUL character in its name")
    try:
        return _decode_header(block)
    except (tarfile.HeaderError, ValueError) as error:
        raise Invalid(
            f"The tar archive is damaged at byte {position:,}: {error}.", hint="Download or pack it again."
        ) from error


def _slice_content(data: bytes, position: int, size: int, name: str) -> memoryview:
    # Sizes in base 256 can be negative; `tarfile`'s own walk would follow them backwards.
    if size < 0 or position + size > len(data):
        raise entry_error(name, "declares a size larger than the archive", "Download or pack it again.")
    return memoryview(data)[position : position + size]


def _apply_extension(extension: _ExtendedHeader, header: tarfile.TarInfo, content: memoryview) -> _ExtendedHeader:
    if len(content) > _EXTENDED_BYTES:
        raise entry_error(header.name, f"has an extended header of {len(content):,} bytes")
    # The long target of a link. The link itself is refused when its own header comes.
    if header.type == tarfile.GNUTYPE_LONGLINK:
        return extension
    if header.type == tarfile.GNUTYPE_LONGNAME:
        return _ExtendedHeader(name=_decode_text(bytes(content).rstrip(b"\0")), size=extension.size)
    records = _parse_pax_records(bytes(content), header.name)
    # The content of a sparse file is a map of holes: a few bytes can stand for a file of any size.
    if any(key.startswith("GNU.sparse") for key in records):
        raise entry_error(header.name, "is a sparse file", "Pack it again without --sparse.")
    # `git archive` writes a global header with a comment; one that renames entries would make readers disagree.
    if header.type == tarfile.XGLTYPE:
        if records.keys() & {"path", "size"}:
            raise entry_error(header.name, "renames or resizes every entry after it")
        return extension
    size = records.get("size")
    if size is not None and not (size.isascii() and size.isdigit() and len(size) < 16):
        raise entry_error(header.name, "has a size that is not a number")
    return _ExtendedHeader(
        name=records.get("path", extension.name), size=int(size) if size is not None else extension.size
    )


def _parse_pax_records(content: bytes, name: str) -> dict[str, str]:
    """Return the records of a pax header: `length key=value`, one after the other."""
    records: dict[str, str] = {}
    content = content.rstrip(b"\0")
    start = 0
    while start < len(content):
        # At most 8 digits: a header has 64 KiB at most, and Python refuses to parse very long numbers.
        digits, _, _ = content[start : start + 8].partition(b" ")
        end = start + int(digits) if digits.isdigit() else start
        record = content[start + len(digits) + 1 : end]
        key, equals, value = record.partition(b"=")
        if not equals or end > len(content) or not value.endswith(b"\n"):
            raise entry_error(name, "has a damaged extended header")
        records[_decode_text(key)] = _decode_text(value[:-1])
        start = end
    return records


def _decode_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _collect_entry(header: tarfile.TarInfo, name: str, content: memoryview, collector: EntryCollector) -> None:
    path = name.removeprefix("./").rstrip("/")
    folder = header.type == tarfile.DIRTYPE
    # `tar -C skill .` starts with an entry for the folder itself.
    if folder and path in ("", "."):
        return
    if not collector.wants(path):
        return
    if folder:
        collector.folder(path)
        return
    if header.type == tarfile.LNKTYPE:
        raise entry_error(name, "is a hard link", "Pack it again with each file stored separately.")
    if header.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE):
        raise special_file_error(name, _SPECIAL.get(header.type, 0))
    if name.endswith("/"):
        raise entry_error(name, "has the type of a file and the name of a folder")
    collector.add(path, file_mode(header.mode), io.BytesIO(content).read)
