"""Code in a process of its own that tries to get out, beside files, a port and a process that would tell."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SECRET = "the-secret-of-the-canary"
TRY = """
import os, prowess
got = []
def attempt(doing):
    try: got.append(doing())
    except BaseException as error: pass
{}
prowess.submit([str(one)[:2000] for one in got if one is not None])
"""


def tries(*attempts: str, before: str = "") -> str:
    return TRY.format("\n".join([before, *(f"attempt(lambda: {one})" for one in attempts)]))


READS = tries(
    "open(inputs['file']).read()",
    "open(inputs['file'], 'rb').read()",
    "__import__('io').FileIO(inputs['file']).read()",
    "__import__('pathlib').Path(inputs['file']).read_text()",
    "os.read(os.open(inputs['file'], os.O_RDONLY), 99)",
    "os.read(os.open(inputs['link'], os.O_RDONLY), 99)",
    "__import__('linecache').getlines(inputs['file']) or None",
    "__import__('mmap').mmap(os.open(inputs['file'], os.O_RDONLY), 0, prot=1)[:]",
)
LISTS = tries("os.listdir(inputs['folder'])", "os.listdir('/')", "list(os.scandir('/tmp'))", "os.listdir('/home')")
SYSTEM = tries(
    "open('/etc/passwd').read()",
    "open('/etc/shadow').read()",
    "open('/root/.bashrc').read()",
    "open('/etc/hostname').read()",
)
PROC = tries(
    "open('/proc/self/environ').read()",
    "open(f'/proc/{os.getppid()}/environ').read()",
    "open(f'/proc/{inputs[\"pid\"]}/environ').read()",
    "open('/proc/self/maps').read()",
    "open('/proc/self/mem', 'r+b').read(1)",
    "open(f'/proc/{os.getppid()}/mem', 'r+b').read(1)",
    "os.listdir('/proc')",
    "os.listdir('/proc/self/fd')",
    "open('/proc/self/fd/3').read()",
    "os.readlink('/proc/self/cwd') and open('/proc/self/root/etc/passwd').read()",
)
WRITES = tries(
    "open(inputs['file'], 'w').write('gone')",
    "open(inputs['file'], 'a').write('gone')",
    "open(inputs['folder'] + '/new', 'x')",
    "os.truncate(inputs['file'], 0)",
    "open('/dev/shm/prowess-canary', 'w')",
    "open('/tmp/prowess-canary', 'w')",
    "__import__('tempfile').mkstemp()",
)
FOLDERS = tries(
    "os.mkdir(inputs['folder'] + '/new') or 1",
    "os.remove(inputs['file']) or 1",
    "os.rename(inputs['file'], inputs['file'] + '.old') or 1",
    "os.symlink('/etc/passwd', inputs['folder'] + '/linked') or 1",
    "os.link(inputs['file'], inputs['folder'] + '/linked') or 1",
    "os.mkfifo(inputs['folder'] + '/pipe') or 1",
    "os.mknod(inputs['folder'] + '/node') or 1",
    "os.rmdir(inputs['folder']) or 1",
)
ATTRIBUTES = tries(
    "os.chmod(inputs['file'], 0o777) or 1",
    "os.chown(inputs['file'], 1, 1) or 1",
    "os.utime(inputs['file'], (0, 0)) or 1",
    "os.setxattr(inputs['file'], 'user.a', b'1') or 1",
    "os.fchmod(os.open(os.__file__, os.O_RDONLY), 0o777) or 1",
)
LIBRARY_WRITES = tries("open(os.__file__, 'a')", "open(os.path.dirname(os.__file__) + '/new.py', 'x')")
CHROOT = tries(
    "os.chroot('/') or 1", "os.chdir(inputs['folder']) or open('canary.py').read()", "os.setuid(1) or 1", "os.nice(-5)"
)
ENVIRONMENT = tries("dict(os.environ) or None", "os.getenv('CANARY')", "os.getenvb(b'CANARY')")
CONNECTS = tries(
    "socket.create_connection(('127.0.0.1', inputs['port']))",
    "socket.socket(socket.AF_INET6)",
    "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', inputs['port']))",
    "socket.socket(socket.AF_UNIX).connect(inputs['socket'])",
    "socket.socket(socket.AF_UNIX).connect('\\0prowess-canary')",
    "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "socket.getaddrinfo('localhost', inputs['port'], type=socket.SOCK_STREAM) and socket.create_server(('127.0.0.1', 0))",
    "__import__('urllib.request').request.urlopen(f'http://127.0.0.1:{inputs[\"port\"]}/')",
    before="import socket",
)
DATAGRAMS = tries(
    "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', inputs['socket'])", before="import socket"
)
PAIRED = tries(
    "socket.socketpair()[0].sendto(b'x', inputs['socket'])",
    "socket.socketpair()[0].connect(inputs['socket']) or 1",
    "socket.socketpair()[0].sendmsg([b'x'], [(1, 1, b'\\3\\0\\0\\0')])",
    before="import socket",
)
STARTS = tries(
    "subprocess.run(['touch', inputs['folder'] + '/new'])",
    "os.posix_spawn('/bin/touch', ['touch', inputs['folder'] + '/new'], {})",
    "os.popen('id').read() or None",
    before="import subprocess",
)
SYSTEM_CALL = "import os\nos.system('touch ' + inputs['folder'] + '/new')"
EXECUTES = "import os\nos.execv('/bin/sh', ['sh', '-c', 'touch ' + inputs['folder'] + '/new'])"
FORKS = tries("os.fork() or os._exit(0)", "os.forkpty()")
FORK_BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
MULTIPROCESSING = "import multiprocessing\nmultiprocessing.Process(target=print).start()"
CALLS = """
import ctypes, platform, prowess
libc = ctypes.CDLL(None, use_errno=True)
done = []
for name, arguments in {
    'ptrace': (16, inputs['pid'], 0, 0), 'unshare': (0x10000000,), 'mount': (b'none', b'/tmp', b'tmpfs', 0, None),
    'setns': (3, 0), 'kill': (inputs['pid'], 0), 'chroot': (b'/',), 'socket': (2, 1, 0), 'reboot': (0,),
    'memfd_create': (b'x', 0), 'process_vm_readv': (inputs['pid'], None, 0, None, 0, 0), 'personality': (0x0040000,),
    'inotify_init': (), 'setpriority': (0, 0, 19), 'shmget': (0, 4096, 0o1600), 'swapoff': (b'/x',), 'acct': (None,),
    'sethostname': (b'x', 1), 'iopl': (3,), 'quotactl': (0, None, 0, None),
    'pivot_root': (b'/', b'/'), 'umount': (b'/tmp',), 'init_module': (None, 0, None), 'klogctl': (10, None, 0),
}.items():
    call = getattr(libc, name, None)
    if call is not None and call(*arguments) >= 0 : done.append(name)
