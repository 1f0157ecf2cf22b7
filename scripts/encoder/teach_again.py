"""Teach the encoder once more, by a larger teacher: MPNet, which is tuned first. Needs one GPU.

`python scripts/encoder/teach_again.py encoder.bin WORK pairs.json.xz OUTPUT --exclude … --written …`

WORK is the folder of `prepare.py`, with MPNet. The encoder keeps ignoring asides: requests get them while the teacher reads the
request alone, and asides alone keep their vectors.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
import train
from asides import Asides
from models import Student
from pack import unpack_weights
from pairs import Batch
from prior import OTHER_SMALL_TALK
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from train import Inputs, Tokenizers, Tokens, Training
from transformers import MPNetModel

ROUNDS = (
    {"distil": 1_150, "teacher": 0.80, "rate": 0.9, "bits": 5, "alone": 1.0, "seed": 5},
    {"distil": 1_500, "teacher": 0.85, "rate": 0.8, "bits": 4, "alone": 3.0, "seed": 9},
)
"""The settings of both rounds; the second begins with the student of the first."""
TUNE_STEPS, TUNE_RATE = 420, 3e-5
TEACHER_MIX = 0.85
"""The share of the tuned weights in the teacher; the rest are stock weights."""
ASIDE_SHARE, LONGEST_REQUEST = 0.3, 300
ALONE, ALONE_PIECES, PAIRS_OF_ASIDES, SMALL_TALK_COPIES = 256, 64, 3_000, 4
"""How many asides alone each step compares, and how they are made."""
_CHUNK_TOKENS = 24_576


class LargeTeacher(nn.Module):
    """MPNet: the mean of the token states."""

    padding = 1

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.model = MPNetModel.from_pretrained(folder, add_pooling_layer=False, hidden_dropout_prob=0.05)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return unit vectors."""
        lengths = (tokens != self.padding).sum(1).cpu().numpy()
        order, found, first = np.argsort(-lengths), [], 0
        # In chunks of similar length, and computed again for the gradient: all states of a batch exceed the memory.
        while first < len(order):
            width = min(-(-int(lengths[order[first]]) // 8) * 8, tokens.shape[1])
            some = torch.from_numpy(order[first : first + max(1, _CHUNK_TOKENS // width)]).to(tokens.device)
            part = tokens[some][:, :width]
            is_learning = torch.is_grad_enabled()
            found.append(checkpoint(self._embed, part, use_reentrant=False) if is_learning else self._embed(part))
            first += len(some)
        return torch.cat(found)[torch.from_numpy(np.argsort(order)).to(tokens.device)]

    def _embed(self, tokens: Tensor) -> Tensor:
        mask = tokens != self.padding
        states = self.model(input_ids=tokens, attention_mask=mask.long()).last_hidden_state.float()
        weight = mask.unsqueeze(-1).float()
        return functional.normalize((states * weight).sum(1) / weight.sum(1), dim=-1)


class SecondTraining(Training):
    """Training with the larger teacher, whose tokenizer takes the place of MiniLM's."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        super().__init__(chosen)
        self._asides, self._random = Asides(chosen.seed), random.Random(chosen.seed)
        self._process = os.getpid()

    def teach(self, teacher: LargeTeacher, before: Student, first: Student) -> Student:
        """Return a student that learned from the teacher, and gives asides alone the vectors that `first` gives them."""
        alone = [*Asides(3).alone(PAIRS_OF_ASIDES), *OTHER_SMALL_TALK * SMALL_TALK_COPIES]
        tokens = self.tokenizers.for_student(alone, ALONE_PIECES)
        with torch.no_grad():
            parts = np.array_split(np.arange(len(tokens)), max(1, len(tokens) // 2_048))
            goal = torch.cat([self._embed(first, [tokens[place] for place in part]) for part in parts])
        chance = np.random.default_rng(1)

        def keep(student: Student) -> Tensor:
            places = chance.choice(len(tokens), min(ALONE, len(tokens)), replace=False)
            found = self._embed(student, [tokens[place] for place in places])
            wanted = goal[torch.from_numpy(places).to(self.device)]
            half = train.HALF_OUTPUT
            whole = 1 - functional.cosine_similarity(found, wanted)
            return (whole + 1 - functional.cosine_similarity(found[:, :half], wanted[:, :half])).mean()

        self._keep = keep
        return self.distil(teacher, before)

    def fit(
        self,
        model: nn.Module,
        steps: int,
        batches: Iterable[Inputs],
        loss: Callable[[Inputs], Tensor],
        groups: list[dict[str, object]],
        *,
        decay: float,
    ) -> None:
        """Train like the first rounds; a student also keeps the vectors of asides alone."""

        def with_asides(batch: Inputs) -> Tensor:
            return loss(batch) + self.chosen.alone * self._keep(model)

        super().fit(model, steps, batches, with_asides if isinstance(model, Student) else loss, groups, decay=decay)

    def cut(self, batch: Batch, limit: int, *, with_student: bool) -> Inputs:
        """Return a batch as tokens, with asides beside some of the requests that the student reads."""
        if with_student:
            if self._process != os.getpid():  # each process that draws batches has asides of its own
                self._process = os.getpid()
                self._asides, self._random = Asides(self._process), random.Random(self._process)
            messages = [
                self._asides.add_to(text)
                if len(text) < LONGEST_REQUEST and self._random.random() < ASIDE_SHARE
                else text
                for text in batch.messages
            ]
            batch = batch._replace(messages=messages)
        return super().cut(batch, limit, with_student=with_student)

    def _embed(self, student: Student, tokens: Tokens) -> Tensor:
        with self.half_precision():
            return student(self.padded(tokens, student.padding)).float()


def main() -> None:
    """Tune the teacher, and train both rounds."""
    parser = argparse.ArgumentParser(description="Teach the encoder once more, by MPNet.")
    parser.add_argument("encoder", type=Path, help="the encoder file to start with")
    parser.add_argument("work", type=Path, help="the folder that prepare.py wrote, with mpnet/")
    parser.add_argument("pairs", type=Path, help="pairs.json.xz")
    parser.add_argument("output", type=Path, help="the folder for before.npz, round1.npz and round2.npz")
    parser.add_argument("--exclude", type=Path, help="cards whose messages are not used (excluded.jsonl)")
    parser.add_argument("--written", type=Path, help="messages that were written for cards (written.jsonl)")
    parser.add_argument("--tune", type=int, default=TUNE_STEPS, help="steps of the teacher")
    parser.add_argument("--steps", type=int, help="steps of each round, to try the code")
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--device", default="cuda")
    parser.set_defaults(written_share=0.33, long=0.2, absolute=0.2, **ROUNDS[0])
    chosen = parser.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(chosen.seed)
    torch.backends.cuda.matmul.allow_tf32 = True
    training = SecondTraining(chosen)
    training.tokenizers = Tokenizers(chosen.work, teacher=chosen.work / "mpnet" / "tokenizer.json")
    stock = LargeTeacher(chosen.work / "mpnet").to(training.device).eval()
    teacher = training.tune(stock, sizes=(768,), rate=TUNE_RATE, mix=TEACHER_MIX)
    np.savez_compressed(chosen.output / "before.npz", **unpack_weights(chosen.encoder))
    first = before = Student(chosen.output / "before.npz").to(training.device).eval()
    for number, settings in enumerate(ROUNDS, 1):
        vars(chosen).update(settings)
        chosen.distil = chosen.steps or chosen.distil
        before = training.teach(teacher, before, first)
        before.save(chosen.output / f"round{number}.npz")
    training.log("done")


if __name__ == "__main__":
    main()
