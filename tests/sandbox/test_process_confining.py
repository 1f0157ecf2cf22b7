"""How a process is confined: the numbers of calls, what is reached, and that nothing runs where it is not."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from prowess.errors import Unavailable
from prowess.sandbox.confine import seccomp
from prowess.sandbox.confine import seccomp as syscalls
from prowess.sandbox.confine.kernel import MACHINES, machine
from prowess.sandbox.confine.lockdown import NEEDED, probe_confinement
from prowess.sandbox.process import sandbox as forking
from prowess.sandbox.process.inside.zygote import MAX_THREADS
from prowess.sandbox.process.sandbox import ProcessSandbox
from prowess.sandbox.script import script_from_function, script_from_template

SOURCES = Path(forking.__file__).parents[3]
ONE = script_from_function("def execute(args, ctx):\n    return 1", {})


def confined(code: str, **lock: object) -> subprocess.CompletedProcess[str]:
    """What a process says that confines itself and then runs something."""
    locking = {
        "read": [sys.base_prefix],
        "write": [],
        "seconds": 9,
        "memory_bytes": 1 << 28,
        "file_bytes": 1 << 20,
        **lock,
    }
    start = "import sys; sys.path.append(sys.argv[1]); from prowess.sandbox.confine.lockdown import lock_down\n"
    command = [sys.executable, "-ISB", "-c", f"{start}reached = lock_down(**{locking!r})\n{code}", str(SOURCES)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def needs_linux() -> None:
    if not set(NEEDED) <= set(probe_confinement()):
        pytest.skip("processes cannot be confined here")


@pytest.mark.parametrize("known", MACHINES)
def test_every_call_that_is_listed_has_a_number_on_some_processor(known):
    listed = {*syscalls.computing(), *syscalls.starting(attributes=True)}
    assert listed <= {*syscalls.numbers("x86_64"), *syscalls.numbers("aarch64")}
    numbers = syscalls.numbers(known)
    assert len(set(numbers.values())) == len(numbers)
    assert max(numbers.values()) <= syscalls.NEWEST


def test_numbers_are_those_of_the_kernel_where_its_headers_are_installed():
    resolver = shutil.which("scmp_sys_resolver")
    if not resolver:
        pytest.skip("there is nothing to compare with")
    for known in MACHINES:
        for name, number in syscalls.numbers(known).items():
            said = subprocess.run([resolver, "-a", known, name], capture_output=True, text=True, check=True).stdout
            assert (name, int(said)) == (name, number)


@pytest.mark.parametrize("known", MACHINES)
@pytest.mark.parametrize("may_start", [False, True])
def test_a_filter_refuses_what_would_undo_the_rest(known, may_start):
    calls = syscalls.starting(attributes=True) if may_start else syscalls.computing()
    for name in (
        "socket",
        "clone3",
        "truncate",
        "ptrace",
        "mount",
        "unshare",
        "setns",
        "bpf",
        "io_uring_setup",
        "memfd_create",
    ):
        assert name not in calls
    program = seccomp.filter_of(calls, known)
    steps = list(struct.iter_unpack("HBBI", program))
    assert len(steps) < 4096
    assert all(
        at + 1 + max(if_so, if_not) < len(steps) for at, (code, if_so, if_not, _) in enumerate(steps) if code & 7 == 5
    )


def judged(program: bytes, architecture: int, number: int, *arguments: int) -> str:
    """What the kernel would do about a call."""
    words = [number, architecture, 0, 0] + [part for given in (*arguments, *[0] * 6)[:6] for part in (given, 0)]
    steps, at, value = list(struct.iter_unpack("HBBI", program)), 0, 0
    while True:
        code, if_so, if_not, operand = steps[at]
        at += 1
        if code == 0x20:
            value = words[operand // 4]
        elif code == 0x54:
            value &= operand
        elif code == 0x06:
            return {
                0x7FFF0000: "allowed",
                0x80000000: "killed",
                0x00050001: "refused",
                0x00050026: "absent",
                0x0005005F: "unsupported",
            }[operand]
        else:
            holds = {0x15: value == operand, 0x25: value > operand, 0x35: value >= operand}[code]
            at += if_so if holds else if_not


@pytest.mark.parametrize(
    ("known", "architecture", "other"), [("x86_64", 0xC000003E, 0x40000003), ("aarch64", 0xC00000B7, 0x40000028)]
)
def test_a_filter_judges_calls_by_number_and_arguments(known, architecture, other):
    number = syscalls.numbers(known)
    code = seccomp.filter_of(syscalls.computing(), known)
    programs = seccomp.filter_of(syscalls.starting(attributes=False), known)

    def of(program: bytes, name: str, *arguments: int) -> str:
        return judged(program, architecture, number[name], *arguments)

    assert [of(code, name) for name in ("read", "mmap", "futex", "exit_group")] == ["allowed"] * 4
    assert [of(code, name) for name in ("execve", "socket", "kill", "fchmod", "wait4")] == ["refused"] * 5
    assert [of(code, "clone", flags) for flags in (0x10F00, 0x11, 0x10010F00)] == ["allowed", "refused", "refused"]
    assert [of(code, "socketpair", 1, kind) for kind in (1, 0x80001, 5, 2)] == ["allowed"] * 3 + ["refused"]
    assert [of(code, "ioctl", 0, request) for request in (0x5401, 0x5412)] == ["allowed", "refused"]
    assert [of(code, "prctl", option) for option in (15, 1, 4)] == ["allowed", "refused", "refused"]
    assert [of(programs, name) for name in ("execve", "kill", "socket", "fchmodat")] == ["allowed", "allowed"] + [
        "refused"
    ] * 2
    assert [of(programs, "clone", flags) for flags in (0x11, 0x10000011)] == ["allowed", "refused"]
    assert of(code, "clone3") == of(programs, "clone3") == "absent"
    assert judged(code, architecture, 500) == "absent"
    assert judged(code, other, number["read"]) == "killed"
    assert judged(code, architecture, 0x40000000 + number["read"]) == "killed"


@pytest.mark.parametrize(("known", "architecture"), [("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)])
def test_a_filter_always_allows_exactly_the_calls_that_are_listed_without_conditions(known, architecture):
    number = syscalls.numbers(known)
    unfit = [0xFFFFFFFF] * 6
    for calls in (syscalls.computing(), syscalls.becoming(), syscalls.starting(attributes=True)):
        program = seccomp.filter_of(calls, known)
        listed = {number[name] for name, tests in calls.items() if name in number and not tests}
        allowed = {
            one for one in range(syscalls.NEWEST + 100) if judged(program, architecture, one, *unfit) == "allowed"
        }
        assert allowed == listed


@pytest.mark.parametrize(("known", "architecture"), [("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)])
def test_no_filter_lets_a_mode_through_that_lends_somebodys_rights(known, architecture):
    number = syscalls.numbers(known)
    lists = {
        "computing": syscalls.computing(),
        "becoming": syscalls.becoming(),
        "starting": syscalls.starting(attributes=True),
    }
    places = {"open": 2, "openat": 3, "creat": 1, "mkdir": 1, "mkdirat": 2, "mknod": 1, "mknodat": 2}
    places |= {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
    for calls in lists.values():
        program = seccomp.filter_of(calls, known)
        for name, at in places.items():
            if name in number:
                for mode in (0o4755, 0o2755, 0o104711):
                    assert judged(program, architecture, number[name], *[0] * at, mode) == "refused"
        assert judged(program, architecture, number["openat"], 0, 0, 0, 0o1755) == "allowed"
        assert judged(program, architecture, number["openat2"]) == "absent"
        assert judged(program, architecture, number["inotify_init1"]) == "absent"
        for name in ("getxattr", "flistxattr", "setxattr", "lremovexattr"):
            assert judged(program, architecture, number[name]) == "unsupported"


def test_what_becomes_a_program_starts_no_other():
    assert {*syscalls.becoming()} - {*syscalls.computing()} == {"execve"}


def test_code_that_may_start_nothing_has_no_call_that_starts_something():
    assert not {"execve", "execveat", "fork", "vfork", "kill", "tgkill", "chmod", "fchmod", "sendmsg"} & {
        *syscalls.computing()
    }


@pytest.mark.usefixtures("needs_linux")
def test_programs_can_be_started_from_where_they_may_be_executed_only(tmp_path):
    (tmp_path / "mine.sh").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "mine.sh").chmod(0o755)
    code = f"""