prowess.submit(done)
"""
NUMBERS = """
import ctypes, platform, prowess
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == 'aarch64'
calls = {'clone3': 435, 'pidfd_open': 434, 'pidfd_getfd': 438, 'io_uring_setup': 425, 'bpf': 280 if arm else 321, 'open_tree': 428,
         'keyctl': 219 if arm else 250, 'perf_event_open': 241 if arm else 298, 'userfaultfd': 282 if arm else 323,
         'clone': 220 if arm else 56, 'execveat': 281 if arm else 322, 'open_by_handle_at': 265 if arm else 304,
         'seccomp': 277 if arm else 317, 'landlock_create_ruleset': 444, 'fsopen': 430, 'new': 470, 'mount_setattr': 442}
prowess.submit([name for name, number in calls.items() if libc.syscall(number, 17 if name == 'clone' else inputs['pid'], 0, 0, 0, 0, 0) >= 0])
"""
OTHER_TABLE = "import ctypes\nctypes.CDLL(None).syscall(0x40000000 + 39)"
SIGNALS = tries(
    "os.kill(os.getppid(), 9) or 1",
    "os.kill(inputs['pid'], 15) or 1",
    "os.kill(-1, 15) or 1",
    "os.killpg(0, 15) or 1",
    "signal.pidfd_send_signal(os.pidfd_open(inputs['pid']), 9) or 1",
    "fcntl.fcntl(3, fcntl.F_SETOWN, inputs['pid'])",
    "resource.prlimit(inputs['pid'], resource.RLIMIT_CPU, (1, 1))",
    "os.sched_setaffinity(inputs['pid'], {0}) or 1",
    "os.setpriority(os.PRIO_USER, 0, 19) or 1",
    before="import signal, fcntl, resource",
)
RAISES_LIMITS = tries(
    "resource.setrlimit(resource.RLIMIT_AS, (-1, -1)) or 1",
    "resource.setrlimit(resource.RLIMIT_CPU, (-1, -1)) or 1",
    "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30)) or 1",
    before="import resource",
)
OUTLIVES = "import ctypes\nprint(ctypes.CDLL(None).prctl(1, 0, 0, 0, 0))"
FRAMES = """
import gc, sys, prowess
found, frame = [], sys._getframe()
while frame:
    found += [str(value)[:500] for value in list(frame.f_globals.values()) + list(frame.f_locals.values())]
    frame = frame.f_back
