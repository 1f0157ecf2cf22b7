"""Scripts that try to get out, beside files and a port that would tell."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

SECRET = "the-secret-of-the-canary"

READS = """
import os, io, pathlib, prowess
got = []
for attempt in (
    lambda: open(inputs['file']).read(),
    lambda: io.open(inputs['file'], 'rb').read().decode(),
    lambda: io.FileIO(inputs['file']).read().decode(),
    lambda: pathlib.Path(inputs['file']).read_text(),
    lambda: os.read(os.open(inputs['file'], os.O_RDONLY), 99).decode(),
    lambda: str(os.listdir(inputs['folder'])),
    lambda: str(os.listdir('/')),
    lambda: str(list(os.scandir('.'))),
    lambda: open('/proc/self/environ').read(),
    lambda: open('/proc/self/fd/0').read(),
    lambda: str(os.stat(inputs['file'])),
    lambda: os.readlink('/proc/self/exe'),
):
    try: got.append(attempt())
    except Exception as error: pass
prowess.submit(got)
"""
WRITES = """
import os, pathlib
for attempt in (
    lambda: open(inputs['file'], 'w').write('gone'),
    lambda: pathlib.Path(inputs['folder'], 'new').write_text('x'),
    lambda: os.mkdir(inputs['folder'] + '/new'),
    lambda: os.remove(inputs['file']),
    lambda: os.rename(inputs['file'], inputs['file'] + '.old'),
    lambda: os.symlink('/etc/passwd', inputs['folder'] + '/link'),
    lambda: os.truncate(inputs['file'], 0),
    lambda: os.chmod(inputs['file'], 0),
    lambda: os.open(inputs['folder'] + '/new', os.O_CREAT | os.O_WRONLY),
):
    try: attempt()
    except Exception as error: pass
"""
ENVIRONMENT = """
import os, sys, prowess
prowess.submit([dict(os.environ), sys.argv, os.getenv('CANARY')])
"""
FRAMES = """
import gc, sys, prowess
found = []
frame = sys._getframe()
while frame:
    found += [str(value) for value in list(frame.f_globals.values()) + list(frame.f_locals.values())]
    frame = frame.f_back
for one in gc.get_objects():
    if type(one) is dict: found += [str(value)[:200] for value in list(one.values()) if type(value) is str]
for kind in object.__subclasses__():
    found.append(kind.__name__)
prowess.submit([text for text in found if inputs['part'] + '-of-the' in text])
"""
REACHING = """
import prowess
reached = []
for path in (
    "().__class__.__base__.__subclasses__()",
    "prowess.get_page.__globals__['__builtins__']",
    "prowess.get_page.__closure__",
    "__import__('sys').modules['wit_world']",
    "__import__('sys').modules['guest.bridge']._call('get_secret', '[[], {}]')",
    "__import__('sys').modules['guest.bridge']._call('__import__', '[[\\"os\\"], {}]')",
    "__import__('sys').modules['guest.bridge']._call('functions', '[[], {}]')",
    "__import__('sys').modules['guest.bridge']._call('get_page', 'no json')",
    "__import__('sys').modules['guest.bridge']._call('get_page', '[[], {}, []]')",
    "__import__('sys').modules['guest.bridge']._call('get_page', '{\\"a\\": 1}')",
    "__import__('sys').modules['guest.bridge']._call('get_page', '[[NaN], {}]')",
    "__import__('sys').modules['guest.bridge']._call('get_page', '[' * 5000 + ']' * 5000)",
    "__import__('sys').modules['guest.bridge']._call('get_page\\\\nget_page', '[[], {}]')",
    "__import__('sys').modules['guest.bridge']._call('x' * 100_000, '[[], {}]')",
):
    try: reached.append(str(eval(path)))
    except Exception as error: reached.append(type(error).__name__)
prowess.submit([text for text in reached if inputs['part'] + '-of-the' in text])
"""
TAMPERING = """
import builtins, json, sys, prowess
import guest.bridge, guest.runner, guest.task
class Evil:
    def __getattr__(self, name): return self
    def __call__(self, *args, **kwargs): return self
for module in (json, builtins, guest.bridge, guest.runner, sys):
    for name in list(vars(module)):
        try: setattr(module, name, Evil())
        except BaseException: pass
