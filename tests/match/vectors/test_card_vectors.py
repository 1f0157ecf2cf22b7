"""The store of card vectors: every card computed once, whoever asks, and nothing that lies on disk can break it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from prowess.errors import Unavailable
from prowess.match.vectors import card_vectors as module
from prowess.match.vectors import vector_table as table_module
from prowess.match.vectors.card_vectors import KEPT_DAYS, MAX_FILES, CardVectors
from prowess.match.vectors.embedder import embed_cards
from prowess.match.vectors.vector_table import build_table, current_day, merge_tables, sign_codes, write_table

from .vector_writer import DIMENSIONS, HashEmbedder, are_right, card, keys_of, right_rows

WRITER = Path(__file__).with_name("vector_writer.py")
CARDS = [card(number) for number in range(20)]


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.vectors"))


def filled(folder: Path, cards: list[list[str]] = CARDS) -> CardVectors:
    vectors = CardVectors(folder, HashEmbedder())
    vectors.add(cards)
    return vectors


def test_a_card_has_a_row_for_its_whole_text_and_one_for_its_name_with_each_part(tmp_path: Path) -> None:
    rows = filled(tmp_path).find(keys_of(CARDS))
    assert rows.count.tolist() == [len(one) for one in CARDS]
    found, starts = rows.take(np.array([7, 2]))
    assert np.array_equal(found[starts[0] : starts[1]], right_rows(CARDS[7]))
    assert np.array_equal(found[starts[1] : starts[2]], right_rows(CARDS[2]))


def test_cards_that_are_not_there_are_missing_and_a_document_without_a_card_is_not(tmp_path: Path) -> None:
    keys = np.concatenate([keys_of([card(1), card(99)]), np.zeros((1, 2), np.uint64)])
    rows = filled(tmp_path).find(keys)
    assert rows.missing.tolist() == [False, True, False]
    assert (rows.first[1:].tolist(), rows.count[1:].tolist(), rows.table[1:].tolist()) == ([-1, -1], [0, 0], [-1, -1])
    found, starts = rows.take(np.array([1, 0, 2]))
    assert starts.tolist() == [0, 0, len(card(1)), len(card(1))]
    assert np.array_equal(found, right_rows(card(1)))


def test_each_card_is_computed_once_for_all_processes(tmp_path: Path) -> None:
    filled(tmp_path)
    embedder = HashEmbedder()
    assert CardVectors(tmp_path, embedder).add([*CARDS, *CARDS, card(50), card(50), []]) == 1
    assert embedder.texts == len(card(50))


def test_what_another_process_adds_is_found_without_opening_again(tmp_path: Path) -> None:
    reader = CardVectors(tmp_path, HashEmbedder())
    assert reader.find(keys_of(CARDS)).missing.all()
    filled(tmp_path)
    assert are_right(rows := reader.find(keys_of(CARDS)), CARDS)
    assert not rows.missing.any()


def test_tables_are_the_same_object_until_something_changes(tmp_path: Path) -> None:
    vectors = filled(tmp_path)
    before = vectors.tables()
    assert vectors.tables() is before
    filled(tmp_path, [card(70)])
    assert vectors.tables() is not before


def test_embedders_do_not_share_vectors(tmp_path: Path) -> None:
    filled(tmp_path)
    other = CardVectors(tmp_path, HashEmbedder("hash/1 (96"))
    assert other.find(keys_of(CARDS)).missing.all()


def test_files_are_merged_when_there_are_many_and_nothing_is_lost(tmp_path: Path) -> None:
    vectors = CardVectors(tmp_path, HashEmbedder())
    for number in range(60):
        vectors.add([card(number)])
        assert len(files(tmp_path)) <= MAX_FILES
    cards = [card(number) for number in range(60)]
    rows = CardVectors(tmp_path, HashEmbedder()).find(keys_of(cards))
    assert are_right(rows, cards)
    assert not rows.missing.any()


def test_merging_copies_each_card_only_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = []

    def counted(tables, masks=None):
        merged = merge_tables(tables, masks)
        copied.append(merged.size)
        return merged

    monkeypatch.setattr(module, "merge_tables", counted)
    vectors = CardVectors(tmp_path, HashEmbedder())
    for number in range(400):
        vectors.add([card(number)])
    assert sum(copied) < 400 * 8


def test_codes_are_the_signs_of_each_row(tmp_path: Path) -> None:
    filled(tmp_path, CARDS[:9])
    filled(tmp_path)
    keys = np.concatenate([keys_of(CARDS), keys_of([card(99)])])
    rows = CardVectors(tmp_path, HashEmbedder()).find(keys)
    assert len(rows.tables) == 2
    assert rows.codes.shape == (2, 21)
    for place, one in enumerate(CARDS):
        assert np.array_equal(rows.codes[:, place], sign_codes(right_rows(one))[:, 0])
    assert not rows.codes[:, 20].any()


@pytest.fixture
def unmapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the rows of every file instead of mapping them, as of a large one."""
    monkeypatch.setattr(table_module, "UNMAPPED_BYTES", 0)