for one in gc.get_objects():
    if type(one) is dict: found += [value[:500] for value in list(one.values()) if type(value) is str]
prowess.submit([text for text in found if inputs['part'] + '-of-the' in text])
"""
MEMORY_WALK = """
import ctypes, prowess
prowess.submit(ctypes.string_at(id(prowess), 64).hex() == inputs['part'])
"""
MODULES = """
import prowess
reached = []
for name in ('prowess.sandbox', 'prowess.engine', 'prowess.open', 'prowess.settings', 'prowess.storage', 'wasmtime', 'pydantic', 'pytest'):
    try: reached.append(__import__(name))
    except ImportError: pass
prowess.submit([str(one) for one in reached])
"""
TAMPERING = """
import builtins, json, sys, os, prowess
class Evil:
    def __getattr__(self, name): return self
    def __call__(self, *args, **kwargs): return self
for module in (json, builtins, os, sys):
    for name in list(vars(module)):
        try: setattr(module, name, Evil())
        except BaseException: pass
"""
FORGED_DONE = "import os, struct\nbody = b'{\"done\":true,\"result\":NaN}'\nos.write(3, struct.pack('>IIB', len(body), 1, 13) + body)"
FORGED_CALL = "import os, struct\nbody = b'get_secret\\n[[], {}]'\nos.write(3, struct.pack('>IIB', len(body), 1, 12) + body)\nprint(os.read(3, 999))"
FORGED_CALLS = "import os, struct\nbody = b'get_page\\n[[1], {}]'\nwhile True: os.write(3, struct.pack('>IIB', len(body), 1, 12) + body)"
FORGED_RUN = "import os, struct\nos.write(3, struct.pack('>IIB', 0, 7, 12))\nwhile True: pass"
FORGED_SIZE = "import os, struct\nos.write(3, struct.pack('>IIB', 0xFFFFFFFF, 1, 13))\nwhile True: pass"
FORGED_KIND = "import os, struct\nos.write(3, struct.pack('>IIB', 0, 1, 99))\nwhile True: pass"
FORGED_START = "import os, struct\nwhile True: os.write(3, struct.pack('>IIB', 0, 1, 15))"
FORGED_PRINTS = (
    "import os, struct\nbody = b'print\\n'\nwhile True: os.write(3, struct.pack('>IIB', len(body), 1, 12) + body)"
)
FORGED_RUBBISH = "import os\nwhile True: os.write(3, os.urandom(1 << 16))"
CLOSES_LINE = "import os\nos.close(3)\nwhile True: pass"
READS_LINE = "import os, prowess\nos.set_blocking(3, False)\nprowess.submit(os.read(3, 1 << 16).decode())"
SEVERAL_CALLS = """
import threading, prowess
threads = [threading.Thread(target=prowess.get_page, args=('a',)) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
"""
THREAD_BOMB = (
    "import threading\nfor _ in range(10_000): threading.Thread(target=threading.Event().wait, daemon=True).start()"
)
MEMORY = "x = []\nwhile True: x.append(bytearray(1 << 22))"
MAPPED = "import mmap\nx = []\nwhile True: x.append(mmap.mmap(-1, 1 << 24))"
HUGE_NUMBER = "9 ** 9 ** 9"
RECURSION = "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(): return f()\nf()"
SWALLOWS = "import signal\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n    except Exception: pass\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass"
SLEEPS = "import time\nwhile True:\n    try: time.sleep(600)\n    except BaseException: pass"
FLOOD = "import sys\nwhile True:\n    try: print('x' * 10_000)\n    except BaseException: pass"
RAW_FLOOD = "import os\nfor _ in range(2_000): os.write(1, b'x' * 65_536); os.write(2, b'x' * 65_536)"
EXITS = "import os\nos._exit(0)"
SEGFAULT = "import ctypes\nctypes.string_at(1)"
ABORTS = "import os\nos.abort()"
FINALIZER = "class A:\n    def __del__(self):\n        while True: pass\na = A()"
ATEXIT = "import atexit\natexit.register(lambda: open(inputs['file'], 'w'))"
BYTECODE = "f = (lambda: 0)\nf.__code__ = f.__code__.replace(co_code=bytes(range(256)) * 8)\nf()"
DESCRIPTORS = """
import os, prowess
found = []
for number in range(4, 1024):
    try: os.fstat(number)
    except OSError: continue
    found.append(number)
prowess.submit(found)
"""

CORPUS = {
    name.lower(): code
    for name, code in list(globals().items())
    if name.isupper() and isinstance(code, str) and name not in {"SECRET", "TRY"}
}
NOTHING_BROUGHT_HOME = [
    "reads",
    "lists",
    "system",
    "proc",
    "writes",
    "folders",
    "attributes",
    "library_writes",
    "chroot",
    "environment",
    "connects",
    "datagrams",
    "paired",
    "starts",
    "forks",
    "calls",
    "numbers",
    "signals",
    "raises_limits",
    "frames",
    "modules",
    "descriptors",
]


class Canaries:
    """Files, sockets and a process that are to stay as they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "canary.py"
        self.file.write_text(f"SECRET = {SECRET!r}\n")
        (folder / "link").symlink_to(self.file)
        self.port = socket.create_server(("127.0.0.1", 0))
        self.place = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.place.bind(str(folder / "socket"))
        for one in (self.port, self.place):
            one.setblocking(False)
        self._before = self._state()

    @property
    def inputs(self) -> dict:
        paths = {
            "file": self.file,
            "folder": self.folder,
            "link": self.folder / "link",
            "socket": self.folder / "socket",
        }
        numbers = {"port": self.port.getsockname()[1], "pid": os.getpid(), "part": "the-secret"}
        return {**{name: str(path) for name, path in paths.items()}, **numbers}

    def check(self) -> None:
        assert self._state() == self._before
        assert not Path("/tmp/prowess-canary").exists()
        with pytest.raises(BlockingIOError):
            self.port.accept()
        with pytest.raises(BlockingIOError):
            self.place.recv(1)

    def close(self) -> None:
        self.port.close()
        self.place.close()

    def _state(self) -> list:
        files = [path for path in sorted(self.folder.iterdir()) if path.is_file()]
        names = sorted(path.name for path in self.folder.iterdir())
        return [names, [(path.name, path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns) for path in files]]


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canaries]:
    monkeypatch.setenv("CANARY", SECRET)
    folder = tmp_path / "c"
    folder.mkdir()
    made = Canaries(folder)
    yield made
    made.close()


