"""The static embedder gives what its original gives, the same on every machine, and no text can break it."""

from __future__ import annotations

import gzip
import hashlib
import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid, Unavailable
from prowess.match.vectors.embedder import SCALE
from prowess.match.vectors.static import VECTOR_FILE, StaticEmbedder, VectorTable
from prowess.match.vectors.tokenizer import LONGEST_STRETCH, Tokenizer
from prowess.match.words import CJK_RUN

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "static_vectors.py"
SENTENCES = [
    "Resize these photos to 800 pixels",
    "scale the pictures down",
    "Write an SQL query that joins two tables",
    "How do I reset my password?",
    "請幫我翻譯這份文件",
    "übermäßig lange Wörter, naïve café",
    "emoji 🎉 and CamelCaseNames_with-punctuation (v2.1)",
]


@pytest.fixture(scope="module")
def static() -> StaticEmbedder:
    return StaticEmbedder()


@pytest.fixture(scope="module")
def script():
    pytest.importorskip("wordllama", reason="wordllama, from which the vectors are made, is not installed")
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def reference(script):
    """The tokenizer of the original, as it is."""
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers, which the original uses, is not installed")
    path = script["package_folder"]() / "tokenizers" / "l2_supercat_tokenizer_config.json"
    return tokenizers.Tokenizer.from_file(str(path))


def cosines(vectors) -> np.ndarray:
    wide = vectors.astype(np.int32)
    return wide @ wide.T / SCALE**2


def numbers_of(reference, text: str) -> list[int]:
    return reference.encode(text, add_special_tokens=False).ids


