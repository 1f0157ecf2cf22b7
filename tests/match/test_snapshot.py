"""The index on disk: given back as it was kept, or not at all."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from prowess.catalog.catalog import CatalogChanges
from prowess.catalog.store import SearchDocument
from prowess.match import snapshot as module
from prowess.match.index import Index
from prowess.match.matcher import Matcher
from prowess.match.ranking import rank
from prowess.match.snapshot import SavedIndex, Snapshot
from prowess.match.vectors.embedder import Embedder, WordsOnly
from prowess.match.vectors.encoder import default_encoder

MESSAGE = "extract the totals from this supplier invoice"
SMALL = (
    SearchDocument(
        slug="invoice-reader", description="Extracts totals from supplier invoices.", digest="1", tags=("pdf",)
    ),
    SearchDocument(slug="sql-tuner", description="Explains slow queries.", digest="2", patterns=("slow",)),
)


class Fixed:
    """A catalog in which nothing changes; counts how often all of it is read."""

    def __init__(self, documents: Collection[SearchDocument] = SMALL) -> None:
        self.given = list(documents)
        self.read = 0

    def changes(self, since: Mapping[str, str]) -> CatalogChanges:
        return CatalogChanges(positions={"one": "1"}, slugs=frozenset() if since == {"one": "1"} else None)

    def documents(
        self,
        slugs: Collection[str] | None = None,
        *,
        away: Callable[[str], None] = lambda _: None,  # noqa: ARG002
    ) -> Iterator[SearchDocument]:
        self.read += slugs is None
        return iter([one for one in self.given if slugs is None or one.slug in slugs])

    def served(self) -> dict[str, tuple[str, str]]:
        return {one.slug: (one.scope, one.digest) for one in self.given}

    def record(self) -> bytes:
        return b"as it is"

    def holds(self, record: bytes) -> bool:
        return record == b"as it is"

    def shared(self):
        return True


def answered(folder: Path, catalog: Fixed | None = None, embedder: Embedder | None = None) -> int:
    """Ask a new matcher over a snapshot folder; how often it read the whole catalog for a right answer."""
    catalog = catalog or Fixed()
    matcher = Matcher(
        lambda: catalog, catalog, snapshot=Snapshot(folder), embedder=lambda: embedder or default_encoder()
    )
    expected = rank(Index.build(catalog.given, embedder), MESSAGE, limit=10)
    assert matcher.rank(MESSAGE) == expected
    assert matcher.match("it is so slow")[0].slug == "sql-tuner"
    return catalog.read


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a snapshot, to be copied."""
    folder = tmp_path_factory.mktemp("good")
    assert answered(folder) == 1
    return folder


@pytest.fixture
def kept(good: Path, tmp_path: Path) -> Path:
    return shutil.copytree(good, tmp_path / "kept")


def segment_of(folder: Path) -> Path:
    return next(folder.glob("*.segment"))


def test_what_was_saved_is_loaded_and_the_catalog_is_not_read(kept):
    assert answered(kept) == 0
    assert answered(kept) == 0


