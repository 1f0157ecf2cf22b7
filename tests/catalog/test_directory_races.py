"""A folder of skills under several writers, and under a writer that is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from prowess.catalog.directory_store import DirectoryStore
from prowess.catalog.version_log import MemoryVersions
from prowess.errors import Conflict


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "skills"


@pytest.fixture
def log() -> MemoryVersions:
    return MemoryVersions()


def test_two_stores_over_one_folder_see_each_other_and_never_lose_a_write(root, log, pack):
    stores = [DirectoryStore(root, scope="workspace", versions=log) for _ in range(2)]
    first = stores[0].save(pack("tidy", "0"))
    done: list[str] = []

    def write(store: DirectoryStore, who: int) -> None:
        for number in range(10):
            kept = store.get_skill_by_name("tidy")
            try:
                done.append(store.save(pack("tidy", f"{who}-{number}"), expected=kept.digest).digest)
            except Conflict:
                continue

    threads = [threading.Thread(target=write, args=(store, who)) for who, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    logged = [version.digest for version in log.versions("tidy")]
    assert sorted(logged) == sorted([first.digest, *done])
    assert stores[0].get_skill_by_name("tidy").digest == logged[-1]


def test_reads_while_somebody_writes_give_the_old_or_the_new(root, log, pack):
    store = DirectoryStore(root, scope="workspace", versions=log)
    writer = DirectoryStore(root, scope="workspace", versions=log)
    digests = {writer.save(pack("tidy", "0", references_a="0")).digest}
    finished = threading.Event()

    def write() -> None:
        kept = writer.get_skill_by_name("tidy").digest
        for number in range(1, 30):
            kept = writer.save(pack("tidy", str(number), references_a=str(number)), expected=kept).digest
            digests.add(kept)
        finished.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = set()
    while not finished.is_set():
        skill = store.get_skill_by_name("tidy")
        seen.add(skill.digest)
    thread.join()
    assert seen <= digests


def test_a_category_that_becomes_a_link_during_a_scan_is_reported_and_not_followed(
    root, log, pack, tmp_path, monkeypatch
):
    DirectoryStore(tmp_path / "elsewhere", scope="workspace", versions=log).save(pack("tidy", "0"))
    category = root / "work"
    category.mkdir(parents=True)
    list_names = os.listdir

    def list_late(place: str) -> list[str]:
        if place == str(category) and not category.is_symlink():
            category.rmdir()
            category.symlink_to(tmp_path / "elsewhere")
        return list_names(place)

    monkeypatch.setattr(os, "listdir", list_late)
    store = DirectoryStore(root, scope="workspace", versions=log)

    assert store.list_skills() == []
    assert [fault.location for fault in store.faults()] == [str(category)]


@pytest.mark.long
def test_a_writer_killed_at_any_step_leaves_all_of_the_old_or_all_of_the_new(tmp_path):
    program = Path(__file__).with_name("kill_points.py")
    printed = subprocess.run([sys.executable, program, tmp_path], check=True, capture_output=True, text=True).stdout
    kills = [json.loads(line) for line in printed.splitlines()]
    assert len(kills) > 100
    done = {kill["name"]: kill["after"] for kill in kills if not kill["killed"]}
    for kill in kills:
        old, new, after = kill["before"], done[kill["name"]], kill["after"]
        assert (after["digest"], after["found"]) in ((old["digest"], old["found"]), (new["digest"], new["found"])), kill
        assert after["faults"] == 0, kill
        if "export" in kill["name"]:
            assert kill["left"] == old["found"], kill
        assert after["versions"][: len(old["versions"])] == old["versions"], kill
        if after["digest"] == new["digest"] and "export" not in kill["name"]:
            assert after["versions"] == new["versions"], kill
