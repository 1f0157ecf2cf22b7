"""The folders of a run: what is in them can be read and written, and nothing else, whatever a path or a folder is made to be."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prowess.errors import Invalid, NotFound, ProwessError, Refused
from prowess.sandbox import safe_files
from prowess.sandbox.roots import MAX_PATH_NAMES, Root, SkillFolders

OUTSIDE = b"canary"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder that is given, `in`, beside one that is not, `out`."""
    for name in ("in", "out", "own"):
        (tmp_path / name).mkdir()
    (tmp_path / "out" / "secret.txt").write_bytes(OUTSIDE)
    (tmp_path / "in" / "a.txt").write_bytes(b"apple")
    (tmp_path / "in" / "sub").mkdir()
    (tmp_path / "in" / "sub" / "b.bin").write_bytes(b"\xff\x00")
    return tmp_path.resolve()


def read(folders: SkillFolders, path: str, **limits: int) -> bytes:
    return folders.to_read(path).read(**limits)


def write(folders: SkillFolders, path: str, content: bytes, **limits: int) -> None:
    folders.to_write(path).write(content, **limits)


@pytest.fixture
def folders(place: Path) -> SkillFolders:
    roots = Root(name="data", path=place / "in"), Root(name="data/sub", path=place / "in" / "sub", writable=True)
    return SkillFolders(roots, own=place / "own")


def test_a_path_begins_with_the_name_of_a_folder(folders):
    assert read(folders, "data/a.txt") == b"apple"
    assert read(folders, "./data//sub/./b.bin") == b"\xff\x00"


def test_a_path_may_be_whole(folders, place):
    assert read(folders, f"{place}/in/a.txt") == b"apple"
    with pytest.raises(Refused, match="outside the folders that this skill may access"):
        read(folders, f"{place}/own/a.txt")


def test_every_other_path_is_in_the_folder_without_a_name(folders, place):
    write(folders, "notes/today.txt", b"x")
    assert (place / "own" / "notes" / "today.txt").read_bytes() == b"x"
    assert read(folders, "notes/today.txt") == b"x"
    write(folders, "database/a", b"y")
    assert (place / "own" / "database" / "a").read_bytes() == b"y"


def test_beside_a_root_of_the_whole_workspace_the_runs_own_folder_takes_what_is_written_and_what_is_there(place):
    folders = SkillFolders([Root(name=".", path=place)], own=place / "own")
    assert read(folders, "in/a.txt") == b"apple"
    write(folders, "in/a.txt", b"mine")
    assert read(folders, "in/a.txt") == b"mine"
    assert (place / "in" / "a.txt").read_bytes() == b"apple"
    with pytest.raises(Refused, match="is read-only"):
        write(folders, f"{place}/in/a.txt", b"x")


@pytest.mark.parametrize("name", [".env", ".ssh/key", "sub/.x/y", "id_rsa", "Keychains/a", "safe.kdbx"])
def test_what_is_hidden_in_a_folder_is_not_read_and_an_administrator_is_named(folders, place, name):
    (place / "in" / name).parent.mkdir(parents=True, exist_ok=True)
    (place / "in" / name).write_bytes(OUTSIDE)
    with pytest.raises(Refused, match="hidden or a credential store") as caught:
        read(folders, f"data/{name}")
    assert "prowess policy set skill_roots" in caught.value.hint


def test_the_longest_name_counts(folders, place):
    write(folders, "data/sub/new.txt", b"new")
    assert (place / "in" / "sub" / "new.txt").read_bytes() == b"new"


def test_a_folder_to_read_from_is_not_written_to(folders, place):
    with pytest.raises(Refused, match="is read-only") as caught:
        write(folders, "data/a.txt", b"x")
    assert 'roots: ["rw:data"]' in caught.value.hint
    assert (place / "in" / "a.txt").read_bytes() == b"apple"


@pytest.mark.parametrize(
    "path",
    [
        *("../out/secret.txt", "data/../../out/secret.txt", "data/sub/../../out/secret.txt", "..", "data/.."),
        *("/etc/passwd", "/", "//etc/passwd", "/proc/self/environ", "/dev/null", "data", "data/sub"),
    ],
)
def test_a_path_that_leaves_its_folder_is_refused(folders, path):
    for work in (lambda path: read(folders, path), lambda path: write(folders, path, b"x")):
        with pytest.raises((Refused, Invalid)):
            work(path)


@pytest.mark.parametrize("path", ["", ".", "./", "a\0b", "\0", "a" * 2000, "own/\udcff", "a/", "a/.", "a" * 300])
def test_what_is_no_path_is_invalid(folders, path):
    for work in (lambda path: read(folders, path), lambda path: write(folders, path, b"x")):
        with pytest.raises(Invalid):
            work(path)


def test_a_path_of_too_many_names_is_invalid(folders):
    with pytest.raises(Invalid, match="parts"):
        write(folders, "a/" * MAX_PATH_NAMES + "b", b"")


def test_names_of_any_letters_are_names(folders):
    for name in ("ä b", "…", "a\\b", "a\nb", "%2e%2e", "..a", "...", "~", "$HOME", "-rf", "名"):
        write(folders, name, name.encode())
        assert read(folders, name) == name.encode()