def test_the_folder_is_for_its_owner_alone(tmp_path):
    folder = tmp_path / "home/cache/match/x"
    assert answered(folder) == 1
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("name", ["current", "segment"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_off_is_replaced(kept, name, share):
    path = kept / "current" if name == "current" else segment_of(kept)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    assert answered(kept) == 1
    assert answered(kept) == 0


@pytest.mark.parametrize("name", ["current", "segment"])
def test_a_file_with_more_than_was_written_is_replaced(kept, name):
    path = kept / "current" if name == "current" else segment_of(kept)
    path.write_bytes(path.read_bytes() + b"more")
    assert answered(kept) == 1
    assert answered(kept) == 0


def test_no_flipped_bit_goes_unnoticed_and_none_raises(kept):
    before = Snapshot(kept).load(default_encoder())
    assert before is not None
    expected = rank(before.index, MESSAGE, limit=10)
    for path in (kept / "current", segment_of(kept)):
        content = path.read_bytes()
        places = {*range(min(len(content), 200)), *range(0, len(content), max(1, len(content) // 300))}
        for place in sorted(places):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
            loaded = Snapshot(kept).load(default_encoder())
            # Between header and arrays lie bytes that nobody reads.
            assert loaded is None or rank(loaded.index, MESSAGE, limit=10) == expected
        path.write_bytes(content)
    assert answered(kept) == 0


@pytest.mark.parametrize(
    "garbage", [b"", b"\n", b"\0" * 5_000, b"{}", b"0\n", b"1\n{}\n", b"9" * 5_000, random.Random(3).randbytes(4_096)]
)
@pytest.mark.parametrize("name", ["current", "segment"])
def test_garbage_is_replaced(kept, name, garbage):
    path = kept / "current" if name == "current" else segment_of(kept)
    path.write_bytes(garbage)
    assert answered(kept) == 1
    assert answered(kept) == 0


def told(folder: Path, change: Callable[[dict], object]) -> None:
    """Rewrite what the snapshot tells of itself, with a right checksum."""
    _, _, rest = (folder / "current").read_bytes().partition(b"\n")
    head, _, record = rest.partition(b"\n")
    value = json.loads(head)
    changed = change(value)
    rest = json.dumps(value if changed is None else changed).encode() + b"\n" + record
    (folder / "current").write_bytes(str(zlib.crc32(rest)).encode() + b"\n" + rest)


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.update(format=value["format"] + 1),
        lambda value: value.update(format="1"),
        lambda value: value.update(embedder="another"),
        lambda value: value.update(reader="0"),
        lambda value: value.pop("reader") and None,
        lambda value: value.update(parts=[{"file": "absent.segment", "gone": []}]),
        lambda value: value.update(parts=[{"file": "../../etc/passwd", "gone": []}]),
        lambda value: value["parts"][0].update(gone=[10**9]),
        lambda value: value["parts"][0].update(gone=["x"]),
        lambda value: value.update(parts=7),
        lambda value: value.pop("parts") and None,
        lambda value: value.pop("positions") and None,
        lambda _: [],
        lambda _: 7,
    ],
)
def test_what_is_of_another_version_or_makes_no_sense_is_replaced(kept, change):
    told(kept, change)
    assert answered(kept) == 1
    assert answered(kept) == 0


def test_a_segment_that_is_gone_is_written_again(kept):
    segment_of(kept).unlink()
    assert answered(kept) == 1
    assert answered(kept) == 0


def test_another_embedder_has_another_index(kept):
    small = WordsOnly()
    assert answered(kept, embedder=small) == 1
    assert answered(kept, embedder=small) == 0
    assert answered(kept) == 1


def test_a_newer_format_replaces_an_older_one(kept, monkeypatch):
    monkeypatch.setattr(module, "SNAPSHOT_FORMAT", module.SNAPSHOT_FORMAT + 1)
    assert answered(kept) == 1
    assert answered(kept) == 0


def test_what_a_killed_writer_left_is_cleared_away(kept):
    (kept / "0123456789abcdef.segment").write_bytes(b"half")
    (kept / "current.99999.tmp").write_bytes(b"half")
    (kept / "0123456789abcdef.segment.99999.tmp").write_bytes(b"half")
    (kept / "current").unlink()
    assert answered(kept) == 1
    assert len(list(kept.iterdir())) == 2


def test_a_folder_in_the_place_of_a_file_is_no_error(kept):
    (kept / "current").unlink()
    (kept / "current").mkdir()
    assert answered(kept) == 1


@contextmanager
def without_privilege() -> Iterator[None]:
    """The rights of an ordinary user, also for root, who may read and write everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that an ordinary user can reach."""
    default_encoder()
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.mark.parametrize("mode", [0o000, 0o500])
def test_a_folder_that_cannot_be_written_only_costs_time(open_place, mode):
    folder = open_place / "cache"
    folder.mkdir(mode=mode)
    with without_privilege():
        assert answered(folder / "match") == 1
        assert answered(folder / "match") == 1
    folder.chmod(0o700)
    assert list(folder.iterdir()) == []


def test_a_snapshot_that_cannot_be_read_only_costs_time(good, open_place):
    folder = shutil.copytree(good, open_place / "kept")
    for path in (folder, *folder.iterdir()):
        path.chmod(0)
    with without_privilege():
        assert answered(folder) == 1


def test_a_file_in_the_place_of_the_folder_only_costs_time(tmp_path):
    (tmp_path / "cache").write_text("here first")
    assert answered(tmp_path / "cache") == 1
    assert answered(tmp_path / "cache/match") == 1


def test_a_full_disk_only_costs_time(kept, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (kept / "current").write_bytes(b"")
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_segment", full)
        assert answered(kept) == 1
    assert answered(kept) == 1
    assert answered(kept) == 0


def test_while_another_writes_nothing_is_saved_and_nothing_waits(kept):
    from prowess.storage.files.folder_lock import lock_folder

    index = Index.build(SMALL[:1])
    with lock_folder(kept):
        assert not Snapshot(kept).save(SavedIndex(index=index, positions={}, record=b""))
    assert Snapshot(kept).save(SavedIndex(index=index, positions={}, record=b""))


def test_a_change_writes_what_changed_and_leaves_the_rest(tmp_path, office):
    snapshot = Snapshot(tmp_path)
    index = Index.build(office)
    assert snapshot.save(SavedIndex(index=index, positions={}, record=b""))
    first = segment_of(tmp_path)
    stamp = first.stat().st_mtime_ns
    newer = index.updated([SearchDocument(slug="new", description="New words.")], ["sql-tuner"])
    assert snapshot.save(SavedIndex(index=newer, positions={}, record=b""))
    assert first.stat().st_mtime_ns == stamp
    assert len(list(tmp_path.glob("*.segment"))) == 2
    loaded = Snapshot(tmp_path).load(default_encoder())
    assert loaded is not None
    assert loaded.index.digest == newer.digest
    assert [one.slug for one in rank(loaded.index, "new words", limit=1)] == ["new"]


def test_who_reads_an_older_index_keeps_it(tmp_path, office):
    assert Snapshot(tmp_path).save(SavedIndex(index=Index.build(office), positions={}, record=b""))
    older = Snapshot(tmp_path).load(default_encoder())
    assert older is not None
    expected = rank(older.index, MESSAGE, limit=10)
    assert Snapshot(tmp_path).save(SavedIndex(index=Index.build(SMALL[1:]), positions={}, record=b""))
    assert len(list(tmp_path.glob("*.segment"))) == 1
    assert rank(older.index, MESSAGE, limit=10) == expected
