"""A server of embeddings on this machine, a sentence model of four words and a small encoder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from .tiny_encoder import random_weights, write_encoder

WORDS = {"[PAD]": 0, "[UNK]": 1, "cats": 2, "dogs": 3, "taxes": 4}
VECTORS = np.array([[9, 9, 9], [0, 0, 1], [1, 0, 0], [1, 0.5, 0], [-1, 1, 0]], dtype=np.float32)

Respond = Callable[[BaseHTTPRequestHandler, list[str]], None]


def vector(text: str) -> list[float]:
    """What the server answers: any text has its own vector, the same each time."""
    return [1.0, len(text) / 100, sum(map(ord, text)) % 97 / 97]


def entries(texts: list[str]) -> list[dict]:
    return [{"object": "embedding", "index": index, "embedding": vector(text)} for index, text in enumerate(texts)]


def answer(handler: BaseHTTPRequestHandler, texts: list[str]) -> None:
    body = json.dumps({"object": "list", "data": entries(texts)}).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@dataclass
class EmbeddingServer:
    """`script` holds what the next requests get, one each; after that, every request gets a good answer."""

    url: str = ""
    script: list[Respond] = field(default_factory=list)
    requests: list[dict] = field(default_factory=list)
    closing: Event = field(default_factory=Event)

    def handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.requests.append({"path": self.path, "headers": dict(self.headers), **body})
                respond = server.script.pop(0) if server.script else answer
                respond(self, body["input"])

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def embedding_server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer()
    http = ThreadingHTTPServer(("127.0.0.1", 0), server.handler())
    http.handle_error = lambda *_: None  # a client that hangs up is part of some tests
    server.url = f"http://127.0.0.1:{http.server_port}/v1"
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.closing.set()
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def sentence_model(tmp_path: Path) -> Callable[..., Path]:
    """A folder with a real model of a few words: token ids in, the vectors of the tokens out."""
    onnx = pytest.importorskip("onnx", reason="onnx, which writes the model of this test, is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime, which runs models, is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers, which sentence models need, is not installed")
    helper, kinds = onnx.helper, onnx.TensorProto

    def make(
        name: str = "model.onnx",
        inputs: tuple[str, ...] = ("input_ids",),
        vectors: np.ndarray = VECTORS,
        pool: bool = False,
        axis: int = 1,
    ) -> Path:
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        output = "sentence_embedding" if pool else "last_hidden_state"
        nodes = [helper.make_node("Gather", ["table", "input_ids"], ["tokens"])]
        # What else is asked for is used, without an effect.
        nodes += [helper.make_node("Identity", [other], [f"{other}_seen"]) for other in inputs[1:]]
        step = ("ReduceMean", ["tokens", "axis"]) if pool else ("Identity", ["tokens"])
        nodes.append(helper.make_node(*step, [output], **({"keepdims": 0} if pool else {})))
        graph = helper.make_graph(
            nodes,
            "tiny",
            [helper.make_tensor_value_info(one, kinds.INT64, ["texts", "tokens"]) for one in inputs],
            [helper.make_tensor_value_info(output, kinds.FLOAT, None)],
            [
                onnx.numpy_helper.from_array(vectors.astype(np.float32), "table"),
                onnx.numpy_helper.from_array(np.array([axis]), "axis"),
            ],
        )
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        path.write_bytes(model.SerializeToString())
        return tmp_path

    return make


@pytest.fixture(scope="session")
def encoder_file(tmp_path_factory) -> Path:
    """An encoder of a few words with random weights."""
    path = tmp_path_factory.mktemp("encoder") / "encoder.bin"
    write_encoder(path, random_weights())
    return path
