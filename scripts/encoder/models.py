"""The two models in torch: the teacher MiniLM, and the student, the network of `prowess.match.vectors.network`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertModel

STEPS = {4: 0.42, 5: 0.2356}
"""The step between the values of a row by bits a value, as a share of its mean absolute value: it loses least."""
BRANCHES = ((2, 0), (3, 1), (5, 2))
"""How many neighbours a branch convolves, and how many of them lie to the left."""
_BRANCH, _FEATURES = 256, 1280


class Teacher(nn.Module):
    """MiniLM-L6: the mean of the token states."""

    padding = 0

    def __init__(self, file: Path) -> None:
        super().__init__()
        shape = BertConfig(
            vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
        )
        self.bert = BertModel(shape, add_pooling_layer=False)
        with np.load(file) as saved:
            names = [name for name in saved.files if not name.startswith("s:")]
            state = {
                name: torch.tensor(saved[name] * saved[f"s:{name}"] if f"s:{name}" in saved.files else saved[name])
                for name in names
            }
        # Some versions of the library keep the numbers of positions among the weights.
        missing = [name for name in self.bert.load_state_dict(state, strict=False).missing_keys if "_ids" not in name]
        if missing:
            raise SystemExit(f"{file.name} lacks {', '.join(missing)}")

    def forward(self, tokens: Tensor) -> Tensor:
        """Return unit vectors."""
        mask = tokens != self.padding
        states = self.bert(input_ids=tokens, attention_mask=mask.long()).last_hidden_state.float()
        weight = mask.unsqueeze(-1).float()
        return functional.normalize((states * weight).sum(1) / weight.sum(1), dim=-1)

    def save(self, file: Path) -> None:
        """Write the weights, matrices as `int8` with one scale a row."""
        saved: dict[str, np.ndarray] = {}
        for name, value in self.bert.state_dict().items():
            values = value.float().cpu().numpy()
            if values.ndim == 2:
                scale = np.abs(values).max(axis=1, keepdims=True) / 127 + 1e-12
                saved[name], saved[f"s:{name}"] = np.rint(values / scale).astype(np.int8), scale
            else:
                saved[name] = values
        np.savez_compressed(file, **saved)


class Student(nn.Module):
    """USE-multilingual v3. With `bits`, the table is rounded in each step, and learns to lose little by it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        with np.load(file) as saved:
            weights = {name: saved[name].astype(np.float32) for name in saved.files if name != "keep"}
        rows = weights.pop("table") * weights.pop("scale").reshape(-1, 1)
        if "lo" in weights:
            rows += weights.pop("lo").reshape(-1, 1)
        self.eps = float(weights.pop("eps"))
        self.bits = 0
        self.padding = len(rows)
        self.table = nn.Embedding.from_pretrained(torch.tensor(np.vstack([rows, 0 * rows[:1]])), freeze=False)
        self.dense = nn.ParameterDict({name: nn.Parameter(torch.tensor(value)) for name, value in weights.items()})

    def forward(self, tokens: Tensor) -> Tensor:
        """Return unit vectors."""
        dense = self.dense
        mask = (tokens != self.padding).unsqueeze(-1).float()
        table = _rounded(self.table.weight, self.bits) if self.bits else self.table.weight
        embedded = functional.embedding(tokens, table) * mask
        branches = (embedded @ self._joined("proj") + self._joined("proj_b")).float()
        branches = functional.layer_norm(
            branches, (_BRANCH * len(BRANCHES),), self._joined("ln_g"), self._joined("ln_b"), self.eps
        )
        features = [embedded]
        for (width, left), part in zip(BRANCHES, branches.split(_BRANCH, dim=-1), strict=True):
            state = part
            for layer in (1, 2):
                product = _neighbours(state * mask, width, left) @ dense[f"w{layer}_{width}"]
                state = functional.relu(product + dense[f"b{layer}_{width}"]) + state
            features.append(state)
        joined = torch.cat([feature.float() for feature in features], -1)
        joined = functional.layer_norm(joined, (_FEATURES,), dense["ln_g"], dense["ln_b"], self.eps) * mask
        count = mask.sum(1)
        # The sum of many tokens needs more digits than bfloat16 has.
        with torch.autocast(tokens.device.type, enabled=False):
            total = joined.float().sum(1) @ dense["cnn_W"] + count * dense["cnn_b"]
            total = total / count.clamp(min=1).sqrt()
            first = functional.relu(total @ dense["d0"])
            second = functional.relu(total @ dense["p1"] + first @ dense["d1"])
            third = functional.relu(second @ dense["d2"])
            return functional.normalize(torch.tanh(second @ dense["p3"] + third @ dense["d3"]), dim=-1)

    def _joined(self, name: str) -> Tensor:
        return torch.cat([self.dense[f"{name}{width}"] for width, _ in BRANCHES], -1)

    @torch.no_grad()
    def round(self, bits: int) -> None:
        """Round the table to `bits` a value, and products to 8 bits a value with one scale a column."""
        self.table.weight.copy_(_rounded(self.table.weight, bits))
        for value in self.dense.values():
            if value.ndim == 2:
                scale = value.abs().amax(0, keepdim=True) / 127
                value.copy_((value / scale).round() * scale)

    @torch.no_grad()
    def save(self, file: Path) -> None:
        """Write the table with 8 bits a value, all else with 16."""
        table = self.table.weight[:-1]
        scale = table.abs().amax(1, keepdim=True) / 127
        values = (table / scale.clamp(min=1e-12)).round()
        dense = {name: value.half().cpu().numpy() for name, value in self.dense.items()}
        np.savez_compressed(
            file,
            table=values.to(torch.int8).cpu().numpy(),
            scale=scale.half().cpu().numpy(),
            eps=np.float32(self.eps),
            **dense,
        )


def _neighbours(states: Tensor, width: int, left: int) -> Tensor:
    """Return the states of `width` neighbours side by side, so that a convolution is one product."""
    length = states.shape[1]
    padded = functional.pad(states, (0, 0, left, width - 1 - left))
    return torch.cat([padded[:, place : place + length] for place in range(width)], -1)


def _rounded(table: Tensor, bits: int) -> Tensor:
    """Return the table rounded to `bits` a value; gradients pass as if it were not."""
    with torch.no_grad():
        half = 2 ** (bits - 1)
        step = (table.abs().mean(1, keepdim=True) * STEPS[bits]).clamp(min=1e-12)
        change = (table / step).round().clamp(-half, half - 1) * step - table
    return table + change