@pytest.mark.parametrize("target", ["../out", "/etc", "../in/sub", "."])
def test_no_link_is_followed_on_the_way(folders, place, target):
    (place / "in" / "sub" / "way").symlink_to(target)
    for path in ("data/sub/way/secret.txt", "data/sub/way/passwd", "data/sub/way/b.bin", "data/sub/way/x/y"):
        with pytest.raises(Refused, match="contains a symbolic link"):
            read(folders, path)
        with pytest.raises(Refused, match="contains a symbolic link"):
            write(folders, path, b"x")
    assert (place / "out" / "secret.txt").read_bytes() == OUTSIDE
    assert not (place / "out" / "x").exists()


@pytest.mark.parametrize("target", ["../../out/secret.txt", "/etc/passwd", "b.bin", "nowhere"])
def test_no_link_is_followed_at_the_end_and_none_is_replaced(folders, place, target):
    link = place / "in" / "sub" / "end"
    link.symlink_to(target)
    with pytest.raises(Refused, match="contains a symbolic link"):
        read(folders, "data/sub/end")
    with pytest.raises(Refused, match="contains a symbolic link"):
        write(folders, "data/sub/end", b"x")
    assert link.is_symlink()
    assert (place / "out" / "secret.txt").read_bytes() == OUTSIDE


def test_a_given_folder_whose_place_a_link_takes_is_not_followed(folders, place):
    (place / "in").rename(place / "before")
    (place / "in").symlink_to(place / "out")
    with pytest.raises(Refused, match="contains a symbolic link"):
        read(folders, "data/secret.txt")


def test_a_link_above_a_given_folder_is_not_followed(place):
    (place / "way").symlink_to(place)
    with pytest.raises(Refused, match="contains a symbolic link"):
        read(SkillFolders([Root(name="data", path=place / "way" / "in")], own=place / "own"), "data/a.txt")


def test_a_given_folder_that_is_gone_is_not_found(place):
    with pytest.raises(NotFound):
        write(
            SkillFolders([Root(name="data", path=place / "never", writable=True)], own=place / "own"),
            "data/a.txt",
            b"x",
        )
    assert not (place / "never").exists()


def test_a_file_that_is_not_there_is_not_found(folders):
    for path in ("data/none", "data/none/none", "data/a.txt/none"):
        with pytest.raises(NotFound):
            read(folders, path)


def test_pipes_sockets_and_folders_are_no_files_and_nobody_waits_for_them(folders, place):
    sub = place / "in" / "sub"
    os.mkfifo(sub / "pipe")
    (sub / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(sub / "socket"))
        for name in ("pipe", "socket", "folder"):
            with pytest.raises(Refused):
                read(folders, f"data/sub/{name}")
            with pytest.raises(Refused):
                write(folders, f"data/sub/{name}", b"x")
    assert stat.S_ISFIFO((sub / "pipe").stat().st_mode)


def test_a_device_is_no_file(place):
    with pytest.raises(Refused, match="not a regular file"):
        read(SkillFolders([Root(name="dev", path=Path("/dev").resolve())], own=place / "own"), "dev/zero")


def test_a_file_that_is_too_large_is_not_read(folders, place):
    (place / "in" / "large").write_bytes(bytes(11))
    assert folders.to_read("data/large").read(most=11) == bytes(11)
    with pytest.raises(Invalid, match="limit of 10 bytes"):
        folders.to_read("data/large").read(most=10)


def test_a_file_that_lies_about_its_size_is_not_read_further_than_it_may(place):
    with pytest.raises(Invalid, match="limit of 10 bytes"):
        read(
            SkillFolders([Root(name="proc", path=Path("/proc") / str(os.getpid()))], own=place / "own"),
            "proc/status",
            most=10,
        )


def test_too_much_is_not_written(folders, place):
    with pytest.raises(Invalid, match="11 bytes"):
        write(folders, "a", bytes(11), most=10)
    assert not (place / "own" / "a").exists()


def test_a_write_replaces_a_file_whole_and_keeps_its_permissions(folders, place):
    file = place / "in" / "sub" / "b.bin"
    file.chmod(0o640)
    other = place / "out" / "other-name"
    os.link(file, other)
    write(folders, "data/sub/b.bin", b"new")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o640)
    assert other.read_bytes() == b"\xff\x00"
    assert sorted(os.listdir(file.parent)) == ["b.bin"]


@pytest.mark.parametrize(("mode", "readable"), [(0o600, False), (0o644, True)])
def test_a_private_file_with_another_name_elsewhere_is_not_read(folders, place, mode, readable):
    key = place / "out" / "key"
    key.write_bytes(b"private")
    key.chmod(mode)
    os.link(key, place / "in" / "sub" / "linked")
    if readable:
        assert read(folders, "data/sub/linked") == b"private"
    else:
        with pytest.raises(Refused, match="Permission denied"):
            read(folders, "data/sub/linked")


