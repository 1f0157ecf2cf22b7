"""Teach the encoder to ignore what stands beside a request: names, dates, amounts, courtesies, remarks. Needs one GPU.

`python scripts/encoder/ignore_asides.py encoder.bin pairs.json.xz weights.npz --exclude … --written …`

The goal for a request with asides is the vector that the encoder gives the request alone. Requests alone, cards, and asides
alone keep their vectors, so that all that was learned before stays: otherwise a greeting would resemble some skill.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import torch
from asides import Asides
from average import read_student, round_weights
from models import Student
from numpy.typing import NDArray
from pack import unpack_weights
from pairs import Pairs
from prior import OTHER_SMALL_TALK
from torch import Tensor, nn
from torch.nn import functional

from prowess.match.arrays import Array
from prowess.match.vectors.encoder import Encoder
from prowess.match.vectors.pieces import END, START

KINDS = "tqbu"
CARD_REQUESTS, OTHER_REQUESTS = 60_000, 16_000
WRITTEN_COPIES, OTHER_COPIES = 8, 2
"""How often each request gets asides: those that were written for the training, and the others."""
REQUEST_PIECES, WHOLE_PIECES, CARD_PIECES, ALONE_PIECES = 96, 112, 128, 64
BITS, HALF_OUTPUT = 5, 256
STEPS, TABLE_RATE, DENSE_RATE = 2_500, 5e-4, 1.5e-4
PAIRS_OF_ASIDES, SMALL_TALK_COPIES = 5_000, 6
BATCH, REQUESTS, CARDS, ALONE = 1_536, 512, 256, 256
"""How many texts with asides, requests, cards, and asides alone a batch has."""
_SORTED = 8
"""Batches drawn at once and sorted by length, so that little of a batch is padding."""

Texts = list[NDArray[np.int64]]


class Examples(NamedTuple):
    """All texts as pieces. `owner` is the number of the request in each text with asides."""

    requests: Texts
    whole: Texts
    owner: NDArray[np.int64]
    written: int
    """So many of the first requests were written for the training."""
    cards: Texts
    alone: Texts
    """Asides without a request, and small talk."""


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
        _split(encoder, [*asides.alone(PAIRS_OF_ASIDES), *OTHER_SMALL_TALK * SMALL_TALK_COPIES], ALONE_PIECES),
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


def train(student: Student, examples: Examples, steps: int, device: torch.device) -> Student:
    """Return the student after training; the goals are its own vectors before it."""
    kept = (examples.requests, examples.cards, examples.alone)
    goals = [embed(student, texts, device) for texts in kept]
    learning = copy.deepcopy(student)
    learning.bits = BITS
    optimizer = torch.optim.AdamW(
        [
            {"params": learning.dense.parameters(), "lr": DENSE_RATE},
            {"params": learning.table.parameters(), "lr": TABLE_RATE},
        ],
        weight_decay=0,
        betas=(0.9, 0.98),
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 100, max(0.02, (steps - step) / steps))
    )
    chance = np.random.default_rng(1)
    for step, whole in enumerate(batches(examples, steps), 1):
        found = embed_batch(learning, [examples.whole[place] for place in whole], device)
        value = distance(found, goals[0][examples.owner[whole]])
        for texts, wanted, count in zip(kept, goals, (REQUESTS, CARDS, ALONE), strict=True):
            places = chance.choice(len(texts), count)
            value = value + distance(embed_batch(learning, [texts[place] for place in places], device), wanted[places])
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        nn.utils.clip_grad_norm_(learning.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % max(1, steps // 5) == 0:
            print(f"step {step} of {steps}, loss {value.item():.4f}", flush=True)
    learning.bits = 0
    return learning


def batches(examples: Examples, steps: int) -> Iterator[Array]:
    """Yield numbers of texts with asides of similar length, half of them of written requests."""
    chance = np.random.default_rng(0)
    is_written = examples.owner < examples.written
    lengths = np.array([len(text) for text in examples.whole])
    pools = np.flatnonzero(is_written), np.flatnonzero(~is_written)
    for step in range(steps):
        if step % _SORTED == 0:
            drawn = np.concatenate([chance.choice(pool, _SORTED * BATCH // 2) for pool in pools])
            groups = np.array_split(drawn[np.argsort(lengths[drawn])], _SORTED)
            order = chance.permutation(_SORTED)
        yield groups[order[step % _SORTED]]


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
    """Train and write the weights."""
    parser = argparse.ArgumentParser(description="Teach the encoder to ignore what stands beside a request.")
    parser.add_argument("encoder", type=Path, help="the encoder file to begin with")
    parser.add_argument("pairs", type=Path, help="pairs.json.xz")
    parser.add_argument("output", type=Path, help="where to write the weights, for pack.py")
    parser.add_argument("--exclude", type=Path, help="cards whose messages are not used (excluded.jsonl)")
    parser.add_argument("--written", type=Path, nargs="+", default=(), help="messages that were written for cards")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--device", default="cuda")
    chosen = parser.parse_args()
    device = torch.device(chosen.device)
    torch.manual_seed(0)
    examples = make_examples(Pairs(chosen.pairs, chosen.exclude, chosen.written), Encoder(chosen.encoder), seed=7)
    with TemporaryDirectory() as folder:
        before, after = (Path(folder, name) for name in ("before.npz", "after.npz"))
        np.savez(before, **unpack_weights(chosen.encoder))
        train(Student(before).to(device), examples, chosen.steps, device).save(after)
        np.savez_compressed(chosen.output, **round_weights(read_student(after)))


if __name__ == "__main__":
    main()