"""
ENVELOPE = """
import guest.runner
guest.runner._run = lambda *rest: None
guest.runner.to_json = lambda value: '[' * 100_000
raise ValueError
"""
NOT_JSON = """
import gc, guest.bridge
for one in gc.get_objects():
    if isinstance(one, guest.bridge.Result): one.json = '1}, "word": "done", "x": {"a": NaN'
"""
CONNECTS = """
import socket
for family in (socket.AF_INET, socket.AF_INET6, getattr(socket, 'AF_UNIX', 1)):
    try:
        one = socket.socket(family)
        one.connect(('127.0.0.1', inputs['port']))
        one.send(b'hello')
    except Exception as error: pass
"""
BINDS = "import socket\none = socket.socket()\none.bind(('127.0.0.1', 0))\none.listen()"
RESOLVES = "import socket\nprint(socket.getaddrinfo('localhost', inputs['port']))"
URLLIB = "import urllib.request\nurllib.request.urlopen(f'http://127.0.0.1:{inputs[\"port\"]}/')"
HTTP = "import http.client\nhttp.client.HTTPConnection('127.0.0.1', inputs['port']).request('GET', '/')"
CREATES = "import _socket\n_socket.socket(2, 1, 0).connect(('127.0.0.1', inputs['port']))"
CTYPES = "import ctypes\nctypes.CDLL(None).system(b'touch ' + inputs['folder'].encode() + b'/new')"
CFFI = "import _ctypes\nprint(_ctypes)"
PROCESS = "import subprocess\nsubprocess.run(['touch', inputs['folder'] + '/new'])"
POSIX = "import posix\nfor f in ('fork', 'execv', 'posix_spawn', 'system'): print(getattr(posix, f)('touch', []))"
FORK = "import os\nos.fork()"
SIGNAL = "import os, signal\nos.kill(1, 9)\nos.kill(os.getppid(), 9)"
EXIT = "import os\nos._exit(0)"
RAW_OUTPUT = "import os\nos.write(1, b'{\"forged\": 1}')"
RAW_INPUT = "import os\nprint(os.read(0, 100))"
MULTI = "import multiprocessing\nmultiprocessing.Process(target=print).start()"
THREADS = "import _thread\n_thread.start_new_thread(print, ('x',))"
MMAP = "import mmap\nprint(mmap.mmap(-1, 4096))"
IMPORTS = (
    "import importlib.util\nprint(importlib.util.spec_from_file_location('x', inputs['file']).loader.load_module())"
)
ZIPS = "import sys\nsys.path.append(inputs['folder'])\nimport canary"
PICKLE = "import pickle\npickle.loads(b'cposix\\nsystem\\n(S\"touch /tmp/new\"\\ntR.')"
CODE = "f = (lambda: 0)\nf.__code__ = f.__code__.replace(co_code=bytes(range(256)) * 8)\nf()"
BYTECODE = "import types\nc = (lambda: 0).__code__\nexec(c.replace(co_consts=(), co_code=bytes([100, 255, 83, 0]) * 9))"
FAULT = "import faulthandler\nfaulthandler._sigsegv()"
NULL = (
    "import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: sys._getframe().f_globals.clear())\nlen([])"
)
AUDIT = "import sys\nsys.addaudithook(lambda *a: 1 / 0)\nopen('/etc/passwd')"
ATEXIT = "import atexit\natexit.register(lambda: open(inputs['file'], 'w'))"
FINALIZER = "class A:\n    def __del__(self):\n        while True: pass\na = A()"
GENERATOR = "def g():\n    try: yield\n    finally:\n        while True: pass\nx = g(); next(x)"
LOOKALIKE = "import sys, types\nsys.modules['prowess'] = types.ModuleType('prowess')\nimport prowess\nprowess.submit(1)"

CORPUS = {
    name.lower(): code
    for name, code in list(globals().items())
    if name.isupper() and isinstance(code, str) and name != "SECRET"
}


class Canaries:
    """Files and a port that are to stay as they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "canary.py"
        self.file.write_text(f"SECRET = {SECRET!r}\n")
        self.port = socket.socket()
        self.port.bind(("127.0.0.1", 0))
        self.port.listen()
        self.port.setblocking(False)
        self._before = self._state()

    @property
    def inputs(self) -> dict:
        return {
            "file": str(self.file),
            "folder": str(self.folder),
            "port": self.port.getsockname()[1],
            "part": "the-secret",
        }

    def check(self) -> None:
        assert self._state() == self._before
        with pytest.raises(BlockingIOError):
            self.port.accept()

    def _state(self) -> list:
        found = sorted(self.folder.iterdir())
        return [(path.name, path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns) for path in found]


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canaries]:
    monkeypatch.setenv("CANARY", SECRET)
    folder = tmp_path / "canaries"
    folder.mkdir()
    made = Canaries(folder)
    yield made
    made.port.close()


