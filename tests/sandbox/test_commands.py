"""Commands in processes of their own: what they are given, what comes of them, and how each limit ends them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from prowess.errors import Invalid, NotFound, Refused
from prowess.sandbox.commands.command import Command, CommandLimits, CommandOutcome
from prowess.sandbox.commands.inside.usage import folder_size, open_files
from prowess.sandbox.commands.sandbox import LockedCommandSandbox
from prowess.sandbox.folders import FOLDER_PREFIX, remove_folder
from prowess.sandbox.programs import PYTHON, find_program
from prowess.sandbox.roots import Root
from prowess.skill.limits import MIB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are confined by Linux")


@pytest.fixture
def commands() -> LockedCommandSandbox:
    return LockedCommandSandbox()


@pytest.fixture
def run(
    commands: LockedCommandSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., CommandOutcome]:
    """What comes of a command; nothing is left of its folder."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def ran(*argv: str, limits: dict | None = None, **given) -> CommandOutcome:
        done = asyncio.run(commands.run(Command(argv=argv, **given), CommandLimits(**(limits or {}))))
        assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(FOLDER_PREFIX)]
        return done

    return ran


def python(code: str) -> tuple[str, str, str]:
    return (PYTHON, "-c", code)


def test_what_a_command_prints_and_its_code_are_told(run):
    done = run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.ended, done.exit_code, done.stdout, done.stderr) == ("done", 3, b"out\n", b"err\n")


def test_it_is_confined_and_says_by_what(run):
    done = run("true")
    assert {"files", "network", "calls", "privileges", "processes"} <= set(done.confined)


def test_arguments_arrive_as_they_are_one_by_one(run):
    given = ("a b", "", "$HOME", "`id`", "; rm -rf /", "*", "--", "-x", "ümlaut \U0001f600", "line\nbreak", "'\"")
    done = run(*python("import sys; print(repr(sys.argv[1:]))"), *given)
    assert done.stdout.decode() == f"{list(given)!r}\n"


