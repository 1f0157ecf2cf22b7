"""Commands that try to get out, beside files and listening sockets that would show it; the next command notices nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from prowess.sandbox.commands.command import Command, CommandLimits, CommandOutcome
from prowess.sandbox.commands.sandbox import LockedCommandSandbox
from prowess.sandbox.folders import FOLDER_PREFIX
from prowess.sandbox.programs import PYTHON
from prowess.sandbox.roots import Root
from prowess.skill.limits import MIB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are confined by Linux")

SECRET = "canary-5f1d0c"
MISTAKES = (b"SyntaxError", b"NameError", b"ModuleNotFoundError", b"AttributeError", b"TypeError")
"""What an attempt fails with that tries nothing."""
LIMITS = CommandLimits(seconds=2, memory_bytes=256 * MIB, output_bytes=MIB // 4, file_bytes=4 * MIB, processes=24)
PATIENT = replace(LIMITS, seconds=60)
"""For commands that end by themselves, also on a loaded machine."""


@dataclass
class Canaries:
    """What no command may reach: a file, sockets, a process; and a folder that one may read."""

    folder: Path
    listening: list[socket.socket] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.folder / "secret.txt"

    @property
    def readable(self) -> Path:
        return self.folder / "readable"

    @property
    def port(self) -> int:
        return self.listening[0].getsockname()[1]

    def state(self) -> object:
        """What would show that something was changed."""
        found = self.file.stat()
        entries = sorted(str(entry) for entry in self.folder.rglob("*"))
        readable = (self.readable / "a.txt").stat()
        stamps = [(one.st_mode, one.st_uid, one.st_mtime_ns, one.st_nlink) for one in (found, readable)]
        return self.file.read_text(), entries, stamps

    def was_called(self) -> bool:
        for one in self.listening:
            try:
                one.recv(1) if one.type == socket.SOCK_DGRAM else one.accept()
            except BlockingIOError:
                continue
            return True
        return False


@pytest.fixture
def canaries(tmp_path: Path) -> Iterator[Canaries]:
    folder = tmp_path / "outside"
    folder.mkdir()
    made = Canaries(folder)
    made.file.write_text(SECRET)
    made.readable.mkdir()
    (made.readable / "a.txt").write_text("harmless")
    for family, kind, address in (
        (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        (socket.AF_UNIX, socket.SOCK_STREAM, str(folder / "s")),
        (socket.AF_UNIX, socket.SOCK_DGRAM, str(folder / "d")),
        (socket.AF_UNIX, socket.SOCK_STREAM, f"\0prowess-canary-{os.getpid()}"),
    ):
        one = socket.socket(family, kind)
        one.bind(address)
        one.setblocking(False)
        if kind == socket.SOCK_STREAM:
            one.listen()
        made.listening.append(one)
    yield made
    for one in made.listening:
        one.close()


@pytest.fixture
def attempt(canaries, tmp_path, monkeypatch) -> Callable[..., CommandOutcome]:
    """What comes of a hostile program in Python, or of a shell script; all that has to hold afterwards does."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("CANARY_KEY", SECRET)
    commands = LockedCommandSandbox()
    bystander = subprocess.Popen(["sleep", "600"])

    def made(code: str, *, shell: bool = False, mark: str = "", limits: CommandLimits = LIMITS) -> CommandOutcome:
        before = canaries.state()
        mark = mark and f"{mark}-{os.getpid()}"  # parallel workers run the same programs
        names = {
            "FILE": canaries.file,
            "READABLE": canaries.readable,
            "PORT": canaries.port,
            "DGRAM": canaries.listening[1].getsockname()[1],
        }
        for name, value in {**names, "FOLDER": canaries.folder, "API": os.getpid(), "BYSTANDER": bystander.pid}.items():
            code = code.replace(f"@{name}@", str(value))
        argv = ("bash", "-c", code, mark) if shell else (PYTHON, "-c", code, mark)
        roots = (Root(name="readable", path=canaries.readable),)
        done = asyncio.run(commands.run(Command(argv=argv, roots=roots), limits))
        assert SECRET.encode() not in done.stdout + done.stderr
        assert b"ESCAPED" not in done.stdout + done.stderr
        assert not [word for word in MISTAKES if word in done.stderr]
        assert canaries.state() == before
        assert not canaries.was_called()
        assert bystander.poll() is None
        assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(FOLDER_PREFIX)]
        assert not mark or not _running(mark)
        after = asyncio.run(commands.run(Command(argv=("sh", "-c", "echo fine; ls")), PATIENT))
        assert (after.ended, after.stdout) == ("done", b"fine\n")
        return done

    yield made
    bystander.kill()
    bystander.wait()