async def get_page(slug: str) -> dict:
    return {"slug": slug}


@pytest.mark.few(12)
@pytest.mark.parametrize("name", CORPUS)
def test_nothing_gets_out_and_the_next_run_sees_nothing_of_it(run_native, canaries, name):
    ran = run_native(CORPUS[name], canaries.inputs, {"get_page": get_page}, seconds=1.0, memory_bytes=128 << 20)
    canaries.check()
    said = f"{ran.result!r} {ran.stdout} {ran.error}"
    assert SECRET not in said
    assert "root:" not in said
    after = run_native("import json, prowess\nprowess.submit([sorted(vars(prowess)), json.loads('[1]')])")
    assert after.ended == "done"
    assert after.result[1] == [1]
    assert "get_page" not in after.result[0]


UNCONFINED = """
import sys, types
inputs, shown = eval(sys.argv[1]), types.ModuleType("prowess")
shown.submit = lambda got: print(len(got), got)
sys.modules["prowess"] = shown
"""


@pytest.mark.parametrize(("name", "most"), [("reads", 8), ("lists", 4), ("environment", 3), ("datagrams", 1)])
def test_where_nothing_is_confined_the_same_attempts_bring_something_home(canaries, name, most):
    asked = [sys.executable, "-c", UNCONFINED + CORPUS[name], repr(canaries.inputs)]
    said = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60).stdout
    assert int(said.split()[0]) == most
    assert SECRET in said or name in {"lists", "datagrams"}


