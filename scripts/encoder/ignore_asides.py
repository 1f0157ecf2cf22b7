"""Teach the encoder to ignore what stands beside a request: names, dates, amounts, courtesies, remarks. Needs one GPU.

`python scripts/encoder/ignore_asides.py encoder.bin pairs.json.xz weights.npz --exclude … --written …`

The goal for a request with asides is the vector that the encoder gives the request alone. Requests alone and cards keep
their vectors, so that all that was learned before stays. Two runs with slightly different settings are averaged.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from asides import Asides
from average import average, read_student, round_weights
from models import Student
from numpy.typing import NDArray
from pack import unpack_weights
from pairs import Pairs
from torch import Tensor, nn
from torch.nn import functional

from prowess.match.arrays import Array
from prowess.match.vectors.encoder import Encoder
from prowess.match.vectors.pieces import END, START

KINDS = "tqbu"
CARD_REQUESTS, OTHER_REQUESTS = 60_000, 16_000
WRITTEN_COPIES, OTHER_COPIES = 8, 2
"""How often each request gets asides: those that were written for the training, and the others."""
REQUEST_PIECES, WHOLE_PIECES, CARD_PIECES = 96, 112, 128
BITS, HALF_OUTPUT = 5, 256
_SORTED = 8
"""Batches drawn at once and sorted by length, so that little of a batch is padding."""

Texts = list[NDArray[np.int64]]


class Settings(NamedTuple):
    """The settings of a run."""

    steps: int
    table_rate: float
    dense_rate: float
    keep: float
    """The weight of keeping the vectors of requests and cards."""


RUNS = (Settings(4_000, 5e-4, 1.5e-4, 1.0), Settings(4_500, 4e-4, 1.2e-4, 1.5))


class Examples(NamedTuple):
    """All texts as pieces. `owner` is the number of the request in each text with asides."""

    requests: Texts
    whole: Texts
    owner: NDArray[np.int64]
    written: int
    """So many of the first requests were written for the training."""
    cards: Texts


def make_examples(pairs: Pairs, encoder: Encoder, seed: int) -> Examples:
    """Return requests, the same with asides, and cards."""
    chance = np.random.default_rng(seed)
    asides = Asides(seed)
    texts: list[str] = []
    for own in pairs.written.values():
        texts += [*own.messages, *(one.text for one in own.translations), *filter(None, (own.near, own.far))]
    written = len(texts)
    for pool, count in (
        ([text for card in pairs.cards for kind, text in card.messages if kind in KINDS and 9 <= len(text) <= 300], CARD_REQUESTS),
        ([text for entry in pairs.entries for text in entry.messages if 5 < len(text) < 300], OTHER_REQUESTS),
    ):  # fmt: skip
        texts += [pool[place] for place in chance.permutation(len(pool))[:count].tolist()]
    copies = [WRITTEN_COPIES] * written + [OTHER_COPIES] * (len(texts) - written)
    owner = np.repeat(np.arange(len(texts)), copies)
    cards = [f"{card.name} . {card.description}" for card in pairs.cards if card.messages]
    return Examples(
        _split(encoder, texts, REQUEST_PIECES),
        _split(encoder, [asides.add_to(texts[place]) for place in owner.tolist()], WHOLE_PIECES),
        owner,
        written,
        _split(encoder, cards, CARD_PIECES),
    )


def _split(encoder: Encoder, texts: Sequence[str], limit: int) -> Texts:
    """Return the pieces of texts; of long ones the first three quarters of the limit and the last."""
    found: Texts = []
    for first in range(0, len(texts), 5_000):
        for pieces in encoder.pieces.encode(texts[first : first + 5_000]):
            numbers = np.array([START, *pieces, END], np.int64)
            last = limit // 4
            found.append(
                numbers if len(numbers) <= limit else np.concatenate((numbers[: limit - last], numbers[-last:]))
            )
    return found


def train(student: Student, examples: Examples, settings: Settings, device: torch.device) -> Student:
    """Return the student after one run; the goals are its own vectors before it."""
    goals, card_goals = embed(student, examples.requests, device), embed(student, examples.cards, device)
    learning = copy.deepcopy(student)
    learning.bits = BITS
    optimizer = torch.optim.AdamW(
        [
            {"params": learning.dense.parameters(), "lr": settings.dense_rate},
            {"params": learning.table.parameters(), "lr": settings.table_rate},
        ],
        weight_decay=0,
        betas=(0.9, 0.98),
    )
    steps = settings.steps
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 100, max(0.02, (steps - step) / steps))
    )
    for step, (whole, requests, cards) in enumerate(batches(examples, steps), 1):
        value = distance(
            embed_batch(learning, [examples.whole[place] for place in whole], device), goals[examples.owner[whole]]
        )
        for texts, places, wanted in ((examples.requests, requests, goals), (examples.cards, cards, card_goals)):
            found = embed_batch(learning, [texts[place] for place in places], device)
            value = value + settings.keep * distance(found, wanted[places])
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        nn.utils.clip_grad_norm_(learning.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % max(1, steps // 5) == 0:
            print(f"step {step} of {steps}, loss {value.item():.4f}", flush=True)
    learning.bits = 0
    return learning


def batches(examples: Examples, steps: int, size: int = 1_536) -> Iterator[tuple[Array, Array, Array]]:
    """Yield numbers of texts with asides, half of them of written requests, of requests, and of cards."""
    chance = np.random.default_rng(0)
    is_written = examples.owner < examples.written
    lengths = np.array([len(text) for text in examples.whole])
    pools = np.flatnonzero(is_written), np.flatnonzero(~is_written)
    for step in range(steps):
        if step % _SORTED == 0:
            drawn = np.concatenate([chance.choice(pool, _SORTED * size // 2) for pool in pools])
            groups = np.array_split(drawn[np.argsort(lengths[drawn])], _SORTED)
            order = chance.permutation(_SORTED)
        requests = chance.choice(len(examples.requests), size // 3)
        yield groups[order[step % _SORTED]], requests, chance.choice(len(examples.cards), size // 6)


def distance(found: Tensor, goal: Tensor) -> Tensor:
    """Return one minus the cosine, for all values of the output and for the first half."""
    halves = (functional.normalize(vectors[:, :HALF_OUTPUT], dim=-1) for vectors in (found, goal))
    return (1 - functional.cosine_similarity(found, goal)).mean() + (1 - functional.cosine_similarity(*halves)).mean()


def embed_batch(student: Student, texts: Texts, device: torch.device) -> Tensor:
    """Return the vectors of texts, padded to the longest."""
    rows = np.full((len(texts), -(-max(map(len, texts)) // 8) * 8), student.padding)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type != "cpu"):
        return student(torch.from_numpy(rows).to(device))


@torch.no_grad()
def embed(student: Student, texts: Texts, device: torch.device) -> Tensor:
    """Return the vectors of many texts."""
    order = np.argsort([len(text) for text in texts])
    parts = np.array_split(order, max(1, len(order) // 2_048))
    found = torch.cat([embed_batch(student, [texts[place] for place in part], device).float() for part in parts])
    return found[torch.tensor(np.argsort(order), device=device)]


def main() -> None:
    """Train both runs and write the averaged weights."""
    parser = argparse.ArgumentParser(description="Teach the encoder to ignore what stands beside a request.")
    parser.add_argument("encoder", type=Path, help="the encoder file to begin with")
    parser.add_argument("pairs", type=Path, help="pairs.json.xz")
    parser.add_argument("output", type=Path, help="where to write the weights, for pack.py")
    parser.add_argument("--exclude", type=Path, help="cards whose messages are not used (excluded.jsonl)")
    parser.add_argument("--written", type=Path, help="messages that were written for cards (written.jsonl)")
    parser.add_argument("--steps", type=int, help="steps of each run, to try the code")
    parser.add_argument("--device", default="cuda")
    chosen = parser.parse_args()
    device = torch.device(chosen.device)
    examples = make_examples(Pairs(chosen.pairs, chosen.exclude, chosen.written), Encoder(chosen.encoder), seed=7)
    folder = chosen.output.parent
    np.savez(folder / "before.npz", **unpack_weights(chosen.encoder))
    before = Student(folder / "before.npz").to(device)
    trained: list[dict[str, Array]] = []
    for number, settings in enumerate(RUNS):
        torch.manual_seed(0)
        student = train(before, examples, settings._replace(steps=chosen.steps or settings.steps), device)
        student.round(BITS)
        student.save(folder / f"run{number}.npz")
        trained.append(read_student(folder / f"run{number}.npz"))
    np.savez_compressed(chosen.output, **round_weights(average(trained)))


if __name__ == "__main__":
    main()
