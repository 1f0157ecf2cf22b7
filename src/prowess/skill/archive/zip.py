"""Read zip archives (`.skill`, `.zip`) without trusting their metadata.

`zipfile` reads the directory at the end. An archive is rejected if the directory and the entries themselves disagree,
because other programs would unpack different files from it.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from typing import NamedTuple

from prowess.errors import Invalid
from prowess.skill.archive.entries import (
    RAW_WINDOW,
    EntryCollector,
    InflateStream,
    ReadBytes,
    entry_error,
    file_mode,
    special_file_error,
)

ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")

_END = struct.Struct("<4s4H2LH")
_LOCAL = struct.Struct("<4s5H3L2H")
_ZIP64 = b"PK\x06\x07"
_UNKNOWN = 0xFFFFFFFF
_DESCRIPTOR = 24
# The average size of an entry's line in the directory, name included, that an archive may have.
_DIRECTORY_BYTES = 256
_ENCRYPTED = 0x1
_STREAMED = 0x8
_UTF8 = 0x800
_UNICODE_NAME = 0x7075

# What `zipfile`, `struct` and `zlib` raise for damaged input. Callers expect only `Invalid`; a fuzz test in
# tests/skill/test_archives.py checks that.
_FAULTS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    ValueError,
    OSError,
    LookupError,
)


class _LocalHeader(NamedTuple):
    """The header before an entry's bytes."""

    magic: bytes
    needs: int
    flags: int
    method: int
    time: int
    date: int
    crc: int
    packed: int
    size: int
    name: int
    extra: int


class _ZipEntry(NamedTuple):
    """One entry: its line in the directory, its decoded name, and its packed bytes."""

    info: zipfile.ZipInfo
    name: str
    packed: memoryview


def read_zip(data: bytes, collector: EntryCollector) -> None:
    """Pass every file of the zip archive to `collector`; raise `Invalid` for any irregularity in the archive."""
    try:
        # `ZipFile` parses the whole directory when it is opened, so that is measured first.
        directory = _find_directory(data, collector)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
        if len(entries) > collector.most_entries:
            raise collector.too_many()
        for entry in _list_entries(data, entries, directory):
            _collect_entry(entry, collector)
    except _FAULTS as error:
        raise Invalid(f"The zip archive is damaged: {error or type(error).__name__}.", hint="Pack it again.") from error


def _find_directory(data: bytes, collector: EntryCollector) -> int:
    """Return where the directory starts. Raise `Invalid` if it is not at the end, or too long to read quickly."""
    # The last end record, which must reach to the end of the file: a reader that scans in another way sees the same directory.
    at = data.rfind(ZIP_MAGIC[1])
    if at < 0 or len(data) < at + _END.size:
        raise Invalid("The zip archive is truncated: its directory is missing.", hint="Download or pack it again.")
    _, disk, first_disk, _, _, size, offset, comment = _END.unpack_from(data, at)
    if data[max(at - 20, 0) : at].startswith(_ZIP64) or _UNKNOWN in (size, offset):
        raise Invalid(
            "The zip archive uses Zip64, which is not supported.",
            hint="Pack it again without Zip64, which is only needed above 4 GiB.",
        )
    if disk or first_disk:
        raise Invalid("The zip archive is split into several parts.", hint="Pack it as a single file.")
    # Bytes before the archive shift all offsets. `zipfile` corrects that silently and other programs do not, so both
    # would find other entries. A comment must end with the file for the same reason.
    if offset + size != at or at + _END.size + comment != len(data):
        raise _stray_bytes_error("around its directory")
    if size > collector.most_entries * _DIRECTORY_BYTES:
        raise collector.too_many()
    return offset


def _stray_bytes_error(where: str) -> Invalid:
    return Invalid(
        f"The zip archive has extra bytes {where} that do not belong to any entry.",
        hint="Pack it again without extra data.",
    )


