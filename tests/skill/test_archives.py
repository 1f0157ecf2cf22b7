"""Archives: what goes in comes out again, and what is hostile is refused by name."""

from __future__ import annotations

import gzip
import io
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.errors import Invalid
from prowess.skill.archive import is_archive, read_archive, write_archive
from prowess.skill.filenames import is_ignored
from prowess.skill.limits import Limits
from prowess.skill.package import File, Package, check_path

SKILL = b"---\nname: tidy\ndescription: Tidies.\n---\nTidy up.\n"
SMALL = Limits(file_bytes=1000, skill_bytes=3000, files=5, archive_bytes=100_000)


def make_zip(entries: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in entries.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFREG | 0o644) << 16 if not name.endswith("/") else 0
            archive.writestr(info, content, method)
    return out.getvalue()


def make_special_zip(name: str, bits: int, content: bytes = b"/etc/passwd") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.create_system = 3
        info.external_attr = bits << 16
        archive.writestr("SKILL.md", SKILL)
        archive.writestr(info, content)
    return out.getvalue()


def make_tar(*members: tarfile.TarInfo | tuple[str, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def tar_entry(name: str, type: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = type
    info.linkname = link
    return info


def refusal(data: bytes, limits: Limits | None = None) -> str:
    with pytest.raises(Invalid) as caught:
        read_archive(data, "pack.skill", limits or Limits())
    assert caught.value.hint
    return caught.value.message


# What is read


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_packed_skill_is_read_back_as_it_was(kind):
    package = Package.of(
        "tidy",
        [
            File(path="SKILL.md", content=SKILL),
            File(path="scripts/run.sh", content=b"#!/bin/sh\n", mode="0755"),
            File(path="assets/bild – größer.bin", content=bytes(range(256))),
        ],
    )
    assert read_archive(write_archive(package, kind), "other.skill") == [package]


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_the_same_files_always_give_the_same_archive(kind):
    package = Package.of_texts("tidy", {"SKILL.md": SKILL, "references/a.md": b"a"})
    assert write_archive(package, kind) == write_archive(package, kind)


names = st.text(st.characters(categories=["Ll", "Lu", "Nd"], include_characters="-_é日"), min_size=1, max_size=60)
segment = names.filter(lambda name: not is_ignored(name))
paths = st.lists(segment, min_size=1, max_size=4).map("/".join)


@settings(max_examples=60, deadline=None)
@given(
    name=segment,
    files=st.dictionaries(paths, st.tuples(st.binary(max_size=300), st.sampled_from(["0644", "0755"])), max_size=6),
    kind=st.sampled_from(["zip", "tar.gz"]),
)
def test_any_package_survives_packing(name, files, kind):
    entries = [File(path=path, content=content, mode=mode) for path, (content, mode) in files.items()]
    try:
        check_path(name)  # the folder at the top
        package = Package.of(name, [*entries, File(path="SKILL.md", content=SKILL)])
    except Invalid:
        return
    assert read_archive(write_archive(package, kind), f"x.{kind}") == [package]


def test_an_archive_without_a_folder_at_the_top_takes_its_own_name():
    data = make_zip({"SKILL.md": SKILL, "references/a.md": b"a"})
    (package,) = read_archive(data, "downloads/tidy-up.skill")
    assert (package.name, package.paths) == ("tidy-up", ("SKILL.md", "references/a.md"))


@pytest.mark.parametrize("name", ["tidy.skill", "tidy.SKILL", "tidy"])
def test_the_kind_of_an_archive_is_told_by_its_bytes_and_not_by_its_name(name):
    for data in (
        make_zip({"SKILL.md": SKILL}),
        make_tar(("SKILL.md", SKILL)),
        gzip.compress(make_tar(("SKILL.md", SKILL))),
    ):
        assert is_archive(data)
        (package,) = read_archive(data, name)
        assert (package.name, package.paths) == ("tidy", ("SKILL.md",))


@pytest.mark.parametrize(
    ("suffix", "kind"), [("zip", "zip"), ("ZIP", "zip"), ("tar.gz", "gzip"), ("tgz", "gzip"), ("tar", "tar")]
)
def test_an_archive_of_another_kind_than_its_suffix_says_is_refused(suffix, kind):
    tar = make_tar(("SKILL.md", SKILL))
    for actual, data in {"zip": make_zip({"SKILL.md": SKILL}), "gzip": gzip.compress(tar), "tar": tar}.items():
        if actual == kind:
            assert read_archive(data, f"tidy.{suffix}")[0].name == "tidy"
            continue
        with pytest.raises(Invalid, match=f"is a {actual} archive, but its suffix says {kind}"):
            read_archive(data, f"tidy.{suffix}")


DEVICES = ["CON", "nul.txt", "aux.md", "scripts/PRN", "com1.py", "LPT9.tar.gz", "aux/guide.md", "COM².txt", "conout$"]


@pytest.mark.parametrize("name", DEVICES)
def test_the_name_of_a_device_is_refused_by_name(name):
    for data in (make_zip({"SKILL.md": SKILL, name: b"x"}), make_tar(("SKILL.md", SKILL), (name, b"x"))):
        assert "device" in refusal(data)


@pytest.mark.parametrize("name", ["console.md", "auxiliary.md", "com.md", "com10.md", "null.txt", "icon.png", "a.con"])
def test_a_name_that_only_begins_like_a_device_is_a_name(name):
    (package,) = read_archive(make_zip({"SKILL.md": SKILL, name: b"x"}), "tidy.zip")
    assert name in package.paths


@pytest.mark.parametrize(
    "name", ["guide\u202edm.exe", "guide\u200f.md", "\u05d0\u200f.md", "a\u200bb.md", "a\xadb.md", "a\u2066b.md"]
)
def test_hidden_characters_and_direction_marks_in_a_name_are_refused_and_shown(name):
    for data in (make_zip({"SKILL.md": SKILL, name: b"x"}), make_tar(("SKILL.md", SKILL), (name, b"x"))):
        said = refusal(data)
        assert "hidden characters" in said
        assert not {char for char in name if not char.isprintable()} & set(said)


def test_persian_and_emoji_in_a_name_stay():
    names = ("references/می\u200cخواهم.md", "assets/👩\u200d🔬.png")
    (package,) = read_archive(make_zip({"SKILL.md": SKILL, **dict.fromkeys(names, b"x")}), "tidy.zip")
    assert set(names) < set(package.paths)


def test_an_archive_of_several_skills_gives_each_of_them():
    data = make_zip(
        {
            "repo/README.md": b"read me",
            "repo/skills/a/SKILL.md": SKILL,
            "repo/skills/a/inner/SKILL.md": SKILL,
            "repo/skills/more/b/SKILL.md": SKILL,
            "repo/skills/more/b/scripts/x.py": b"x",
            "repo/tools/c/skill.json": b"{}",
        }
    )
    packages = {package.name: package.paths for package in read_archive(data, "repo.zip")}
    assert packages == {
        "a": ("SKILL.md", "inner/SKILL.md"),
        "b": ("SKILL.md", "scripts/x.py"),
        "c": ("skill.json",),
    }


def test_what_tools_leave_behind_is_not_part_of_the_skill():
    data = make_zip(
        {
            "tidy/SKILL.md": SKILL,
            "__MACOSX/tidy/._SKILL.md": b"x",
            "tidy/.DS_Store": b"x",
            "tidy/scripts/__pycache__/run.cpython-311.pyc": b"x",
            "tidy/scripts/old.pyc": b"x",
            "tidy/node_modules/left/index.js": b"x",
            "tidy/.git/config": b"x",
        }
    )
    (package,) = read_archive(data, "x.zip")
    assert (package.name, package.paths) == ("tidy", ("SKILL.md",))


def test_the_attributes_that_tar_on_a_mac_adds_are_not_part_of_the_skill():
    attributes = b"\x00\x05\x16\x07"
    data = make_tar(("./._tidy", attributes), ("./tidy/._SKILL.md", attributes), ("./tidy/SKILL.md", SKILL))
    (package,) = read_archive(data, "x.tar")
    assert (package.name, package.paths) == ("tidy", ("SKILL.md",))


@pytest.mark.parametrize("folder", [".GIT", ".Git", "git~1"])
def test_a_git_repository_in_another_spelling_is_refused_by_name(folder):
    data = make_zip({"SKILL.md": SKILL, f"{folder}/config": b"[core]\n\tfsmonitor = run-me\n"})
    with pytest.raises(Invalid, match=f"'{folder}/config' is part of a git repository"):
        read_archive(data, "x.zip")


def test_names_in_utf8_that_do_not_say_so_are_read_as_meant():
    data = make_zip({"SKILL.md": SKILL, "assets/gr\u00f6\u00dfe.txt": b"x"})
    unmarked = data.replace(struct.pack("<HH", 20, 0x800), struct.pack("<HH", 20, 0))
    assert unmarked != data
    (package,) = read_archive(unmarked, "x.zip")
    assert "assets/größe.txt" in package.paths


def test_a_long_name_is_read_from_every_flavour_of_tar():
    long = "references/" + "n" * 150 + "/" + "m" * 120 + ".md"
    for flavour in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        (package,) = read_archive(make_tar(("SKILL.md", SKILL), (long, b"x"), format=flavour), "t.tar")
        assert package.paths == ("SKILL.md", long)


def test_names_that_begin_with_dot_slash_are_plain_names():
    folder = tar_entry("./", tarfile.DIRTYPE)
    (package,) = read_archive(make_tar(folder, ("./SKILL.md", SKILL), ("./scripts/a.sh", b"a")), "t.tar")
    assert package.paths == ("SKILL.md", "scripts/a.sh")


def test_an_archive_inside_an_archive_is_just_a_file():
    inner = make_zip({"SKILL.md": SKILL})
    (package,) = read_archive(make_zip({"SKILL.md": SKILL, "assets/inner.zip": inner}, zipfile.ZIP_STORED), "x.zip")
    assert package.get("assets/inner.zip").content == inner


def test_any_execute_bit_makes_a_file_executable():
    for bits, mode in ((0o600, "0644"), (0o610, "0755"), (0o4755, "0755")):
        (package,) = read_archive(make_special_zip("run.sh", stat.S_IFREG | bits), "x.zip")
        assert package.get("run.sh").mode == mode


# What is refused, by name

OUTSIDE = [
    "/etc/passwd",
    "../evil.md",
    "a/../../evil.md",
    "a\\..\\evil.md",
    "C:evil.md",
    "C:/evil.md",
    "a//b.md",
    "a/./b",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_path_that_leads_outside_is_refused_by_name(name):
    for data in (make_zip({"SKILL.md": SKILL, name: b"x"}), gzip.compress(make_tar(("SKILL.md", SKILL), (name, b"x")))):
        assert repr(name) in refusal(data)


def test_a_path_that_leads_outside_is_refused_even_where_it_would_be_skipped():
    assert "'../__MACOSX/x'" in refusal(make_zip({"SKILL.md": SKILL, "../__MACOSX/x": b"x"}))


def test_a_name_with_a_nul_is_refused_by_name():
    data = make_zip({"SKILL.md": SKILL, "a.mdXexe": b"x"}).replace(b"a.mdXexe", b"a.md\0exe")
    assert "a.md\\x00exe" in refusal(data)
    tar = bytearray(make_tar(("SKILL.md", SKILL), ("a.mdXexe", b"x")))
    at = tar.index(b"a.mdXexe")
    tar[at : at + 8] = b"a.md\0exe"
    header = tar[at : at + 512]
    header[148:156] = b" " * 8
    tar[at + 148 : at + 156] = b"%06o\0 " % sum(header)
    assert "a.md\\x00exe" in refusal(bytes(tar))
    pax = tar_entry("plain", tarfile.REGTYPE)
    pax.pax_headers = {"path": "a\0b"}
    assert "a\\x00b" in refusal(make_tar(("SKILL.md", SKILL), pax))


@pytest.mark.parametrize(
    ("bits", "kind"),
    [
        (stat.S_IFLNK | 0o777, "symbolic link"),
        (stat.S_IFIFO | 0o644, "named pipe"),
        (stat.S_IFSOCK | 0o644, "socket"),
        (stat.S_IFCHR | 0o644, "device"),
        (stat.S_IFBLK | 0o644, "device"),
        (stat.S_IFDIR | 0o755, "folder"),
    ],
)
def test_a_zip_entry_that_is_no_regular_file_is_refused_by_name(bits, kind):
    message = refusal(make_special_zip("references/passwd", bits))
    assert "'references/passwd'" in message
    assert kind in message


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        (tarfile.SYMTYPE, "symbolic link"),
        (tarfile.LNKTYPE, "hard link"),
        (tarfile.FIFOTYPE, "named pipe"),
        (tarfile.CHRTYPE, "device"),
        (tarfile.BLKTYPE, "device"),
        (tarfile.GNUTYPE_SPARSE, "regular"),
        (b"Z", "regular"),
    ],
)
def test_a_tar_entry_that_is_no_regular_file_is_refused_by_name(type, kind):
    message = refusal(make_tar(("SKILL.md", SKILL), tar_entry("references/passwd", type, "/etc/passwd")))
    assert "'references/passwd'" in message
    assert kind in message


def test_a_link_whose_target_has_a_long_name_is_refused_by_its_own_name():
    link = tar_entry("references/x", tarfile.SYMTYPE, "/" + "t" * 300)
    assert "'references/x'" in refusal(make_tar(("SKILL.md", SKILL), link, format=tarfile.GNU_FORMAT))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("other", ["references/a.md", "References/A.md", "references/a.md/b.md"])
def test_two_claims_on_one_path_are_refused_by_name(other):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in ("SKILL.md", "references/a.md", other):
            archive.writestr(name, b"x")
    assert repr(other) in refusal(out.getvalue())
    assert repr(other) in refusal(make_tar(("SKILL.md", b"x"), ("references/a.md", b"x"), (other, b"x")))


def test_a_file_and_a_folder_of_one_name_are_refused_whichever_comes_first():
    folder = tar_entry("Notes", tarfile.DIRTYPE)
    for members in ([folder, ("notes", b"x")], [("notes", b"x"), folder], [("notes/a", b"x"), ("notes", b"x")]):
        assert "both a file and a folder" in refusal(make_tar(("SKILL.md", SKILL), *members))
    assert "both a file and a folder" in refusal(make_zip({"SKILL.md": SKILL, "notes/": b"", "Notes": b"x"}))


def test_an_encrypted_entry_is_refused_by_name():
    data = bytearray(make_zip({"SKILL.md": SKILL}))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert "'SKILL.md' is encrypted" in refusal(bytes(data))


@pytest.mark.parametrize("junk", [b"#!/bin/sh\nexit\n", b"GIF89a", b"\0"])
def test_bytes_before_the_start_of_a_zip_are_refused(junk):
    assert "not a supported archive" in refusal(junk + make_zip({"SKILL.md": SKILL}))


def test_a_zip_hidden_behind_another_zip_is_refused():
    first, second = make_zip({"SKILL.md": b"harmless"}), make_zip({"SKILL.md": SKILL})
    assert "do not belong to any entry" in refusal(first + second)
    shifted = bytearray(second)
    directory = shifted.index(b"PK\x01\x02")
    struct.pack_into("<L", shifted, directory + 42, len(first))
    struct.pack_into("<L", shifted, shifted.index(b"PK\x05\x06") + 16, directory + len(first))
    assert "starts at byte" in refusal(first + bytes(shifted))


def test_an_entry_that_the_directory_does_not_list_is_refused():
    data = make_zip({"SKILL.md": SKILL, "hidden.sh": b"x"}, zipfile.ZIP_STORED)
    directory = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", directory + 1)
    end = data.index(b"PK\x05\x06")
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, second - directory, directory, 0)
    assert "do not belong to any entry" in refusal(data[:second] + tail)
    assert len(data) > end


def test_bytes_after_the_end_are_refused():
    assert "do not belong to any entry" in refusal(make_zip({"SKILL.md": SKILL}) + b"more")
    packed = gzip.compress(make_tar(("SKILL.md", SKILL)))
    assert "after its end" in refusal(packed + b"more")
    assert "after its end" in refusal(packed + packed)
    assert "after its end" in refusal(make_tar(("SKILL.md", SKILL)) + b"more".ljust(512, b"\0"))


def lie(field: int, size: int, value: int, *, local: bool) -> bytes:
    data = bytearray(make_zip({"SKILL.md": SKILL}))
    start = 0 if local else data.index(b"PK\x01\x02")
    data[start + field : start + field + size] = value.to_bytes(size, "little")
    return bytes(data)


@pytest.mark.parametrize("size", [0, 1, len(SKILL) - 1, len(SKILL) + 1, 2**31])
def test_a_lie_about_a_size_is_refused_by_name(size):
    assert "'SKILL.md'" in refusal(lie(24, 4, size, local=False))
    assert "'SKILL.md'" in refusal(lie(22, 4, size, local=True))


def test_a_wrong_checksum_is_refused_by_name():
    assert "'SKILL.md' does not match its checksum" in refusal(lie(16, 4, 1, local=False))


def test_a_name_that_differs_between_header_and_directory_is_refused():
    data = make_zip({"SKILL.md": SKILL})
    assert "a different name" in refusal(data.replace(b"SKILL.md", b"EVIL!.md", 1))


@pytest.mark.parametrize(("second", "ok"), [(b"SKILL.md", False), (b"notes.md", True)])
def test_a_second_name_that_other_programs_would_use_is_refused(second, ok):
    notes = zipfile.ZipInfo("notes.md")
    notes.extra = struct.pack("<2HBL", 0x7075, 5 + len(second), 1, zlib.crc32(b"notes.md")) + second
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("SKILL.md", SKILL)
        archive.writestr(notes, "Hidden.")

    if ok:
        assert [file.path for file in read_archive(out.getvalue(), "a.zip")[0].files] == ["SKILL.md", "notes.md"]
    else:
        assert "'notes.md' has a different name in its extra fields" in refusal(out.getvalue())


def test_another_packing_method_than_deflate_is_refused_by_name():
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        assert "'SKILL.md' uses compression method" in refusal(make_zip({"SKILL.md": SKILL}, method))


# Bombs and limits


def test_a_deflate_bomb_stops_at_the_limit():
    data = make_zip({"SKILL.md": SKILL, "bomb": b"\0" * 300_000})
    assert "'bomb'" in refusal(data, SMALL)


def test_a_deflate_bomb_that_says_it_is_small_stops_at_the_limit():
    data = bytearray(make_zip({"bomb": b"\0" * 5_000_000}))
    struct.pack_into("<L", data, 22, 10)
    struct.pack_into("<L", data, data.index(b"PK\x01\x02") + 24, 10)
    assert "'bomb'" in refusal(bytes(data), SMALL)


def test_a_gzip_bomb_stops_at_the_limit():
    squeezed = gzip.compress(b"\0" * 100_000_000)
    assert len(squeezed) < 100_000
    assert "unpacked" in refusal(squeezed, SMALL)


def test_the_limits_on_files_and_bytes_hold_for_the_whole_archive():
    many = {f"f{number}": b"x" for number in range(6)}
    wide = {f"f{number}": b"x" * 900 for number in range(4)}
    for pack in (make_zip, lambda entries: make_tar(*entries.items())):
        assert "files in one archive" in refusal(pack(many), SMALL)
        assert "bytes in one archive" in refusal(pack(wide), SMALL)
        assert "'f'" in refusal(pack({"f": b"x" * 1001}), SMALL)


def test_an_archive_over_the_limit_is_not_looked_into():
    assert "bytes in one archive" in refusal(b"PK\x03\x04" + b"\0" * 100_000, SMALL)


def test_an_archive_that_lists_endless_entries_is_refused_before_they_are_read():
    entry = b"PK\x01\x02" + b"\0" * 42
    directory = entry * 100_000
    data = b"PK\x03\x04" + directory + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(directory), 4, 0)
    assert "entries in one archive" in refusal(data)


