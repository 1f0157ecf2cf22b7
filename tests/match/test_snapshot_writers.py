"""Writers of a snapshot that are killed, and readers beside a writer."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prowess.match.index import Index
from prowess.match.ranking import list_tagged, rank
from prowess.match.snapshot import SavedIndex, Snapshot
from prowess.match.vectors.embedder import WordsOnly

WRITER = Path(__file__).with_name("snapshot_writer.py")


def test_a_writer_killed_before_any_step_leaves_the_old_index_or_the_new_one(tmp_path: Path) -> None:
    command = [sys.executable, str(WRITER), "points", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert sum(line["killed"] for line in lines) >= 12
    for line in lines:
        assert line["whole"], line
        assert line["number"] in (line["before"], 2), line
        assert line["killed"] or line["number"] == 2, line
        assert (line["again"], line["files"], line["last"]) == (True, 2, 3), line


@pytest.mark.long
def test_a_writer_killed_at_any_moment_leaves_a_whole_index(tmp_path: Path) -> None:
    chance = random.Random(11)
    number = 0
    for _ in range(6):
        writer = start(tmp_path, number)
        for _ in range(chance.randint(1, 6)):
            number = int(writer.stdout.readline())
        writer.kill()
        number = max([number, *(int(line) for line in writer.stdout if line.endswith("\n"))])
        writer.stdout.close()
        assert writer.wait() == -signal.SIGKILL
        saved = Snapshot(tmp_path).load(WordsOnly())
        assert saved is not None
        assert int(saved.positions["number"]) in (number, number + 1)
        assert_whole(saved)
        number += 2


def test_many_readers_beside_a_writer_always_find_a_whole_index(tmp_path: Path) -> None:
    writer = start(tmp_path, 0)
    writer.stdout.readline()
    # The writer prints what it saved, and would wait once the pipe is full.
    drain = threading.Thread(target=writer.stdout.read)
    drain.start()
    try:

        def read(_: int) -> None:
            seen: set[str] = set()
            # Limited: a writer that never pauses can replace the files faster than a busy reader opens them.
            for _ in range(300):
                saved = Snapshot(tmp_path).load(WordsOnly())
                if saved is not None:
                    assert_whole(saved)
                    seen.add(saved.positions["number"])
                if len(seen) == 12:
                    return

        with ThreadPoolExecutor(4) as readers:
            list(readers.map(read, range(4)))
    finally:
        writer.kill()
        drain.join()
        writer.stdout.close()
        writer.wait()
    saved = Snapshot(tmp_path).load(WordsOnly())
    assert saved is not None
    assert_whole(saved)


def test_two_writers_take_turns_and_neither_spoils_the_other(tmp_path: Path) -> None:
    writers = [start(tmp_path, 0), start(tmp_path, 1_000_000)]
    try:
        for _ in range(40):
            for writer in writers:
                writer.stdout.readline()
            saved = Snapshot(tmp_path).load(WordsOnly())
            if saved is not None:
                assert_whole(saved)
    finally:
        for writer in writers:
            writer.kill()
            writer.stdout.close()
            writer.wait()
    saved = Snapshot(tmp_path).load(WordsOnly())
    assert saved is not None
    assert_whole(saved)


def test_threads_that_save_through_one_snapshot_leave_a_whole_index(tmp_path: Path, office) -> None:
    snapshot = Snapshot(tmp_path)
    indexes = [Index.build(office[: 3 + number], WordsOnly()) for number in range(8)]
    with ThreadPoolExecutor(4) as writers:
        list(writers.map(lambda index: snapshot.save(SavedIndex(index=index, positions={}, record=b"")), indexes * 5))
    saved = Snapshot(tmp_path).load(WordsOnly())
    assert saved is not None
    assert saved.index.digest in {index.digest for index in indexes}


def start(folder: Path, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), "forever", str(folder), str(number)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})


def assert_whole(saved: SavedIndex) -> None:
    """Everything in it is of one and the same generation."""
    number = saved.positions["number"]
    assert saved.record == number.encode() * 1000
    assert {one.digest.partition("-")[0] for one in list_tagged(saved.index, limit=100)} == {number}
    assert len(list_tagged(saved.index, limit=100)) == saved.index.size == 5 + int(number) % 3
    best = rank(saved.index, "read invoices", limit=1)[0]
    assert f"generation {number}." in best.description
