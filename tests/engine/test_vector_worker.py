"""The process that computes vectors in the background: one per home, detached, and gone when nothing is missing."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prowess.catalog.catalog import Catalog
from prowess.engine.matcher import open_card_vectors, open_embedder, open_matcher, snapshot_folder
from prowess.engine.places import PACKS
from prowess.engine.stores import Stores
from prowess.engine.vector_worker import compute_missing, is_running, last_failure, start_worker, vectors_folder
from prowess.match.index import Index
from prowess.match.matcher import BATCH
from prowess.match.snapshot import Snapshot
from prowess.match.vectors.card_vectors import KEPT_DAYS, CardVectors
from prowess.match.vectors.vector_table import current_day, write_table
from prowess.settings import Settings, read_settings

MANY = BATCH + 16


@pytest.fixture
def write_skills() -> Callable[[Path, int], None]:
    def write(workspace: Path, count: int) -> None:
        for number in range(count):
            folder = workspace / ".agents" / "skills" / f"skill-{number}"
            folder.mkdir(parents=True)
            text = f"---\nname: skill-{number}\ndescription: Handles part {number} of {workspace.name}.\n---\nDo it.\n"
            (folder / "SKILL.md").write_text(text)

    return write


@pytest.fixture
def settings(tmp_path: Path, write_skills) -> Settings:
    """The settings of a workspace with many skills that are indexed and have no vectors."""
    write_skills(tmp_path, MANY)
    chosen = read_settings(workspace=tmp_path)
    with open_matcher(settings=chosen) as matcher:
        assert matcher.index().missing == MANY
    return chosen


def missing(settings: Settings) -> int:
    """The number of skills in the saved index whose vectors are on disk nowhere."""
    embedder = open_embedder(settings)
    saved = Snapshot(snapshot_folder(settings)).load(embedder)
    assert saved is not None
    return saved.index.with_vectors(CardVectors(vectors_folder(settings.home), embedder)).missing


def run_worker(settings: Settings) -> None:
    """Run the process to its end."""
    environment = {**os.environ, "PROWESS_EMBEDDER": settings.embedder, "PROWESS_EMBEDDER_URL": settings.embedder_url}
    vectors_folder(settings.home).mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "prowess.engine.vector_worker"], check=True, env=environment)


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait; the time limit of the test ends it."""
    while not holds():
        time.sleep(0.01)


def wait_for_vectors(settings: Settings) -> None:
    """Wait until a process that was started has ended, and all vectors are there."""
    # The cheap questions first: while the process works, reading the saved index again and again takes its time.
    kept = vectors_folder(settings.home)
    wait_until(lambda: any(kept.glob("*/*.vectors")) and not is_running(settings) and missing(settings) == 0)


def test_the_process_computes_what_all_saved_indexes_lack(settings, tmp_path_factory, write_skills) -> None:
    other = tmp_path_factory.mktemp("other")
    write_skills(other, 40)
    second = read_settings(workspace=other)
    with open_matcher(settings=second) as matcher:
        matcher.index()
    run_worker(settings)
    assert (missing(settings), missing(second), is_running(settings), last_failure(settings)) == (0, 0, False, "")


def test_a_matcher_that_is_open_uses_the_vectors_when_they_are_there(settings) -> None:
    with open_matcher(settings=settings) as matcher:
        assert matcher.index().missing == MANY
        run_worker(settings)
        matcher.look_again()
        assert matcher.index().missing == 0


def test_started_twice_the_second_ends_at_once(settings) -> None:
    folder = vectors_folder(settings.home)
    folder.mkdir(parents=True)
    with (folder / "worker").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert is_running(settings)
        run_worker(settings)
        assert missing(settings) == MANY
    assert not is_running(settings)


def test_nothing_is_started_while_it_is_running(settings) -> None:
    folder = vectors_folder(settings.home)
    folder.mkdir(parents=True)
    with (folder / "worker").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert start_worker(settings)
    assert missing(settings) == MANY


CALLER = """
import os, signal, sys
from prowess.engine.vector_worker import start_worker
from prowess.settings import read_settings
assert start_worker(read_settings())
if sys.argv[1] == "interrupted":
    os.killpg(0, signal.SIGINT)
os._exit(3)
"""


@pytest.mark.few(1)
@pytest.mark.parametrize(("how", "code"), [("exits", 3), ("interrupted", -signal.SIGINT)])
def test_it_outlives_a_caller_that_ends_at_once(settings, how: str, code: int) -> None:
    command = [sys.executable, "-c", CALLER, how]
    ran = subprocess.run(command, check=False, start_new_session=True, stderr=subprocess.DEVNULL)
    assert ran.returncode == code
    wait_for_vectors(settings)