@pytest.mark.usefixtures("unmapped")
def test_rows_and_codes_that_are_read_from_files_are_those_that_were_written(tmp_path: Path) -> None:
    filled(tmp_path, CARDS[:9])
    filled(tmp_path)
    rows = CardVectors(tmp_path, HashEmbedder()).find(keys_of(CARDS))
    assert [table.reader is not None for table in rows.tables] == [True, True]
    assert are_right(rows, CARDS)
    assert np.array_equal(rows.codes, np.stack([sign_codes(right_rows(one))[:, 0] for one in CARDS], axis=1))
    assert rows.take(np.array([], np.int64))[0].shape == (0, DIMENSIONS)


@pytest.mark.usefixtures("unmapped")
def test_rows_are_read_from_a_file_that_another_process_has_removed(tmp_path: Path) -> None:
    filled(tmp_path)
    rows = CardVectors(tmp_path, HashEmbedder()).find(keys_of(CARDS))
    for path in files(tmp_path):
        path.unlink()
    assert are_right(rows, CARDS)


@pytest.mark.usefixtures("unmapped")
def test_a_file_that_was_cut_off_after_it_was_opened_is_an_error_and_not_other_rows(tmp_path: Path) -> None:
    filled(tmp_path)
    rows = CardVectors(tmp_path, HashEmbedder()).find(keys_of(CARDS))
    os.truncate(files(tmp_path)[0], 4_096)
    with pytest.raises(ValueError, match="reshape"):
        rows.take(np.arange(len(CARDS)))


@pytest.mark.usefixtures("unmapped")
def test_a_file_is_closed_when_its_table_is_not_used_any_more(tmp_path: Path) -> None:
    filled(tmp_path)
    vectors = CardVectors(tmp_path, HashEmbedder())
    (path,) = files(tmp_path)
    rows = vectors.find(keys_of(CARDS))
    assert is_open(path)
    del rows, vectors
    assert not is_open(path)


def is_open(path: Path) -> bool:
    return any(link.exists() and link.samefile(path) for link in Path("/dev/fd").iterdir())


def test_a_code_has_a_bit_for_each_dimension_in_order() -> None:
    rows = np.full((1, DIMENSIONS), -1, np.int8)
    rows[0, [0, 3, 64]] = 1
    assert sign_codes(rows).tolist() == [[0b1001], [1]]


def test_keys_with_the_same_first_half_are_told_apart() -> None:
    keys = np.array([[5, 9], [5, 1], [5, 4], [3, 4]], np.uint64)
    table = build_table(keys, [np.full((1, DIMENSIONS), number, np.int8) for number in range(4)])
    found = table.find(np.concatenate([keys, np.array([[5, 7], [9, 9], [4, 1]], np.uint64)]))
    assert table.rows[found[:4], 0].tolist() == [0, 1, 2, 3]
    assert found[4:].tolist() == [-1, -1, -1]


def test_without_a_folder_vectors_are_kept_in_memory() -> None:
    vectors = CardVectors(None, HashEmbedder())
    for one in CARDS:
        vectors.add([one])
    assert are_right(rows := vectors.find(keys_of(CARDS)), CARDS)
    assert not rows.missing.any()


def test_a_copy_in_memory_begins_with_the_same_vectors_and_keeps_nothing_on_disk(tmp_path: Path) -> None:
    vectors = filled(tmp_path)
    copy = vectors.in_memory()
    assert copy.add([*CARDS, card(90)]) == 1
    assert not copy.find(keys_of([*CARDS, card(90)])).missing.any()
    assert vectors.find(keys_of([card(90)])).missing.all()


def test_a_copy_in_memory_copies_no_rows(tmp_path: Path) -> None:
    vectors = filled(tmp_path)
    copy = vectors.in_memory()
    for number in range(100, 130):
        copy.add([card(number)])
    assert copy.tables()[0] is vectors.tables()[0]
    assert len(copy.tables()) <= 1 + MAX_FILES


def test_an_embedder_that_does_not_answer_leaves_everything_as_it_was(tmp_path: Path) -> None:
    vectors = filled(tmp_path)

    class Away(HashEmbedder):
        def embed(self, texts):  # noqa: ARG002
            raise Unavailable("away")

    with pytest.raises(Unavailable):
        CardVectors(tmp_path, Away()).add([card(80)])
    assert vectors.find(keys_of([*CARDS, card(80)])).missing.sum() == 1