def test_a_chain_of_long_names_is_refused():
    long = tar_entry("x", tarfile.GNUTYPE_LONGNAME)
    assert "entries in one archive" in refusal(make_tar(*[long] * 9000))


def extended(content: bytes) -> bytes:
    info = tar_entry("pax", tarfile.XHDTYPE)
    info.size = len(content)
    return info.tobuf(tarfile.USTAR_FORMAT) + content.ljust(-(-len(content) // 512) * 512, b"\0")


def test_extended_headers_have_a_limit_together():
    # gzip makes a few KiB of them, and parsing them took seconds.
    header = extended(b"5 a=\n" * 13_000)
    body = make_tar(("SKILL.md", SKILL))
    assert read_archive(gzip.compress(header * 64 + body), "a.tgz")
    assert "extended headers to more than 4,194,304 bytes" in refusal(gzip.compress(header * 65 + body))


@pytest.mark.parametrize("separator", ["\u2028", "\u2029"])
def test_a_line_separator_in_a_name_is_refused(separator: str) -> None:
    body = make_tar(("SKILL.md", SKILL), (f"x{separator}y.md", b""))
    assert "contains control characters" in refusal(body)


def test_a_huge_or_damaged_extended_header_is_refused():
    body = make_tar(("SKILL.md", SKILL))
    assert "extended header of" in refusal(extended(b"1" * 70_000) + body)
    for damaged in (b"11111111111", b"5 a\n", b"99 path=x\n", b"8 path=x", b"0 =\n", b"13 size=-512\n", b"9 size=x\n"):
        assert refusal(extended(damaged) + body)
    assert "sparse" in refusal(extended(b"22 GNU.sparse.major=1\n") + body)


def test_a_tar_entry_with_a_negative_size_is_refused():
    info = tarfile.TarInfo("SKILL.md")
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 11 + b"\x00"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    assert "larger than the archive" in refusal(bytes(header) + b"\0" * 1024)


def test_an_archive_that_is_cut_short_is_refused():
    whole = make_zip({"SKILL.md": SKILL})
    assert refusal(whole[:-10])
    assert refusal(whole[: len(whole) // 2])
    assert "damaged" in refusal(gzip.compress(make_tar(("SKILL.md", SKILL)))[:-20])
    assert "larger than" in refusal(make_tar(("SKILL.md", SKILL * 30))[:1024])


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"PK\x05\x06" + b"\0" * 18, b"\x1f\x8b", gzip.compress(b"text", mtime=0), b"\0" * 1024]
)
def test_what_holds_no_files_is_refused(data):
    assert refusal(data)


def test_an_archive_of_nothing_but_leftovers_is_refused():
    assert "no files" in refusal(make_zip({"__MACOSX/x": b"x"}))


# Fuzz

SEEDS: list[Callable[[], bytes]] = [
    lambda: make_zip({"tidy/SKILL.md": SKILL, "tidy/a/b.txt": b"b" * 2000}),
    lambda: make_zip({"SKILL.md": SKILL, "a/": b""}, zipfile.ZIP_STORED),
    lambda: make_tar(("SKILL.md", SKILL), ("n" * 200, b"x"), format=tarfile.GNU_FORMAT),
    lambda: make_tar(("SKILL.md", SKILL), ("ö" * 120, b"x")),
    lambda: gzip.compress(make_tar(("SKILL.md", SKILL)), mtime=0),
]


@settings(max_examples=300, deadline=None)
@given(
    seed=st.sampled_from(SEEDS),
    edits=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=6),
    cut=st.one_of(st.none(), st.floats(0, 1)),
)
def test_a_damaged_archive_gives_packages_or_invalid_and_nothing_else(seed, edits, cut):
    data = bytearray(seed())
    for place, value in edits:
        data[int(place * len(data))] = value
    if cut is not None:
        del data[int(cut * len(data)) :]
    try:
        packages = read_archive(bytes(data), "x.zip")
    except Invalid:
        return
    assert packages


@settings(max_examples=150, deadline=None)
@given(edits=st.lists(st.tuples(st.integers(0, 511), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_tar_header_with_a_right_checksum_and_wrong_fields_does_no_harm(edits):
    data = bytearray(make_tar(("SKILL.md", SKILL), ("a.md", b"a"), format=tarfile.GNU_FORMAT))
    for place, value in edits:
        data[1024 + place] = value
    header = data[1024:1536]
    header[148:156] = b" " * 8
    data[1024 + 148 : 1024 + 156] = b"%06o\0 " % (sum(header) & 0o777777)
    try:
        read_archive(bytes(data), "x.tar")
    except Invalid:
        return


def test_random_deflate_streams_do_no_harm():
    for seed in range(200):
        packed = zlib.compress(bytes([seed]) * 50)[2:-4]
        mutated = bytes([packed[0] ^ seed, *packed[1:]])
        data = bytearray(make_zip({"SKILL.md": mutated}, zipfile.ZIP_STORED))
        directory = data.index(b"PK\x01\x02")
        data[8], data[directory + 10] = 8, 8
        assert refusal(bytes(data))