import subprocess
print(subprocess.run(['/bin/echo', 'hello'], capture_output=True, text=True).stdout.strip())
try: print(subprocess.run([{str(tmp_path / "mine.sh")!r}], capture_output=True, text=True).stdout.strip())
except PermissionError: print('refused')
"""
    system = [path for path in ("/bin", "/lib", "/lib64", "/usr") if Path(path).exists()]
    ran = confined(code, read=[sys.base_prefix, str(tmp_path)], execute=system, may_start=True)
    assert ran.stdout.split() == ["hello", "refused"], ran.stderr


@pytest.mark.usefixtures("needs_linux")
def test_modes_can_be_changed_where_may_be_written_and_nowhere_else(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "file").write_text("x")
        (folder / "file").chmod(0o600)
    code = f"""
import os
for path in ({str(inside / "file")!r}, {str(outside / "file")!r}):
    try: os.chmod(path, 0o644)
    except OSError: pass
print(*reached)
"""
    ran = confined(code, write=[str(inside)], may_start=True)
    assert (outside / "file").stat().st_mode & 0o777 == 0o600
    assert ((inside / "file").stat().st_mode & 0o777 == 0o644) == ("attributes" in ran.stdout.split())


@pytest.mark.usefixtures("needs_linux")
def test_what_a_machine_reaches_is_found_out_without_confining_this_process(tmp_path):
    assert set(NEEDED) <= set(probe_confinement())
    (tmp_path / "file").write_text("x")
    assert (tmp_path / "file").read_text() == "x"


def test_nothing_is_run_where_a_process_cannot_be_confined(monkeypatch, native):
    monkeypatch.setattr(forking, "NEEDED", (*NEEDED, "something that no system has"))
    sandbox = ProcessSandbox()
    with pytest.raises(Unavailable, match="something that no system has"):
        asyncio.run(sandbox.run(ONE, {}))
    assert sandbox.pids == []


def test_packages_that_a_script_brings_can_be_imported_and_no_others(native, tmp_path):
    (tmp_path / "brought").mkdir()
    (tmp_path / "brought" / "brought.py").write_text("VALUE = 7\n")
    (tmp_path / "other.py").write_text("VALUE = 8\n")
    code = "def execute(args, ctx):\n    import brought\n    try: import other\n    except ImportError: return brought.VALUE"
    ran = asyncio.run(native.run(script_from_function(code, {}, packages=tmp_path / "brought"), {}))
    assert (ran.ended, ran.result) == ("done", 7)
    assert asyncio.run(native.run(script_from_template("import brought", {}), {})).error.type == "ModuleNotFoundError"


def test_threads_and_what_is_written_in_c_work(native):
    code = """