def test_stdin_is_given_whole_and_then_ends(run):
    content = os.urandom(MIB // 2)
    assert run("cat", stdin=content).stdout == content


def test_a_command_that_reads_no_stdin_is_no_error(run):
    assert run("true", stdin=b"x" * MIB).exit_code == 0


def test_the_files_are_in_its_folder_and_can_be_run(run):
    files = {
        "scripts/a.sh": b"#!/bin/sh\ncat data/x.txt\n./scripts/b.sh",
        "scripts/b.sh": b"#!/bin/sh\necho b",
        "data/x.txt": b"x",
    }
    assert run("scripts/a.sh", files=files).stdout == b"xb\n"


def test_its_folder_can_be_written(run):
    assert run("sh", "-c", "echo 1 > a; mkdir d; mv a d/b; cat d/b").stdout == b"1\n"


def test_its_home_is_an_empty_folder_of_its_own(run):
    done = run("sh", "-c", 'ls -A "$HOME"; echo 1 > "$HOME/a"; cat ~/a; ls', files={".profile": b"", "x": b""})
    assert done.stdout == b"1\nx\n"


def test_files_that_are_not_executable_are_executed_by_nothing(run):
    files = {"a.sh": b"#!/bin/sh\necho ran"}
    assert run("sh", "-c", "./a.sh", files=files).stdout == b"ran\n"
    assert run("sh", "-c", "chmod 700 a.sh; ./a.sh; cat a.sh", files=files, executable=False).stdout == files["a.sh"]
    with pytest.raises(NotFound):
        run("./a.sh", files=files, executable=False)


def test_a_program_is_not_led_astray_by_files_where_it_runs(run):
    files = {
        ".gitconfig": b"[core]\n\tfsmonitor = echo astray >&2\n",
        ".git/HEAD": b"ref: refs/heads/main\n",
        ".git/objects/x": b"",
        ".git/refs/x": b"",
        ".git/config": b"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = echo astray >&2\n\thooksPath = hooks\n",
        "hooks/pre-commit": b"#!/bin/sh\necho astray >&2\n",
        "json.py": b"print('astray')",
    }
    done = run("git", "status", "--short", files=files, executable=False)
    assert (done.exit_code, b"astray" in done.stderr) == (0, False)
    done = run(*python("import json; print(json.dumps(1))"), files=files, executable=False)
    assert done.stdout == b"1\n"


def test_it_opens_a_few_hundred_files_at_most(run):
    assert run(*python("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))")).stdout == b"(256, 256)\n"


def test_files_that_are_removed_count_while_they_are_mapped(run):
    code = """
import ctypes, os, signal
libc, long = ctypes.CDLL(None), ctypes.c_long
for _ in range(4):
    with open('x', 'wb') as file: file.write(b'x' * (3 << 20))
    with open('x', 'rb') as file: libc.mmap(None, long(3 << 20), 1, 1, file.fileno(), long(0))
    os.unlink('x')
signal.pause()
"""
    done = run(*python(code), limits={"seconds": 10, "file_bytes": 4 * MIB})
    assert (done.ended, done.detail) == ("killed", "files")


def test_memory_that_is_shared_is_no_file(run):
    code = (
        "import mmap, time; kept = mmap.mmap(-1, 32 << 20); kept[:] = b'x' * len(kept); time.sleep(0.3); print('fine')"
    )
    assert run(*python(code), limits={"seconds": 10, "file_bytes": 4 * MIB}).stdout == b"fine\n"


def test_packages_of_another_skill_cannot_be_read(run, tmp_path):
    packages = tmp_path / "home" / "packages"
    for name in ("mine", "others"):
        (packages / name).mkdir(parents=True)
        (packages / name / "module.py").write_text(name)
    mine = packages / "mine"
    argv = ("cat", str(mine / "module.py"), str(packages / "others" / "module.py"))
    done = run(*argv, roots=(Root(name=str(mine), path=mine),))
    assert (done.stdout, b"Permission denied" in done.stderr) == (b"mine", True)


@pytest.mark.long
def test_common_programs_bear_what_is_refused_to_them(run, tmp_path):
    for argv in (
        ("ls", "-la", "/usr/share"),
        ("sh", "-c", "cp -a a b && mv b c && tar cf x.tar a c && tar xf x.tar && rm a"),
        # Without the settings of this machine, which a command may not read: git gives up where there are any.
        ("env", "GIT_CONFIG_NOSYSTEM=1", "git", "init", "-q", "r"),
        python("import shutil, tempfile; shutil.copy2('a', 'd'); shutil.copytree('.', tempfile.mkdtemp() + '/t')"),
    ):
        done = run(*argv, files={"a": b"1"})
        assert (argv, done.exit_code, done.stderr) == (argv, 0, b"")


def test_the_environment_is_what_was_given_and_nothing_of_this_process(run, monkeypatch):
    monkeypatch.setenv("CANARY_KEY", "canary")
    done = run("env", env={"TOKEN": "given"})
    names = {line.partition("=")[0] for line in done.stdout.decode().splitlines()}
    assert names == {"PATH", "HOME", "TMPDIR", "LANG", "TOKEN"}


def test_a_root_is_seen_by_its_name_and_written_to_only_where_that_is_said(run, tmp_path):
    for name in ("notes", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    roots = (Root(name="notes", path=tmp_path / "notes"), Root(name="out", path=tmp_path / "out", writable=True))
    done = run("sh", "-c", "cat notes/a.txt out/a.txt; echo new > out/b.txt; echo new > notes/b.txt", roots=roots)
    assert (done.stdout, (tmp_path / "out/b.txt").read_text()) == (b"notesout", "new\n")
    assert not (tmp_path / "notes/b.txt").exists()


@pytest.mark.parametrize("swapped", ["in", "."], ids=["the folder", "a folder above it"])
@pytest.mark.parametrize("writable", [False, True])
def test_a_link_that_came_into_the_path_of_a_root_leads_nowhere(run, tmp_path, swapped, writable):
    # As another program can do, that may write above it, after the folder was granted and before this one starts.
    for folder in ("work/in", "private/in"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.txt").write_text(folder)
    (tmp_path / "private/in/a.txt").chmod(0o600)
    root = Root(name="in", path=tmp_path / "work/in", writable=writable)
    (tmp_path / "work" / swapped).rename(tmp_path / "aside")
    (tmp_path / "work" / swapped).symlink_to(tmp_path / "private" / swapped)

    done = run("sh", "-c", "cat in/a.txt; echo x > in/a.txt; chmod 666 in/a.txt; rm in/a.txt", roots=(root,))

    there = tmp_path / "private/in/a.txt"
    assert done.stdout == b""
    assert (there.read_text(), there.stat().st_mode & 0o777) == ("private/in", 0o600)


SECRET = "BEGIN OPENSSH PRIVATE KEY"


def plant_secrets(folder: Path) -> list[Path]:
    """Put files into a folder that no program is given, and return them."""
    places = [".env", ".ssh/key", "sub/.git/config", "sub/deep/.netrc", "keys/id_rsa", "Keychains/login", "safe.kdbx"]
    for place in places:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(SECRET)
    (folder / "sub" / "link").symlink_to(folder / ".env")
    (folder / "sub" / "seen.txt").write_text("seen")
    return [folder / place for place in places]


@pytest.mark.parametrize("writable", [False, True])
def test_what_is_hidden_in_a_root_is_empty_for_a_program_and_unchanged_afterwards(run, tmp_path, writable):
    secrets = plant_secrets(tmp_path / "notes")
    roots = (Root(name="notes", path=tmp_path / "notes", writable=writable),)
    read_all = "for f in $(find notes/ -name '*'); do cat $f 2>/dev/null; done; cat notes/sub/link notes/.ssh/key; true"
    done = run("sh", "-c", read_all, roots=roots)
    assert (b"seen" in done.stdout, SECRET.encode() in done.stdout) == (True, False)
    tamper = "echo x > notes/.env; rm -rf notes/.ssh notes/keys; mv notes/sub notes/moved; cat notes/moved/.git/config"
    assert SECRET.encode() not in run("sh", "-c", tamper, roots=roots).stdout
    if not writable:
        assert [path.read_text() for path in secrets] == [SECRET] * len(secrets)
    assert (tmp_path / "notes" / ".env").read_text() == SECRET


def test_a_program_gets_no_folder_with_more_hidden_files_than_can_be_masked(run, tmp_path, monkeypatch):
    monkeypatch.setattr("prowess.sandbox.roots.MAX_MASKED", 3)
    plant_secrets(tmp_path / "notes")
    with pytest.raises(Refused, match="hidden ones") as caught:
        run("ls", "notes", roots=(Root(name="notes", path=tmp_path / "notes"),))
    assert "List a smaller folder" in caught.value.hint


def test_a_hidden_folder_that_is_a_root_itself_is_seen(run, tmp_path):
    plant_secrets(tmp_path / "notes")
    roots = (Root(name="notes", path=tmp_path / "notes"), Root(name=".ssh", path=tmp_path / "notes" / ".ssh"))
    assert run("cat", ".ssh/key", roots=roots).stdout == SECRET.encode()


def test_a_file_of_the_skill_stands_before_a_root_of_the_same_name(run, tmp_path):
    done = run("cat", "docs", files={"docs": b"mine"}, roots=(Root(name="docs", path=tmp_path),))
    assert done.stdout == b"mine"


def test_a_root_that_is_a_point_shows_what_lies_in_it(run, tmp_path):
    (tmp_path / "w" / "notes" / "new").mkdir(parents=True)
    (tmp_path / "w" / "notes" / "a.txt").write_text("note")
    done = run("cat", "notes/a.txt", roots=(Root(name=".", path=tmp_path / "w"),))
    assert done.stdout == b"note"


def test_a_root_within_another_is_not_made_where_it_is_not(run, tmp_path):
    (tmp_path / "w" / "a").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    roots = (Root(name="a/b/c", path=tmp_path / "b"), Root(name="a", path=tmp_path / "w" / "a"))
    assert run("ls", "a", roots=roots).stdout == b""
    assert not list((tmp_path / "w" / "a").iterdir())


def test_what_it_leaves_in_the_folder_is_gone_however_it_is_made(run):  # the fixture looks
    code = """
import os
os.makedirs("a/b"); open("a/b/c", "w").close(); os.symlink("/", "root"); os.chmod("a/b", 0); os.chmod("a", 0)
for n in range(1500):
    os.mkdir("d" * 200); os.chdir("d" * 200)
"""
    run(*python(code))


def test_the_first_command_removes_what_a_killed_process_left(run, tmp_path, monkeypatch):  # the fixture looks
    monkeypatch.setattr("prowess.sandbox.folders.SETTLED_SECONDS", -60.0)
    (tmp_path / f"{FOLDER_PREFIX}left").mkdir()
    run("true")


def test_a_program_that_is_not_there_is_not_found(run):
    for name in ("no-such-program", "/no/such/program", "scripts/none.sh"):
        with pytest.raises(NotFound, match="not found"):
            run(name)


def test_a_file_that_is_no_program_cannot_be_started(run):
    with pytest.raises(NotFound, match="failed to start"):
        run("scripts/a", files={"scripts/a": b"\x7fELF no program"})


@pytest.mark.parametrize("argv", [(), ("",), ("echo", "a\0b"), ("echo", "\ud800"), ("echo", "x" * 40_000)])
def test_what_no_program_can_be_given_is_refused(run, argv):
    with pytest.raises(Invalid):
        run(*argv)


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", ""])
def test_a_file_outside_the_folder_is_refused(run, path):
    with pytest.raises(Invalid):
        run("true", files={path: b""})


def test_time_that_is_over_ends_it(run):
    assert run("sleep", "60", limits={"seconds": 0.3}).ended == "time"


def test_too_much_output_ends_it_and_the_beginning_is_kept(run):
    done = run("yes", limits={"output_bytes": 1000})
    assert (done.ended, done.stdout) == ("output", b"y\n" * 500)
    assert run("sh", "-c", "yes >&2", limits={"output_bytes": 1000}).ended == "output"


def test_output_that_just_fits_is_no_limit_met(run):
    done = run("printf", "12345", limits={"output_bytes": 5})
    assert (done.ended, done.stdout) == ("done", b"12345")


def test_memory_is_bounded_for_one_process_and_for_all_together(run):
    one = run(*python("x = bytearray(400 << 20)"), limits={"memory_bytes": 128 * MIB})
    assert (one.exit_code, b"MemoryError" in one.stderr) == (1, True)
    code = "import os, signal\nfor _ in range(8): os.fork() or (globals().update(x=os.urandom(1) * (60 << 20)), signal.pause())\nsignal.pause()"
    several = run(*python(code), limits={"memory_bytes": 160 * MIB})
    assert (several.ended, several.detail) == ("killed", "memory")


def test_what_waits_in_sockets_counts_as_memory_and_their_buffers_cannot_be_enlarged(run):
    code = """
import signal, socket
pairs = [socket.socketpair() for _ in range(100)]
for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
    try: pairs[0][0].setsockopt(socket.SOL_SOCKET, option, 1 << 22); print("enlarged")
    except OSError: print("refused")
pairs[0][0].setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
print(flush=True)
signal.pause()
"""
    done = run(*python(code), limits={"memory_bytes": 32 * MIB, "seconds": 10})
    assert (done.stdout, done.ended, done.detail) == (b"refused\nrefused\n\n", "killed", "memory")


def test_each_socket_is_counted_once():
    with tempfile.TemporaryFile() as file:
        file.write(bytes(1 << 16))
        file.flush()
        before = open_files([os.getpid()])
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as one, contextlib.closing(one.dup()):
            assert open_files([os.getpid(), os.getpid()]) == (before[0], before[1] + 1)
    assert before[0] >= 1 << 16


def test_files_are_bounded_one_by_one_and_all_together(run):
    limits = {"file_bytes": MIB}
    one = run("sh", "-c", "exec head -c 9999999 /dev/zero > big", limits=limits)
    assert (one.ended, one.detail) == ("killed", "files")
    several = run("sh", "-c", "n=0; while :; do n=$((n+1)); head -c 99999 /dev/zero > f$n; done", limits=limits)
    assert (several.ended, several.detail) == ("killed", "files")


def test_files_that_have_no_name_count_too(run):
    code = """
import os, signal
held = []
for n in range(9):
    held.append(open("x", "wb")); os.unlink("x"); held[-1].write(b"x" * (1 << 19)); held[-1].flush()
signal.pause()
"""
    done = run(*python(code), limits={"file_bytes": MIB})
    assert (done.ended, done.detail) == ("killed", "files")


def test_processes_are_bounded(run):
    code = "import os, signal\nfor n in range(30): os.fork() or signal.pause()\nsignal.pause()"
    done = run(*python(code), limits={"processes": 10})
    assert done.ended == "killed" or b"BlockingIOError" in done.stderr


def test_a_command_that_a_signal_ends_says_which(run):
    assert run("sh", "-c", "kill -SEGV $$").exit_code == -signal.SIGSEGV


@pytest.mark.long
def test_many_commands_run_at_a_time(commands):
    async def all_of_them():
        return await asyncio.gather(*(commands.run(Command(argv=("echo", str(n)))) for n in range(8)))

    assert [done.stdout for done in asyncio.run(all_of_them())] == [b"%d\n" % n for n in range(8)]


def test_a_cancelled_command_has_ended_when_the_cancellation_comes_back(commands, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    out = tmp_path / "out"
    out.mkdir()

    async def cancelled():
        root = Root(name="out", path=out, writable=True)
        argv = ("sh", "-c", "(setsid sh -c 'while :; do echo x >> out/log; done' &) ; sleep 60")
        running = asyncio.create_task(commands.run(Command(argv=argv, roots=(root,))))
        while not (out / "log").exists():  # noqa: ASYNC110  (nothing announces a file)
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    size = (out / "log").stat().st_size
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    assert (out / "log").stat().st_size == size
    assert not _running("out/log")


def _running(words: str) -> list[str]:
    """The command lines that have these words, of all processes there are."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            found += [line] if words in line else []
    return found


def test_a_folder_is_measured_and_removed_whatever_lies_in_it(tmp_path):
    folder = tmp_path / "f"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "c").write_bytes(b"x" * 10_000)
    (folder / "link").symlink_to(tmp_path)
    (folder / ".0").mkdir()
    (tmp_path / "kept").write_text("kept")
    assert 10_000 <= folder_size(str(folder), MIB) <= MIB
    assert folder_size(str(folder), 1000) == 1001
    remove_folder(folder)
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


def test_programs_are_looked_for_where_that_is_said_and_nowhere_else(tmp_path, monkeypatch):
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho hello\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound):
        find_program("tool")
    done = asyncio.run(LockedCommandSandbox(searched=(str(tmp_path), "/usr/bin", "/bin")).run(Command(argv=("tool",))))
    assert done.stdout == b"hello\n"


def test_without_namespaces_for_processes_nothing_is_run():
    """In a user namespace of its own a process can take them away from itself and from all it starts."""
    code = """
import asyncio, ctypes, os, pathlib, sys
user, group = os.getuid(), os.getgid()
if ctypes.CDLL(None).unshare(0x10000000): sys.exit("no user namespaces")
for name, line in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
    pathlib.Path(f"/proc/self/{name}").write_text(line)
pathlib.Path("/proc/sys/user/max_pid_namespaces").write_text("0")
from prowess.errors import Unavailable
from prowess.sandbox.commands.command import Command
from prowess.sandbox.commands.sandbox import LockedCommandSandbox
try: asyncio.run(LockedCommandSandbox().run(Command(argv=("true",))))
except Unavailable as error: print(error.message)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if "no user namespaces" in ran.stderr:
        pytest.skip("no user namespaces can be made here")
    assert ran.stdout == "The command cannot be run: this system does not allow process namespaces.\n", ran.stderr