def test_where_nothing_can_be_written_vectors_are_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    vectors = filled(tmp_path / "file")
    assert are_right(rows := vectors.find(keys_of(CARDS)), CARDS)
    assert not rows.missing.any()


def test_a_full_disk_is_no_error_and_leaves_no_half_file(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        f"sys.path.insert(0, {str(WRITER.parent)!r})\n"
        "from vector_writer import *\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))\n"
        "cards = [card(number) for number in range(9)]\n"
        f"vectors = CardVectors(Path({str(tmp_path)!r}), HashEmbedder())\n"
        "vectors.add(cards)\n"
        "assert not vectors.find(keys_of(cards)).missing.any()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    path.unlink()
    if how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(content[:-1])
    elif how == "longer":
        path.write_bytes(content + b"\0")
    elif how == "something else":
        path.write_bytes(b"What a nice day.\n" * 100)
    elif how == "another embedder":
        other = HashEmbedder("other")
        write_table(path, build_table(keys_of(CARDS), embed_cards(other, CARDS)), other.name)
    elif how == "other dimensions":
        write_table(path, build_table(keys_of(CARDS), [np.ones((1, 32), np.int8)] * len(CARDS)), HashEmbedder().name)
    elif how == "link":
        target = path.with_name("elsewhere")
        target.write_bytes(content)
        path.symlink_to(target)
    elif how == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()


DAMAGES = ("empty", "cut", "longer", "something else", "another embedder", "other dimensions", "link", "pipe", "folder")


@pytest.mark.parametrize("how", DAMAGES)
def test_a_file_that_is_not_ours_is_skipped_and_its_cards_are_computed_again(tmp_path: Path, how: str) -> None:
    filled(tmp_path)
    damage(files(tmp_path)[0], how)
    vectors = CardVectors(tmp_path, HashEmbedder())
    assert vectors.find(keys_of(CARDS)).missing.all()
    assert vectors.add(CARDS) == len(CARDS)
    assert are_right(rows := CardVectors(tmp_path, HashEmbedder()).find(keys_of(CARDS)), CARDS)
    assert not rows.missing.any()


@pytest.mark.parametrize("seed", range(30))
def test_a_changed_byte_anywhere_in_a_small_file_is_noticed(tmp_path: Path, seed: int) -> None:
    filled(tmp_path)
    path = files(tmp_path)[0]
    content = bytearray(path.read_bytes())
    content[random.Random(seed).randrange(len(content))] ^= 1 << seed % 8
    path.write_bytes(content)
    rows = CardVectors(tmp_path, HashEmbedder()).find(keys_of(CARDS))
    assert are_right(rows, CARDS)


def test_a_damaged_file_is_removed_once_its_cards_are_there_again(tmp_path: Path) -> None:
    filled(tmp_path)
    damage(files(tmp_path)[0], "cut")
    filled(tmp_path)
    assert len(files(tmp_path)) == 1


def test_damage_in_the_middle_of_a_large_file_is_not_merged(tmp_path: Path) -> None:
    cards = [card(number) for number in range(9_000)]
    filled(tmp_path, cards)
    path = files(tmp_path)[0]
    content = bytearray(path.read_bytes())
    place = len(content) // 2
    content[place : place + 4096] = os.urandom(4096)
    path.write_bytes(content)
    vectors = CardVectors(tmp_path, HashEmbedder())
    assert not vectors.find(keys_of(cards)).missing.any()
    vectors.drop_unused(keys_of(cards[:1]))
    age(tmp_path)
    vectors.drop_unused(keys_of(cards[:1]))
    assert CardVectors(tmp_path, HashEmbedder()).find(keys_of(cards)).missing.all()


def test_a_linked_folder_is_neither_read_nor_written(tmp_path: Path) -> None:
    real, linked = tmp_path / "real", tmp_path / "linked"
    filled(real)
    before = len(files(real))
    linked.symlink_to(real)
    vectors = CardVectors(linked, HashEmbedder())
    assert vectors.find(keys_of(CARDS)).missing.all()
    vectors.add([card(60)])
    assert not vectors.find(keys_of([card(60)])).missing.any()
    assert len(files(real)) == before


def age(folder: Path, days: int = KEPT_DAYS + 1) -> None:
    """Let all files say that they were written some days ago."""
    vectors = CardVectors(folder, HashEmbedder())
    tables = vectors.tables()
    old = files(folder)
    for number, table in enumerate(tables):
        days_ago = np.full(table.size, current_day() - days, np.uint16)
        aged = type(table)(
            keys=table.keys, starts=table.starts, days=days_ago, rows=table.rows, codes=table.codes, check=table.check
        )
        write_table(old[0].with_name(f"aged{number}.vectors"), aged, HashEmbedder().name)
    for path in old:
        path.unlink()


def test_unused_cards_are_dropped_after_a_month_and_used_ones_are_not(tmp_path: Path) -> None:
    filled(tmp_path)
    age(tmp_path)
    vectors = CardVectors(tmp_path, HashEmbedder())
    vectors.drop_unused(keys_of(CARDS[:5]))
    rows = vectors.find(keys_of(CARDS))
    assert rows.missing.tolist() == [False] * 5 + [True] * 15
    assert are_right(rows, CARDS)
    assert len(files(tmp_path)) == 1


def test_unused_cards_stay_for_a_month(tmp_path: Path) -> None:
    vectors = filled(tmp_path)
    age(tmp_path, KEPT_DAYS - 1)
    vectors.drop_unused(keys_of([]))
    assert not vectors.find(keys_of(CARDS)).missing.any()


def test_a_few_unused_cards_are_not_worth_writing_a_file(tmp_path: Path) -> None:
    filled(tmp_path)
    age(tmp_path)
    before = files(tmp_path)
    CardVectors(tmp_path, HashEmbedder()).drop_unused(keys_of(CARDS[1:]))
    assert files(tmp_path) == before


def test_when_nothing_is_used_any_more_no_file_is_left(tmp_path: Path) -> None:
    filled(tmp_path)
    age(tmp_path)
    vectors = CardVectors(tmp_path, HashEmbedder())
    vectors.drop_unused(keys_of([]))
    assert files(tmp_path) == []
    assert vectors.find(keys_of(CARDS)).missing.all()


def test_a_writer_killed_before_any_step_loses_nothing_that_was_there(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(WRITER), "points", str(tmp_path)], capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert sum(line["killed"] for line in lines) >= 20
    for line in lines:
        assert (line["lost"], line["right"], line["missing"]) == (0, True, 0), line
        assert line["new"] == 2 or (line["killed"] and line["new"] == 0), line
        assert line["files"] <= MAX_FILES, line


def test_writers_that_add_at_once_lose_nothing(tmp_path: Path) -> None:
    ranges = [(0, 60), (30, 90), (60, 120)]
    writers = [
        subprocess.Popen([sys.executable, str(WRITER), "add", str(tmp_path), str(first), str(last)])
        for first, last in ranges
    ]
    cards = [card(number) for number in range(120)]
    reader = CardVectors(tmp_path, HashEmbedder())
    while any(writer.poll() is None for writer in writers):
        assert are_right(reader.find(keys_of(cards)), cards)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    rows = reader.find(keys_of(cards))
    assert are_right(rows, cards)
    assert not rows.missing.any()


def test_threads_share_one_store(tmp_path: Path) -> None:
    vectors = CardVectors(tmp_path, HashEmbedder())
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: vectors.add([card(number % 30)]), range(60)))
    cards = [card(number) for number in range(30)]
    assert are_right(rows := vectors.find(keys_of(cards)), cards)
    assert not rows.missing.any()


