"""The embedder that the settings name: which one it is, what is refused, and what happens where it is away."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from prowess.catalog.catalog import Catalog
from prowess.catalog.memory_store import MemoryStore
from prowess.engine.matcher import open_embedder, open_matcher
from prowess.errors import Invalid, Unavailable
from prowess.match.matcher import Matcher
from prowess.match.vectors.encoder import default_encoder
from prowess.settings import Settings, read_settings
from prowess.skill.package import Package

KEY = "sk-hunter2-hunter2"
TEXT = "---\nname: invoice-reader\ndescription: Reads supplier invoices and extracts totals and due dates.\n---\nRead it.\n"
MESSAGE = "extract the totals of these supplier invoices"


def settings(tmp_path: Path, **variables: str) -> Settings:
    named = {f"PROWESS_{name.upper()}": value for name, value in variables.items()}
    alone = {"HOME": str(tmp_path / "home"), "PROWESS_SYSTEM_SKILLS": "off"}
    return read_settings({**alone, **named}, workspace=tmp_path)


# Which one it is


@pytest.mark.parametrize("variables", [{}, {"embedder": ""}, {"embedder": "default"}])
def test_the_vectors_that_ship_with_prowess_are_the_default(tmp_path: Path, variables: dict[str, str]) -> None:
    assert open_embedder(settings(tmp_path, **variables)) is default_encoder()


def test_a_sentence_model_is_named_by_its_folder(
    sentence_model: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sentence_model()
    chosen = open_embedder(settings(tmp_path, embedder=f"onnx:{folder}"))
    assert chosen.name.startswith("onnx:")
    assert chosen.dimensions == 3
    monkeypatch.setenv("HOME", str(folder.parent))
    assert open_embedder(settings(tmp_path, embedder=f"onnx:~/{folder.name}")).name == chosen.name


def test_a_server_is_named_by_its_model_and_gets_the_key(embedding_server, tmp_path: Path) -> None:
    chosen = settings(tmp_path, embedder="endpoint:small:v2", embedder_url=embedding_server.url, embedder_key=KEY)
    embedder = open_embedder(chosen)
    assert embedder.embed(["cats"]).shape == (1, 3)
    assert embedder.name == f"endpoint:{embedding_server.url}:small:v2"
    assert embedding_server.requests[0]["model"] == "small:v2"
    assert embedding_server.requests[0]["headers"]["Authorization"] == f"Bearer {KEY}"


def test_a_model_to_download_is_asked_of_fastembed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Path | None]] = []

    def downloaded(model: str, *, cache: Path | None = None) -> object:
        asked.append((model, cache))
        return default_encoder()

    from prowess.match.vectors.onnx import OnnxEmbedder

    monkeypatch.setattr(OnnxEmbedder, "downloaded", downloaded)
    open_embedder(settings(tmp_path, embedder="fastembed:some/model"))
    assert asked == [("some/model", tmp_path / "home/.prowess/cache/models")]


def test_an_embedder_is_opened_once_for_the_same_settings(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/v1"
    one, two = (open_embedder(settings(tmp_path, embedder="endpoint:m", embedder_url=url)) for _ in range(2))
    assert one is two
    assert open_embedder(settings(tmp_path, embedder="endpoint:n", embedder_url=url)) is not one


# What is refused


@pytest.mark.parametrize(
    "named", ["nonsense", "onnx", "onnx:", "fastembed:", "endpoint:", "endpoint:m", "DEFAULT", "default:x", "x:y"]
)
def test_what_names_no_embedder_is_refused_with_what_would(tmp_path: Path, named: str) -> None:
    with pytest.raises(Invalid, match="for PROWESS_EMBEDDER") as refused:
        open_embedder(settings(tmp_path, embedder=named, embedder_key=KEY))
    assert named in refused.value.message
    for form in ("default", "none", "onnx:FOLDER", "fastembed:NAME", "endpoint:MODEL", "PROWESS_EMBEDDER_URL"):
        assert form in refused.value.hint


@pytest.mark.parametrize("folder", ["/nowhere", "~nobody-of-that-name/model"])
def test_a_model_that_is_not_there_is_unavailable(tmp_path: Path, folder: str) -> None:
    with pytest.raises(Unavailable):
        open_embedder(settings(tmp_path, embedder=f"onnx:{folder}"))


# The key


def test_the_key_shows_up_nowhere(embedding_server, tmp_path: Path) -> None:
    def refuse(handler, _texts: list[str]) -> None:
        handler.send_response(401)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    embedding_server.script = [refuse]
    chosen = settings(tmp_path, embedder="endpoint:m", embedder_url=embedding_server.url, embedder_key=KEY)
    embedder = open_embedder(chosen)
    with pytest.raises(Unavailable) as away:
        embedder.embed(["cats"])
    shown = [repr(chosen), str(chosen), repr(embedder), repr(away.value), away.value.message, away.value.hint]
    assert KEY not in "".join([*shown, embedder.name])


@pytest.mark.parametrize(
    ("url", "key"),
    [("http://far.example/v1", KEY), ("https://far.example/v1", KEY + "\n"), ("ftp://far.example", KEY), ("far", KEY)],
)
def test_an_address_or_key_that_cannot_be_right_is_refused_without_the_key(tmp_path: Path, url: str, key: str) -> None:
    with pytest.raises(Invalid) as refused:
        open_embedder(settings(tmp_path, embedder="endpoint:m", embedder_url=url, embedder_key=key))
    assert refused.value.hint
    assert KEY not in repr(refused.value) + refused.value.message + refused.value.hint


# Where it is away


class Always:
    """Places in which something may have changed at any time."""

    def record(self) -> bytes:
        return b""

    def holds(self, record: bytes) -> bool:  # noqa: ARG002
        return False

    def shared(self):
        return True


class Away:
    """An embedder whose server never answers."""

    name = "away-3"
    dimensions = 3

    def embed(self, texts: Sequence[str]) -> np.ndarray:  # noqa: ARG002
        raise Unavailable("the server does not answer")


def nothing() -> Away:
    raise Unavailable("the library is not installed")


@pytest.mark.parametrize("embedder", [Away, nothing])
def test_matching_goes_on_without_an_embedder_that_is_away(
    embedder: Callable[[], Away], caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    store.save(Package.of_texts("invoice-reader", {"SKILL.md": TEXT}))
    catalog = Catalog(lambda: [store])
    with caplog.at_level(logging.WARNING), Matcher(lambda: catalog, Always(), embedder=embedder) as matcher:
        assert [found.slug for found in matcher.match(MESSAGE)] == ["invoice-reader"]
    assert "skills are matched by words only: the " in caplog.text


def test_a_workspace_is_matched_while_the_embedder_of_its_settings_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    skill = tmp_path / ".agents/skills/invoice-reader"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(TEXT)
    chosen = settings(tmp_path, embedder=f"onnx:{tmp_path / 'nowhere'}")
    for _ in range(2):
        with caplog.at_level(logging.WARNING), open_matcher(settings=chosen) as matcher:
            assert [found.slug for found in matcher.match(MESSAGE)] == ["invoice-reader"]
    assert "The embedder is unavailable" in caplog.text


def test_skills_that_are_added_while_the_server_is_away_are_found_by_their_words(
    embedding_server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(handler, _texts: list[str]) -> None:
        handler.send_response(403)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    folder = tmp_path / ".agents/skills"
    for name in ("sql-tuner", "invoice-reader"):
        (folder / name).mkdir(parents=True)
    tuner = "---\nname: sql-tuner\ndescription: Explains slow database queries.\n---\nDo it.\n"
    (folder / "sql-tuner/SKILL.md").write_text(tuner)
    chosen = settings(tmp_path, embedder="endpoint:late", embedder_url=embedding_server.url)
    with caplog.at_level(logging.WARNING), open_matcher(settings=chosen) as matcher:
        assert matcher.index().size == 1
        (folder / "invoice-reader/SKILL.md").write_text(TEXT)
        embedding_server.script = [fail] * 99
        matcher.look_again()
        assert [found.slug for found in matcher.match(MESSAGE)] == ["invoice-reader"]