@pytest.mark.long
def test_a_long_lived_caller_keeps_no_zombie(settings) -> None:
    assert start_worker(settings)
    wait_for_vectors(settings)

    def children() -> list[str]:
        return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()

    wait_until(lambda: not any("vector_worker" in command_of(child) or is_zombie(child) for child in children()))


def command_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def is_zombie(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


@pytest.mark.long
def test_killed_at_any_moment_it_keeps_what_it_has_and_another_goes_on(settings) -> None:
    folder = vectors_folder(settings.home)
    folder.mkdir(parents=True)
    process = subprocess.Popen([sys.executable, "-m", "prowess.engine.vector_worker"])
    wait_until(lambda: any(folder.glob("*/*.vectors")) and missing(settings) < MANY)
    process.kill()
    process.wait()
    before = missing(settings)
    assert before < MANY
    run_worker(settings)
    assert missing(settings) == 0


def test_one_that_cannot_begin_is_not_started_again_at_once(settings, monkeypatch, tmp_path) -> None:
    started = tmp_path / "started"
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho >> {started}\nexit 1\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    assert [start_worker(settings) for _ in range(5)] == [True] * 5
    wait_until(started.exists)
    assert started.read_text() == "\n"
    assert missing(settings) == MANY


@pytest.mark.few(1)
@pytest.mark.parametrize("note", ["[]", '{"embedder": "default"}', '{"embedder": "default", "until": 1e300}'])
def test_what_lies_in_the_lock_file_stops_nothing(settings, note: str) -> None:
    folder = vectors_folder(settings.home)
    folder.mkdir(parents=True)
    (folder / "worker").write_text(note)
    assert start_worker(settings)
    wait_for_vectors(settings)


def test_an_embedder_that_fails_is_noted_and_left_alone_for_a_while(tmp_path) -> None:
    environment = {**os.environ, "PROWESS_EMBEDDER": "endpoint:some", "PROWESS_EMBEDDER_URL": "http://127.0.0.1:1/v1"}
    settings = read_settings(environment, workspace=tmp_path)
    run_worker(settings)
    assert last_failure(settings)
    assert start_worker(settings)
    assert not is_running(settings)
    assert not last_failure(read_settings(workspace=tmp_path)), "another embedder is not concerned"


def test_where_nothing_can_be_kept_it_is_not_started(tmp_path) -> None:
    (tmp_path / "home").write_text("not a folder")
    settings = read_settings({**os.environ, "PROWESS_HOME": str(tmp_path / "home")}, workspace=tmp_path)
    assert not start_worker(settings)


def test_it_drops_what_no_index_uses_any_more(settings) -> None:
    cards = open_card_vectors(settings)
    old = [["old head", f"old part {number}"] for number in range(2 * MANY)]
    cards.add(old)
    table = next(table for table in cards.tables() if table.size == len(old))
    aged = type(table)(
        keys=np.array(table.keys),
        starts=table.starts,
        days=np.full(table.size, current_day() - KEPT_DAYS - 1, np.uint16),
        rows=table.rows,
        codes=table.codes,
        check=table.check,
    )
    (only,) = cards.folder.glob("*.vectors")
    only.unlink()
    write_table(cards.folder / "aged.vectors", aged, cards.embedder.name)
    compute_missing(settings, cards)
    signal.alarm(0)
    assert missing(settings) == 0
    assert cards.find(aged.keys.T).missing.all()


def test_it_stops_before_the_next_batch_when_its_folder_is_deleted(settings) -> None:
    asked = iter([True, False])
    cards = CardVectors(vectors_folder(settings.home), open_embedder(settings))
    assert compute_missing(settings, cards, go_on=lambda: next(asked)) == BATCH
    signal.alarm(0)
    assert missing(settings) == MANY - BATCH


def test_where_the_background_is_off_none_is_started(settings) -> None:
    assert not settings.background
    assert not (vectors_folder(settings.home) / "worker").exists()


def test_the_vectors_of_the_skills_that_come_with_prowess_ship_with_it(tmp_path) -> None:
    """`python scripts/pack_vectors.py` writes them."""
    settings = read_settings({**os.environ, "PROWESS_SYSTEM_SKILLS": "on"}, workspace=tmp_path)
    stores = Stores(settings)
    index = Index.build(Catalog(stores.present).documents(), cards=open_card_vectors(settings))
    stores.close()
    assert index.size == len(list(PACKS.glob("*/SKILL.md")))
    assert index.missing == 0