def test_vectors_that_ship_are_used_if_they_are_of_this_embedder(tmp_path: Path) -> None:
    shipped = tmp_path / "shipped"
    write_table(shipped, build_table(keys_of(CARDS), embed_cards(HashEmbedder(), CARDS)), HashEmbedder().name)
    vectors = CardVectors(tmp_path / "own", HashEmbedder(), shipped=[shipped, tmp_path / "missing"])
    assert are_right(rows := vectors.find(keys_of(CARDS)), CARDS)
    assert not rows.missing.any()
    vectors.add([card(40)])
    assert not vectors.find(keys_of([*CARDS, card(40)])).missing.any()
    assert CardVectors(None, HashEmbedder("other"), shipped=[shipped]).find(keys_of(CARDS)).missing.all()


def test_an_embedder_that_embeds_parts_in_one_pass_is_asked_for_that() -> None:
    class Fast(HashEmbedder):
        def embed_parts(self, cards):
            return [np.full((len(one), DIMENSIONS), len(one), np.int8) for one in cards]

    assert [rows[0, 0] for rows in embed_cards(Fast(), CARDS)] == [len(one) for one in CARDS]
    assert [len(rows) for rows in embed_cards(HashEmbedder(), CARDS)] == [len(one) for one in CARDS]
    assert embed_cards(HashEmbedder(), []) == []