def _running(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


READING = {
    "plainly": "print(open('@FILE@').read())",
    "through_a_link": "import os; os.symlink('@FILE@', 'x'); print(open('x').read())",
    "through_a_hard_link": "import os; os.link('@FILE@', 'x'); print(open('x').read())",
    "through_a_renamed_folder": "import os; os.rename('@FOLDER@', 'x'); print(open('x/secret.txt').read())",
    "through_dots": "import os; print(open(os.path.join('readable', '..', 'secret.txt')).read())",
    "through_proc_root": "print(open('/proc/self/root@FILE@').read())",
    "through_proc_cwd_of_others": "print(open('/proc/@API@/root@FILE@').read())",
    "the_environment_of_this_process": "print(open('/proc/@API@/environ').read())",
    "the_environment_of_the_first_process": "print(open('/proc/1/environ').read())",
    "the_memory_of_the_parent": "import os; print(open(f'/proc/{os.getppid()}/mem', 'rb'), 'ESCAPED')",
    "the_list_of_a_folder": "import os; print(os.listdir('@FOLDER@'), 'ESCAPED')",
    "the_password_file": "print(open('/etc/shadow').read(), 'ESCAPED')",
    "with_a_handle": """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
handle = ctypes.create_string_buffer(b"\\x80\\0\\0\\0" + bytes(132))
mount = ctypes.c_int()
number = {"aarch64": (264, 265), "x86_64": (303, 304)}[os.uname().machine]
libc.syscall(number[0], -100, b"@FILE@", handle, ctypes.byref(mount), 0)
found = libc.syscall(number[1], -100, handle, 0)
print(os.read(found, 99))""",
    "open_descriptors": """
import os
for n in range(3, 1024):
    try: os.fstat(n)
    except OSError: continue
    print('ESCAPED', n, os.readlink(f'/proc/self/fd/{n}'))""",
    "raw_disks": "import os; os.mknod('disk', 0o60600, os.makedev(254, 0)); print(open('disk', 'rb').read(16), 'ESCAPED')",
    "kernel_memory": "print(open('/dev/mem', 'rb').read(1), 'ESCAPED')",
}


@pytest.mark.few(2)
@pytest.mark.parametrize("code", READING.values(), ids=READING)
def test_nothing_outside_can_be_read(attempt, code):
    attempt(code)


OPEN = ("plainly", "through_a_link", "through_a_hard_link", "through_proc_root", "the_list_of_a_folder")


@pytest.mark.few(1)
@pytest.mark.parametrize("name", OPEN)
def test_where_nothing_is_confined_the_same_attempts_succeed(canaries, tmp_path, name):
    code = READING[name].replace("@FILE@", str(canaries.file)).replace("@FOLDER@", str(canaries.folder))
    said = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert SECRET in said or "ESCAPED" in said


WRITING = {
    "plainly": "open('@FILE@', 'w').write('x')",
    "by_removing": "import os; os.unlink('@FILE@')",
    "by_renaming": "import os; os.rename('@FILE@', 'mine')",
    "by_replacing": "import os; open('x', 'w').close(); os.rename('x', '@FILE@')",
    "by_truncating": "import os; os.truncate('@FILE@', 0)",
    "by_mode": "import os; os.chmod('@FILE@', 0o777)",
    "by_mode_of_what_may_be_read": "import os; os.chmod('readable/a.txt', 0o777)",
    "by_time": "import os; os.utime('readable/a.txt', (1, 1))",
    "by_owner": "import os; os.chown('@FILE@', 1, 1)",
    "into_what_may_be_read": "open('readable/b.txt', 'w').close()",
    "by_a_hard_link_to_what_may_be_read": "import os; os.link('readable/a.txt', 'x'); open('x', 'w').write('y')",
    "into_the_temporary_folder_of_all": "open('/tmp/prowess-escape', 'w').close(); print('ESCAPED')",
    "into_shared_memory": "open('/dev/shm/prowess-escape', 'w').close(); print('ESCAPED')",
    "by_mounting": """
import ctypes
libc = ctypes.CDLL(None)
print('ESCAPED') if libc.mount(b'tmpfs', b'@FOLDER@', b'tmpfs', 0, None) == 0 else None""",
    "by_remounting": """
import ctypes
libc = ctypes.CDLL(None)
print('ESCAPED') if libc.mount(None, b'/', None, 32 | 4096, None) == 0 else None""",
}


@pytest.mark.few(2)
@pytest.mark.parametrize("code", WRITING.values(), ids=WRITING)
def test_nothing_outside_can_be_changed(attempt, code):
    attempt(code)


OTHER_USERS = {
    "by_mode": "os.chmod(made, 0o4755)",
    "by_mode_of_a_group": "os.chmod(made, 0o2755)",
    "by_mode_of_a_descriptor": "os.fchmod(os.open(made, os.O_RDONLY), 0o6755)",
    "by_mode_in_a_folder": "os.chmod('a', 0o4755, dir_fd=os.open('lent', os.O_RDONLY))",
    "by_opening": "os.umask(0); os.open('lent/b', os.O_CREAT | os.O_WRONLY, 0o4755)",
    "by_making_a_folder": "os.umask(0); os.mkdir('lent/b', 0o2777)",
    "by_making_a_node": "os.umask(0); os.mknod('lent/b', 0o104755)",
    "by_a_mode_with_more_bits": "libc.syscall({'aarch64': 53, 'x86_64': 268}[machine], -100, made.encode(), ctypes.c_long(0o4755 | 1 << 40))",
    "by_openat2": "libc.syscall(437, -100, b'lent/b', struct.pack('=3Q', os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24)",
    "by_the_newer_call_for_modes": "libc.syscall(452, -100, made.encode(), 0o4755, 0)",
    "by_capabilities": "os.setxattr(made, 'security.capability', bytes.fromhex('0100000200000020000000000000000000000000'))",
    "by_the_shell": "subprocess.run(['chmod', 'u+s', made]); subprocess.run(['install', '-m', '6755', made, 'lent/b'])",
}


@pytest.mark.few(2)
@pytest.mark.parametrize("code", OTHER_USERS.values(), ids=OTHER_USERS)
def test_no_file_is_made_that_runs_as_whoever_it_belongs_to(tmp_path, code):
    lent = tmp_path / "lent"
    lent.mkdir(mode=0o755)
    (lent / "a").write_text("#!/bin/sh\nid\n")
    start = (
        "import ctypes, os, struct, subprocess\nlibc, machine, made = ctypes.CDLL(None), os.uname().machine, 'lent/a'\n"
    )
    argv = (PYTHON, "-c", f"{start}try:\n    {code}\nexcept OSError as e: print(e)\nos.chmod(made, 0o711)")
    command = Command(argv=argv, roots=(Root(name="lent", path=lent, writable=True),))
    done = asyncio.run(LockedCommandSandbox().run(command, PATIENT))
    assert (done.ended, done.exit_code) == ("done", 0), done.stderr
    assert (lent / "a").stat().st_mode & 0o777 == 0o711
    for path in (lent, *lent.iterdir()):
        assert not path.stat().st_mode & 0o6000
        assert not [name for name in os.listxattr(path) if name == "security.capability"]


def test_a_folder_that_was_lent_is_given_back_with_its_mode(tmp_path):
    lent = tmp_path / "lent"
    lent.mkdir()
    lent.chmod(0o750)
    command = Command(argv=("chmod", "777", "lent"), roots=(Root(name="lent", path=lent, writable=True),))
    done = asyncio.run(LockedCommandSandbox().run(command, PATIENT))
    assert (done.ended, lent.stat().st_mode & 0o7777) == ("done", 0o750)


LOOKING = {
    "at_attributes": "print(os.listxattr('@FILE@'), 'ESCAPED')",
    "at_one_attribute": "print(os.getxattr('@FILE@', 'user.canary'), 'ESCAPED')",
    "at_what_happens_in_a_folder": """
libc = __import__('ctypes').CDLL(None)
watch = libc.inotify_init1(0)
if watch >= 0 and libc.inotify_add_watch(watch, b'@FOLDER@', 0xfff) >= 0: print('ESCAPED')""",
}


@pytest.mark.few(1)
@pytest.mark.parametrize("code", LOOKING.values(), ids=LOOKING)
def test_nothing_outside_is_looked_at(attempt, code):
    attempt(f"import os\n{code}")


CONNECTING = {
    "by_tcp": "import socket; socket.create_connection(('127.0.0.1', @PORT@), 1)",
    "by_udp": "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', @DGRAM@))",
    "by_a_socket_file": "import socket; socket.socket(socket.AF_UNIX).connect('@FOLDER@/s')",
    "by_a_socket_file_of_datagrams": "import socket; a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', '@FOLDER@/d')",
    "by_an_abstract_name": "import socket; socket.socket(socket.AF_UNIX).connect('\\0prowess-canary-@API@')",
    "by_raw_packets": "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW); print('ESCAPED')",
    "by_netlink": "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW); print('ESCAPED')",
    "by_a_virtual_machine_socket": "import socket; socket.socket(socket.AF_VSOCK); print('ESCAPED')",
    "by_entering_the_network_of_another": """
import ctypes, os
print('ESCAPED') if ctypes.CDLL(None).setns(os.open('/proc/@API@/ns/net', os.O_RDONLY), 0) == 0 else None""",
    "by_io_uring": """
import ctypes
print('ESCAPED') if ctypes.CDLL(None).syscall(425, 8, ctypes.create_string_buffer(120)) >= 0 else None""",
}


@pytest.mark.few(1)
@pytest.mark.parametrize("code", CONNECTING.values(), ids=CONNECTING)
def test_nothing_can_be_connected_to(attempt, code):
    attempt(code)


def test_the_shell_reaches_no_port_either(attempt):
    attempt("echo x > /dev/tcp/127.0.0.1/@PORT@; echo x > /dev/udp/127.0.0.1/@DGRAM@", shell=True)


GAINING = {
    "by_a_user_namespace": "import ctypes; print('ESCAPED') if ctypes.CDLL(None).unshare(0x10000000) == 0 else None",
    "by_becoming_root": "import os; os.setuid(0); os.setgid(0); os.setgroups([0]); print('ESCAPED')",
    "by_a_program_of_root": "import os; os.execvp('su', ['su', '-c', 'cat @FILE@'])",
    "by_watching_the_parent": """
import ctypes, os
print('ESCAPED') if ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0 else None""",
    "by_watching_another": "import ctypes; print('ESCAPED') if ctypes.CDLL(None).ptrace(16, @BYSTANDER@, 0, 0) == 0 else None",
    "by_another_root": "import os; os.chroot('.'); print('ESCAPED')",
    "by_raising_its_limits": """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40)); print('ESCAPED')""",
    "by_taking_off_the_filter": "import ctypes; print('ESCAPED') if ctypes.CDLL(None).prctl(22, 0, 0, 0, 0) == 0 else None",
    "by_a_program_of_the_kernel": """
import ctypes, os
number = {"aarch64": 280, "x86_64": 321}[os.uname().machine]
print('ESCAPED') if ctypes.CDLL(None).syscall(number, 0, ctypes.create_string_buffer(72), 72) >= 0 else None""",
}


@pytest.mark.few(1)
@pytest.mark.parametrize("code", GAINING.values(), ids=GAINING)
def test_nothing_is_gained(attempt, code):
    attempt(code)


def test_no_other_process_can_be_ended(attempt):
    attempt(
        """
import os, signal
for pid in (@BYSTANDER@, @API@, os.getppid(), 1, -1):
    try: os.kill(pid, signal.SIGKILL)
    except OSError: pass
"""
    )


SURVIVING = {
    "in_the_background": "sleep 600.1 & sleep 600.1 &",
    "in_a_session_of_its_own": "setsid sleep 600.1 & disown; exit 0",
    "forked_twice": "(setsid bash -c 'sleep 600.1 & sleep 600.1' >/dev/null 2>&1 &) ; exit 0",
    "deaf_to_signals": "trap '' TERM INT HUP QUIT; (trap '' TERM HUP; setsid sleep 600.1) & exit 0",
    "holding_the_output": "(setsid sleep 600.1) & echo done",
    "stopped": "sleep 600.1 & kill -STOP $!; exit 0",
    "past_its_time": "(setsid sleep 600.1 &); sleep 600.1",
    "after_too_much_output": "(setsid sleep 600.1 &); yes",
}


@pytest.mark.few(1)
@pytest.mark.parametrize("code", SURVIVING.values(), ids=SURVIVING)
def test_nothing_that_a_command_started_survives_it(attempt, code):
    before = set(_running("600.1"))
    attempt(code, shell=True, mark="600.2")
    assert set(_running("600.1")) <= before


def test_daemons_that_start_each_other_anew_end_too(attempt):
    done = attempt(
        """
import os, sys, time
if os.fork(): sys.exit(0)
while True:
    if os.fork(): os._exit(0)
    os.setsid()
""",
        mark="relay-canary",
        limits=PATIENT,
    )
    assert done.ended == "done"


def test_a_fork_bomb_ends(attempt):
    # It has an end of its own, so that a fault here does not take the machine with it.
    done = attempt(
        "b() { [ $1 -gt 9 ] || { b $(($1 + 1)) & b $(($1 + 1)) & sleep 600; }; }; b 0; sleep 600",
        shell=True,
        mark="bomb-canary",
    )
    assert done.ended in {"killed", "time", "done"}


FLOODING = {
    "output": ("while True: print('x' * 9999)", "output"),
    "both_outputs": ("import sys\nwhile True: print('x' * 99); print('y' * 99, file=sys.stderr)", "output"),
    "memory_in_pages": ("x = []\nwhile True: x.append(bytearray(1 << 20))", "done"),
    "memory_files": (
        "import ctypes, os\nwhile True:\n f = ctypes.CDLL(None).memfd_create(b'x', 0); os.write(f, b'x' * (1 << 20))",
        "done",
    ),
    "memory_in_sockets": (
        """
import os, signal, socket
for _ in range(20):
    if not os.fork(): break
pairs = []
try:
    while True: pairs.append(socket.socketpair())
except OSError: pass
for one in sum(pairs, ()):
    one.setblocking(False)
    try:
        while True: one.send(bytes(1 << 16))
    except OSError: pass
signal.pause()
""",
        "killed",
    ),
    "small_files": ("n = 0\nwhile True: n += 1; open(f'f{n}', 'w').write('x')", "killed"),
    "folders": ("import os\nn = 0\nwhile True: n += 1; os.mkdir(f'f{n}')", "killed"),
    "deep_folders": ("import os\nwhile True: os.mkdir('d' * 99); os.chdir('d' * 99)", "killed"),
    "time_that_is_caught": (
        "import signal\nfor n in set(signal.Signals) - {9, 19}:\n signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
        "time",
    ),
    "sleep": ("import time; time.sleep(600)", "time"),
    "threads": ("import threading\nwhile True: threading.Thread(target=threading.Event().wait).start()", ""),
}


@pytest.mark.few(2)
@pytest.mark.parametrize(("code", "ended"), FLOODING.values(), ids=FLOODING)
def test_whatever_is_too_much_ends_it(attempt, code, ended):
    done = attempt(code, mark="flood-canary", limits=LIMITS if ended in ("", "time") else PATIENT)
    assert not ended or done.ended == ended


def test_what_is_printed_cannot_pass_for_the_word_of_the_launcher(attempt):
    done = attempt(
        """
import os, sys
for n in (1, 2, *range(3, 64)):
    try: os.write(n, b'{"reason": "", "status": 0, "confined": ["everything"]}\\n')
    except OSError: pass
sys.exit(7)
""",
        limits=PATIENT,
    )
    assert (done.ended, done.exit_code, "everything" in done.confined) == ("done", 7, False)


def test_a_command_ends_when_the_process_that_wanted_it_is_killed(tmp_path):
    """Nobody is left to end it but the launcher."""
    code = """
import asyncio
from prowess.sandbox.commands.command import Command
from prowess.sandbox.commands.sandbox import LockedCommandSandbox
asyncio.run(LockedCommandSandbox().run(Command(argv=("sh", "-c", "setsid sleep 600.3 & echo $$; sleep 600.3"))))
"""
    wanting = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        while len(found := _running("600.3\0")) < 2:
            assert wanting.poll() is None
        watched = [os.pidfd_open(pid) for pid in found]
    finally:
        wanting.send_signal(signal.SIGKILL)
        wanting.wait()
    for one in watched:
        signal_of_end = asyncio.run(_ended(one))
        os.close(one)
        assert signal_of_end


async def _ended(descriptor: int) -> bool:
    """Whether a process has ended, as soon as it has; the test is stuck where it never does."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    loop.add_reader(descriptor, lambda: ended.done() or ended.set_result(True))
    try:
        return await ended
    finally:
        loop.remove_reader(descriptor)