def test_a_file_that_is_read_only_is_not_replaced(folders, place):
    file = place / "in" / "sub" / "b.bin"
    file.chmod(0o444)
    with pytest.raises(Refused, match="Permission denied"):
        write(folders, "data/sub/b.bin", b"new")
    assert file.read_bytes() == b"\xff\x00"


def test_a_write_that_fails_leaves_nothing_behind(place):
    with safe_files.open_root(str(place / "own")) as own, pytest.raises(OSError, match="name"):
        safe_files.write_file(own, "n" * 256, b"x")
    assert os.listdir(place / "own") == []


def test_no_descriptor_stays_open(folders, place):
    (place / "in" / "way").symlink_to("../out")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("data/a.txt", "data/none", "data/way/secret.txt", "a/b", "../x", "/etc/passwd", "data/sub/b.bin"):
        for work in (lambda path: read(folders, path), lambda path: write(folders, path, b"x")):
            with contextlib.suppress(ProwessError):
                work(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_that_is_swapped_for_a_link_after_it_was_opened_does_not_matter(place):
    with safe_files.open_root(str(place / "in")) as root, safe_files.open_folder(root, ["sub"]) as sub:
        (place / "in" / "sub").rename(place / "in" / "moved")
        (place / "in" / "sub").symlink_to(place / "out")
        assert safe_files.read_file(sub, "b.bin", most=10) == b"\xff\x00"
        safe_files.write_file(sub, "secret.txt", b"mine")
    assert (place / "out" / "secret.txt").read_bytes() == OUTSIDE
    assert (place / "in" / "moved" / "secret.txt").read_bytes() == b"mine"


def test_whoever_swaps_folders_for_links_meanwhile_gets_nothing_from_outside(place):
    folders = SkillFolders([Root(name="data", path=place / "in", writable=True)], own=place / "own")
    (place / "in" / "sub" / "secret.txt").write_bytes(b"inside")
    done = threading.Event()

    def swap() -> None:
        (place / "in" / "link").symlink_to(place / "out")
        folder = os.open(place / "in", os.O_RDONLY)
        libc, at_once = ctypes.CDLL(None), 2
        while not done.is_set():
            libc.renameat2(folder, b"sub", folder, b"link", at_once)
        os.close(folder)

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen: set[bytes | type] = set()
    try:
        for turn in range(20_000):
            if turn >= 400 and {b"inside", Refused} <= seen:
                break
            for work in (lambda: read(folders, "data/sub/secret.txt"), lambda: write(folders, "data/sub/new", b"new")):
                try:
                    seen.add(work() or b"")
                except (Refused, NotFound) as error:
                    seen.add(type(error))
    finally:
        done.set()
        swapping.join()
    assert seen <= {b"inside", b"", Refused, NotFound}
    assert {b"inside", Refused} <= seen
    assert sorted(os.listdir(place / "out")) == ["secret.txt"]


@pytest.mark.skipif(not safe_files.has_openat2(), reason="this kernel has no openat2")
@given(st.lists(st.sampled_from(["sub", "deep", "way", "up", "a.txt", "none", "pipe"]), min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
def test_both_ways_of_opening_a_folder_agree(tmp_path_factory, names):
    top = tmp_path_factory.getbasetemp() / "agree"
    if not top.exists():
        (top / "in" / "sub" / "deep").mkdir(parents=True)
        (top / "in" / "a.txt").write_bytes(b"")
        os.mkfifo(top / "in" / "pipe")
        (top / "in" / "way").symlink_to("sub")
        (top / "in" / "sub" / "up").symlink_to("../..")
    with safe_files.open_root(str((top / "in").resolve())) as root:
        assert _opened(safe_files.open_at_once, root, names) == _opened(safe_files.open_step_by_step, root, names)


def _opened(way, root: int, names: list[str]) -> object:
    try:
        opened = way(root, names)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    try:
        return os.fstat(opened).st_ino
    finally:
        os.close(opened)


@given(
    st.lists(
        st.sampled_from(
            ["..", ".", "", "in", "out", "own", "data", "sub", "secret.txt", "way", "\0", "\udcff", "~", "a"]
        ),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)
def test_no_path_reaches_what_is_outside(tmp_path_factory, names, whole):
    top = (tmp_path_factory.getbasetemp() / "reach").resolve()
    if not top.exists():
        for name in ("in/sub", "out", "own"):
            (top / name).mkdir(parents=True)
        (top / "out" / "secret.txt").write_bytes(OUTSIDE)
        (top / "in" / "way").symlink_to("../out")
        (top / "in" / "sub" / "way").symlink_to("../../out/secret.txt")
    folders = SkillFolders([Root(name="data", path=top / "in", writable=True)], own=top / "own")
    path = ("/" if whole else "") + "/".join(names)
    for work in (lambda: write(folders, path, b"x"), lambda: read(folders, path)):
        with contextlib.suppress(Refused, NotFound, Invalid):
            assert work() != OUTSIDE
    assert os.listdir(top / "out") == ["secret.txt"]
    assert (top / "out" / "secret.txt").read_bytes() == OUTSIDE
    assert sorted(os.listdir(top)) == ["in", "out", "own"]