def _list_entries(data: bytes, infos: list[zipfile.ZipInfo], directory: int) -> list[_ZipEntry]:
    """Return the entries by position. They must fill the file from the first byte to the directory, without other bytes."""
    entries: list[_ZipEntry] = []
    position = slack = 0
    # Entries must follow each other without gaps or overlaps. Overlapping ones unpack the same bytes many times (a bomb
    # without nesting), and a gap can hide an entry that the directory does not list.
    for info in sorted(infos, key=lambda item: item.header_offset):
        name = _decode_name(info)
        if not position <= info.header_offset <= position + slack:
            raise entry_error(name, f"starts at byte {info.header_offset:,} of the archive, not at {position:,}")
        head = _LocalHeader(*_LOCAL.unpack_from(data, info.header_offset))
        start = info.header_offset + _LOCAL.size
        _check_local_header(head, data[start : start + head.name], info, name)
        start += head.name + head.extra
        for extra in (data[start - head.extra : start], info.extra):
            _check_extra(extra, name)
        position = start + info.compress_size
        # A streamed entry is followed by a data descriptor of 12 to 24 bytes, with or without a signature.
        slack = _DESCRIPTOR if head.flags & _STREAMED else 0
        entries.append(_ZipEntry(info, name, memoryview(data)[start:position]))
    if not position <= directory <= position + slack:
        raise _stray_bytes_error("before its directory")
    return entries


def _check_local_header(head: _LocalHeader, raw: bytes, info: zipfile.ZipInfo, name: str) -> None:
    """Raise `Invalid` for an entry whose own header contradicts the directory."""
    # A streamed entry has its sizes after its content, because they were not known when its header was written.
    sizes_known = not head.flags & _STREAMED and _UNKNOWN not in (head.packed, head.size)
    if head.magic != ZIP_MAGIC[0]:
        raise entry_error(name, "is not where the archive's directory says")
    # Programs that read an archive as a stream see the header, others the directory: with two names they would write
    # two different files.
    if raw != info.orig_filename.encode("utf-8" if info.flag_bits & _UTF8 else "cp437"):
        raise entry_error(name, "has a different name in the archive's directory than in its own header")
    if head.method != info.compress_type or (head.flags ^ info.flag_bits) & _ENCRYPTED:
        raise entry_error(name, "has a different compression method in the archive's directory than in its own header")
    if sizes_known and (head.packed, head.size) != (info.compress_size, info.file_size):
        raise entry_error(name, "has a different size in the archive's directory than in its own header")


def _check_extra(extra: bytes, name: str) -> None:
    """Raise `Invalid` for an entry with a second name, which some programs use instead of the first."""
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<2H", extra)
        # After a version and a checksum of the first name.
        if kind == _UNICODE_NAME and extra[9 : 4 + size] != name.encode(errors="surrogateescape"):
            raise entry_error(name, "has a different name in its extra fields")
        extra = extra[4 + size :]


def _decode_name(info: zipfile.ZipInfo) -> str:
    """Return the intended name: some packers write UTF-8 without declaring it."""
    name = info.orig_filename
    if info.flag_bits & _UTF8 or name.isascii():
        return name
    try:
        return name.encode("cp437").decode("utf-8")
    except UnicodeError:
        return name


def _collect_entry(entry: _ZipEntry, collector: EntryCollector) -> None:
    info, name, _ = entry
    path = name.removeprefix("./").removesuffix("/")
    if not collector.wants(path):
        return
    bits = info.external_attr >> 16
    _check_type(info, name, bits)
    if name.endswith("/"):
        collector.folder(path)
        return
    content = collector.add(path, file_mode(bits), _open_entry(entry))
    # Checked here because the reader of `zipfile`, which would do it, is not used: it trusts the declared size.
    if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
        raise entry_error(
            name, "does not match its checksum or size in the archive's directory", "Download or pack it again."
        )


def _check_type(info: zipfile.ZipInfo, name: str, bits: int) -> None:
    kind = stat.S_IFMT(bits)
    folder = name.endswith("/")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise special_file_error(name, bits)
    if kind and folder != (kind == stat.S_IFDIR):
        raise entry_error(name, "has the name of a folder and the type of a file, or the reverse")
    if info.flag_bits & _ENCRYPTED:
        raise entry_error(name, "is encrypted", "Pack it without a password.")
    # Deflate of nothing is two bytes long.
    if folder and (info.file_size or info.compress_size > 2):
        raise entry_error(name, "is a folder with content")


def _open_entry(entry: _ZipEntry) -> ReadBytes:
    method = entry.info.compress_type
    if method == zipfile.ZIP_STORED:
        return io.BytesIO(entry.packed).read
    if method == zipfile.ZIP_DEFLATED:
        return InflateStream(entry.packed, RAW_WINDOW).read
    # Other methods (bzip2, LZMA) have no reader here that stops at a limit.
    raise entry_error(
        entry.name, f"uses compression method {method}, which is not supported", "Pack it again with deflate."
    )
