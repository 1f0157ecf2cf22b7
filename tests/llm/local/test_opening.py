"""Local models that cannot be served: each is said so, with what to do."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from prowess.errors import Unavailable
from prowess.llm.local import open_local
from prowess.llm.local_server import LocalServer, get_server
from prowess.llm.model import Message, ModelConfig, Request

HELLO = Request(messages=(Message(role="user", text="Hello."),), max_tokens=8)


def test_a_model_that_is_not_fetched_names_the_command_that_fetches_it(tmp_path):
    with pytest.raises(Unavailable, match="not downloaded") as caught:
        open_local("smollm2", ModelConfig(home=tmp_path))
    assert "`prowess model fetch smollm2`" in caught.value.hint


def test_a_path_without_a_file_is_said_so(tmp_path):
    with pytest.raises(Unavailable, match=r"Model file .*nothing\.gguf' not found") as caught:
        open_local(str(tmp_path / "nothing.gguf"), ModelConfig(home=tmp_path))
    assert "GGUF" in caught.value.hint


@pytest.mark.parametrize("library", ["xllamacpp", "pydantic_ai", "openai"])
def test_a_missing_library_is_said_with_the_line_that_installs_it(tmp_path, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(Unavailable, match=library) as caught:
        open_local("smollm2", ModelConfig(home=tmp_path))
    assert "pip install 'prowess[local]'" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a GGUF model"),
        (b"PK\x03\x04", "is not a GGUF model"),
        (b"GGUF and then nothing", "failed to start"),
    ],
)
def test_a_file_that_is_no_model_is_said_so_when_it_is_asked(tmp_path, content, words):
    file = tmp_path / "strange.gguf"
    file.write_bytes(content)
    model = open_local(str(file), ModelConfig(home=tmp_path))
    with pytest.raises(Unavailable, match=words):
        asyncio.run(model.complete(HELLO))


def test_a_fetched_file_that_was_changed_is_not_served(home):
    file = home / ".prowess" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"GGUF of somebody else")
    model = open_local("smollm2", ModelConfig(home=home / ".prowess"))
    with pytest.raises(Unavailable, match="changed since it was downloaded"):
        asyncio.run(model.complete(HELLO))


def test_a_file_that_is_gone_by_the_time_it_is_asked_is_said_so(tmp_path):
    file = tmp_path / "going.gguf"
    file.write_bytes(b"GGUF")
    model = open_local(str(file), ModelConfig(home=tmp_path))
    file.unlink()
    with pytest.raises(Unavailable, match="cannot be read"):
        asyncio.run(model.complete(HELLO))


def test_one_file_has_one_server_in_a_process():
    first = get_server(Path("/somewhere/a.gguf"))
    assert get_server(Path("/somewhere/a.gguf")) is first
    assert get_server(Path("/somewhere/b.gguf")) is not first
    assert isinstance(first, LocalServer)


def test_a_local_model_is_named_as_it_was_asked_for_and_belongs_to_its_family(tmp_path):
    file = tmp_path / "Qwen2.5-Coder.gguf"
    file.write_bytes(b"GGUF")
    model = open_local(str(file), ModelConfig(home=tmp_path))
    assert (model.name, model.family, model.structured) == (f"local:{file}", "qwen", True)
    assert repr(model) == f"<LocalModel local:{file}>"