import asyncio, threading, hashlib, decimal, zoneinfo, datetime
async def execute(args, ctx):
    there = await asyncio.to_thread(lambda: threading.current_thread() is not threading.main_thread())
    moment = datetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin'))
    return [there, hashlib.sha256(b'').hexdigest()[:8], str(decimal.Decimal(1) / 8), moment.utcoffset().seconds]
"""
    assert asyncio.run(native.run(script_from_function(code, {}), {})).result == [True, "e3b0c442", "0.125", 7200]


def test_threads_have_a_limit_where_the_system_counts_them(native):
    code = "import resource\ndef execute(args, ctx):\n    return resource.getrlimit(resource.RLIMIT_NPROC)"
    soft, hard = asyncio.run(native.run(script_from_function(code, {}), {})).result
    assert 0 < soft <= hard <= MAX_THREADS


def test_random_numbers_differ_between_runs(native):
    script = script_from_function("import random\ndef execute(args, ctx):\n    return random.random()", {})
    assert asyncio.run(native.run(script, {})).result != asyncio.run(native.run(script, {})).result


def test_what_broke_is_started_anew(native):
    async def after_a_break() -> list[object]:
        await native.run(ONE, {})
        [process] = native.pids
        os.kill(process, 9)
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222  (it is dead already)
        return [(await native.run(ONE, {})).result, native.pids != [process]]

    assert asyncio.run(after_a_break()) == [1, True]


def test_event_loops_of_several_threads_share_a_sandbox(native):
    results: list[object] = []
    threads = [
        threading.Thread(target=lambda: results.append(asyncio.run(native.run(ONE, {})).result)) for _ in range(4)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert results == [1, 1, 1, 1]


def test_bubblewrap_is_around_it_where_it_is_installed(native):
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    ran = asyncio.run(native.run(ONE, {}))
    assert ran.result == 1
    assert forking.BUBBLEWRAP in ran.confined


def test_it_runs_without_bubblewrap_too(monkeypatch, native):
    monkeypatch.setattr(forking.shutil, "which", lambda _: None)
    sandbox = ProcessSandbox()

    async def once() -> list[object]:
        ran = await sandbox.run(ONE, {})
        await sandbox.close()
        return [ran.result, forking.BUBBLEWRAP in ran.confined, set(NEEDED) <= set(ran.confined)]

    assert asyncio.run(once()) == [1, False, True]


def test_this_processor_is_known_or_nothing_is_run():
    assert machine() in {*MACHINES, ""}
    assert seccomp.install_filter(b"") is False