def real_texts(bench: Path) -> list[str]:
    texts: list[str] = []
    for path in sorted(bench.glob("*/*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            entries = [json.loads(line) for line in lines]
        texts += [entry.get("text") or f"{entry['name']} . {entry['description']}" for entry in entries]
    return [" ".join(text.split()) for text in texts]


def test_the_file_is_what_the_script_makes_of_the_installed_package(script):
    assert (
        hashlib.sha256(script["built"](script["package_folder"]())).digest()
        == hashlib.sha256(VECTOR_FILE.read_bytes()).digest()
    ), "run: .venv/bin/python scripts/static_vectors.py"


def test_the_name_follows_the_content_of_the_file(static):
    content = VECTOR_FILE.read_bytes()
    assert VectorTable.open(VECTOR_FILE).digest == hashlib.sha256(content[52:]).hexdigest()
    assert static.name == f"wordllama-l2-supercat+pairs-256:{VectorTable.open(VECTOR_FILE).digest[:12]}"


def test_the_licence_of_the_weights_lies_beside_them():
    notice = VECTOR_FILE.with_name("NOTICE").read_text()
    assert "MIT License" in notice
    assert "Lee Miller" in notice


def test_vectors_are_the_same_on_every_machine(static):
    assert (
        hashlib.sha256(static.embed(SENTENCES).tobytes()).hexdigest()
        == "d8e18bdeb416180cb0c2a3f76e2314ccb7e9801b6d3193de29c92e4effb8e76e"
    )


def test_cosines_are_those_of_the_original(static, script, reference):
    weights = script["original_weights"](script["package_folder"]())
    known = [sentence for sentence in SENTENCES if not CJK_RUN.search(sentence)]
    means = np.array([weights[numbers_of(reference, sentence)].mean(axis=0) for sentence in known])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    assert np.abs(cosines(static.embed(known)) - means @ means.T).max() < 0.015


def test_texts_of_characters_are_as_near_as_the_pairs_they_share(static):
    same, other, shared, none = static.embed(["翻譯這份文件", "翻譯這份文件", "翻譯那份文件", "今天天氣很好"]).astype(
        float
    )
    assert same @ other / 127**2 > 0.9
    assert 0.3 < same @ shared / 127**2 < 0.8
    assert abs(same @ none / 127**2) < 0.2


@pytest.mark.long
def test_words_are_cut_as_the_original_cuts_them_in_real_texts(static, reference, shared):
    texts = real_texts(shared("bench"))
    theirs = [encoding.ids for encoding in reference.encode_batch(texts, add_special_tokens=False)]
    different = [
        text for text, numbers in zip(texts, theirs, strict=True) if static._pieces.of_text(text, 1_000_000) != numbers
    ]
    assert len(texts) > 9_000
    assert len(different) <= len(texts) // 1_000, different


@given(st.text(alphabet=st.characters(exclude_characters="▁", exclude_categories=["Cs"])))
def test_words_are_cut_as_the_original_cuts_them_in_any_text(static, reference, text):
    text = " ".join(text.split())
    assert static._pieces.of_text(text, 1_000_000) == (numbers_of(reference, text) if text else [])


def test_like_is_nearer_than_unlike(static):
    near = cosines(static.embed(SENTENCES))
    assert near[0, 1] > near[0, 2]
    assert near[0, 1] > near[0, 3]


def test_space_of_any_kind_only_parts_words(static):
    assert (static.embed(["  one\n\ttwo\u3000 three "]) == static.embed(["one two three"])).all()


@given(st.lists(st.text(), max_size=5))
def test_a_word_alone_is_a_text_of_one_word(static, words):
    assert (static.words(words) == static.embed(words)).all()


def test_thousands_of_words_come_in_their_order(static):
    words = [f"word{number}" for number in range(600)]
    assert (static.words(words)[[0, 255, 256, 599]] == static.embed(["word0", "word255", "word256", "word599"])).all()


def test_no_words_and_no_texts_give_no_rows(static):
    assert static.words([]).shape == static.embed([]).shape == (0, 256)


def test_fewer_dimensions_are_the_first_of_all_made_of_length_one_again(static):
    short = StaticEmbedder(dimensions=64)
    rows = short.embed(SENTENCES).astype(float)
    longer = static.embed(SENTENCES)[:, :64].astype(float)
    assert short.dimensions == 64
    assert short.name != static.name
    cosine = (rows * longer).sum(axis=1) / np.linalg.norm(rows, axis=1) / np.linalg.norm(longer, axis=1)
    assert cosine.min() > 0.995
    assert (short.words(SENTENCES) == short.embed(SENTENCES)).all()


@pytest.mark.parametrize("dimensions", [0, -1, 257])
def test_dimensions_that_the_model_does_not_have_are_refused(dimensions):
    with pytest.raises(Invalid, match=str(dimensions)):
        StaticEmbedder(dimensions=dimensions)


@pytest.mark.parametrize(
    "text",
    ["\ud800 lone", "\x00\x01", "x" * 100_000, "日本語" * 40_000, "a " * 100_000, "<s></s><unk> <0x41>", "▁▁▁"],
    ids=["surrogate", "control", "long word", "no spaces", "many words", "names of special pieces", "word starts"],
)
def test_no_text_raises(static, text):
    (row,) = static.embed([text]).astype(np.int32)
    assert 0.98 < np.sqrt(row @ row) / SCALE < 1.02


def test_a_word_beyond_the_longest_stretch_is_cut_there_first(static):
    word = "ab" * LONGEST_STRETCH
    start = ("▁" + word)[:LONGEST_STRETCH]
    pieces = Tokenizer(VectorTable.open(VECTOR_FILE).pieces)
    assert pieces.of(word)[: len(pieces.of(start[1:]))] == pieces.of(start[1:])


def test_what_is_remembered_of_words_is_bounded():
    pieces = Tokenizer(["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁a"])
    for number in range(150_000):
        pieces.of(str(number))
    assert len(pieces._words) <= 100_000
    assert pieces.of("a") == (259,)
    assert pieces.of("b") == (*(3 + byte for byte in "▁".encode()), 3 + ord("b"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda content: content[:20],
        lambda content: content[:-1],
        lambda content: b"NOTPROWE" + content[8:],
        lambda content: content.replace(b"\n", b" ", 1),
    ],
    ids=["empty", "only a beginning", "cut", "another file", "a piece too few"],
)
def test_a_damaged_file_is_unavailable_with_a_hint(tmp_path, damage):
    path = tmp_path / "static.bin"
    path.write_bytes(damage(VECTOR_FILE.read_bytes()))
    with pytest.raises(Unavailable, match=r"static\.bin") as caught:
        StaticEmbedder(file=path)
    assert caught.value.hint


def test_a_missing_file_is_unavailable(tmp_path):
    with pytest.raises(Unavailable, match="missing"):
        StaticEmbedder(file=tmp_path / "static.bin")