async def get_page(slug: str) -> dict:
    return {"slug": slug}


@pytest.mark.few(12)
@pytest.mark.parametrize("name", CORPUS)
def test_nothing_gets_out_and_the_next_run_sees_nothing_of_it(run, canaries, name):
    ran = run(CORPUS[name], canaries.inputs, {"get_page": get_page}, seconds=2.0, fuel=4 * 10**9)
    canaries.check()
    said = f"{ran.result!r} {ran.stdout} {ran.error}"
    assert SECRET not in said
    assert "root:" not in said
    after = run("import sys, json, prowess\nprowess.submit([sorted(vars(prowess)), json.loads('[1]')])", functions={})
    assert after.ended == "done"
    assert after.result[1] == [1]
    assert "get_page" not in after.result[0]


@pytest.mark.parametrize("name", ["reads", "environment", "frames", "reaching"])
def test_what_an_attempt_brings_home_is_nothing(run, canaries, name):
    ran = run(CORPUS[name], canaries.inputs, {"get_page": get_page})
    assert ran.ended == "done"
    assert ran.result in ([], [{}, ["<script>"], None])


@pytest.mark.parametrize(
    ("name", "ended"),
    [
        ("ctypes", "raised"),
        ("process", "raised"),
        ("fork", "raised"),
        ("exit", "forbidden"),
        ("raw_output", "forbidden"),
        ("raw_input", "forbidden"),
        ("threads", "raised"),
        ("lookalike", "raised"),
        ("connects", "forbidden"),
        ("resolves", "forbidden"),
    ],
)
def test_how_an_attempt_ends(run, canaries, name, ended):
    assert run(CORPUS[name], canaries.inputs, seconds=1.0).ended == ended


def test_a_forged_answer_of_the_guest_is_no_result(run):
    assert run(ENVELOPE).ended in {"result", "raised", "done"}
    ran = run(NOT_JSON)
    assert (ran.ended, ran.submitted) == ("result", False)


def test_a_script_cannot_leave_anything_for_the_next(run):
    run(
        "import json, sys, builtins\njson.left = sys.left = builtins.left = 1\nsys.modules['left'] = sys\nglobals()['left'] = 1"
    )
    code = """
import json, sys, builtins, prowess
prowess.submit([hasattr(json, 'left'), hasattr(sys, 'left'), hasattr(builtins, 'left'), 'left' in sys.modules])
"""
    assert run(code).result == [False] * 4


def test_the_worker_has_nothing_of_our_environment(run, sandbox, monkeypatch):
    monkeypatch.setenv("CANARY", SECRET)
    run("pass")
    worker = sandbox.pids[0]
    try:
        environment = Path(f"/proc/{worker}/environ").read_bytes()
    except OSError:
        pytest.skip("nobody may look into another process here")
    assert SECRET.encode() not in environment
    assert b"HOME" not in environment


@pytest.mark.long
def test_memory_of_many_greedy_scripts_is_given_back(run, sandbox):
    run("pass")
    worker = sandbox.pids[0]
    for _ in range(6):
        assert run("x = []\nwhile True: x.append(bytearray(1 << 20))", memory_bytes=128 << 20).ended == "memory"
    try:
        pages = int(Path(f"/proc/{worker}/statm").read_text().split()[1])
    except OSError:
        pytest.skip("nobody may look into another process here")
    # All six together had 768 MB.
    assert pages * os.sysconf("SC_PAGESIZE") < 600 << 20