@pytest.mark.parametrize("name", NOTHING_BROUGHT_HOME)
def test_what_an_attempt_brings_home_is_nothing(run_native, canaries, name):
    ran = run_native(CORPUS[name], canaries.inputs)
    assert (ran.ended, ran.result) == ("done", [])


@pytest.mark.few(10)
@pytest.mark.parametrize(
    ("name", "ended"),
    [
        ("system_call", {"done"}),
        ("executes", {"raised"}),
        ("fork_bomb", {"time"}),
        ("multiprocessing", {"raised"}),
        ("other_table", {"crashed", "done"}),
        ("forged_call", {"done"}),
        ("forged_calls", {"crashed", "calls"}),
        ("forged_done", {"result"}),
        ("forged_run", {"crashed"}),
        ("forged_size", {"crashed"}),
        ("forged_kind", {"crashed"}),
        ("forged_start", {"crashed"}),
        ("forged_prints", {"output"}),
        ("forged_rubbish", {"crashed"}),
        ("closes_line", {"time"}),
        ("several_calls", {"done"}),
        ("thread_bomb", {"raised", "memory"}),
        ("memory", {"memory"}),
        ("mapped", {"raised"}),
        ("huge_number", {"time", "memory"}),
        ("recursion", {"crashed", "memory", "time"}),
        ("swallows", {"time"}),
        ("sleeps", {"time"}),
        ("flood", {"output"}),
        ("raw_flood", {"done"}),
        ("exits", {"crashed"}),
        ("segfault", {"crashed"}),
        ("aborts", {"crashed"}),
        ("finalizer", {"done"}),
        ("atexit", {"done"}),
    ],
)
def test_how_an_attempt_ends(run_native, canaries, name, ended):
    ran = run_native(CORPUS[name], canaries.inputs, {"get_page": get_page}, seconds=1.0, memory_bytes=128 << 20)
    assert ran.ended in ended


def test_a_script_cannot_leave_anything_for_the_next(run_native):
    run_native("import json, sys, builtins, os\njson.left = sys.left = builtins.left = 1\nos.environ['LEFT'] = '1'")
    code = "import json, sys, builtins, os, prowess\nprowess.submit([hasattr(m, 'left') for m in (json, sys, builtins)] + ['LEFT' in os.environ])"
    assert run_native(code).result == [False] * 4


def test_what_processes_are_forked_from_has_nothing_of_our_environment(run_native, native, monkeypatch):
    monkeypatch.setenv("CANARY", SECRET)
    run_native("pass")
    [process] = native.pids
    try:
        environment = Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        pytest.skip("nobody may look into another process here")
    assert SECRET.encode() not in environment
    assert b"HOME" not in environment
