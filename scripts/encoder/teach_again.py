"""Teach the encoder once more, by a larger teacher: MPNet, which is tuned first. Needs one GPU.

`python scripts/encoder/teach_again.py encoder.bin WORK pairs.json.xz OUTPUT --exclude … --written … [--texts texts.json.xz]`

WORK is the folder of `prepare.py`, with MPNet. In each step, the student learns the similarities of a batch of messages and
cards. It learns these by heart: it then ranks the right card first for 99 % of the messages it has seen, and for 75 % of
others. So it also learns the teacher's vectors of texts of any field, if there are some. The encoder keeps ignoring asides:
requests get them while the teacher reads the request alone, and asides alone keep their vectors.

What OUTPUT has already is not computed again, so a training that was interrupted goes on with the next part.
"""

from __future__ import annotations

import argparse
import json
import lzma
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
from pairs import OTHER_SCRIPT, Batch, Message
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
"""The settings of both rounds without texts; the second begins with the student of the first."""
ROUNDS_WITH_TEXTS = ({"distil": 1_087, "teacher": 0.85, "rate": 1.0, "bits": 5, "alone": 1.0, "seed": 5},)
TEXTS_WEIGHT = 5.0
TUNE_STEPS, TUNE_RATE = 420, 3e-5
TEACHER_MIX = 0.85
"""The share of the tuned weights in the teacher; the rest are stock weights."""
ASIDE_SHARE, LONGEST_REQUEST = 0.3, 300
ALONE, ALONE_PIECES, PAIRS_OF_ASIDES, SMALL_TALK_COPIES = 256, 64, 3_000, 4
"""How many asides alone each step compares, and how they are made."""
TEXTS, TEXT_PIECES, TYPED_COPIES = 4_096, 48, 2
"""How many texts each step compares, and how often each text is typed with errors beforehand."""
CARD_COPIES = 3
"""How often the text of a card is among the texts: whole, and in parts."""
_CHUNK_TOKENS = 24_576
_WATCHED_CARDS = 2_000


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
        self.tokenizers = Tokenizers(chosen.work, teacher=chosen.work / "mpnet" / "tokenizer.json")
        self._asides, self._random = Asides(chosen.seed), random.Random(chosen.seed)
        self._process = os.getpid()
        self._chance = np.random.default_rng(1)

    def prepare(self, teacher: LargeTeacher, first: Student) -> None:
        """Compute the vectors that asides alone keep, and those that texts of any field get."""
        alone = [*Asides(3).alone(PAIRS_OF_ASIDES), *OTHER_SMALL_TALK * SMALL_TALK_COPIES]
        tokens = self.tokenizers.for_student(alone, ALONE_PIECES)
        self._alone = self._matrix(tokens, first.padding), self._vectors(first, tokens)
        if not self.chosen.texts:
            return
        file = self.chosen.output / "texts.pt"
        if not file.exists():
            texts, originals = self._texts()
            goals = self._goals(teacher, first, texts, originals)
            versions = [texts] + [[self.pairs.as_typed(text) for text in texts] for _ in range(TYPED_COPIES)]
            read = [self._matrix(self.tokenizers.for_student(texts, TEXT_PIECES), first.padding) for texts in versions]
            torch.save((read, goals), file)
        self._read, self._wanted = torch.load(file, map_location=self.device)
        self.log(f"{len(self._wanted):,} texts")

    def _texts(self) -> tuple[list[str], list[str]]:
        """Return texts for the student, and for the teacher their originals, empty where it cannot read them."""
        with lzma.open(self.chosen.texts, "rt", encoding="utf-8") as file:
            found = json.load(file)
        pairs: dict[str, str] = {text: text for text in found["plain"]}
        pairs |= {text: original for original, text in found["translated"]}
        for card in self.pairs.cards:
            if card.messages:
                cards = [self.pairs.card_text(card, Message("w", "")) for _ in range(CARD_COPIES)]
                pairs |= {text[:300]: text[:300] for text in [*cards, *(one.text for one in card.messages)]}
        for entry in self.pairs.entries:
            pairs |= {text: text for text in entry.messages}
        for written in self.pairs.written.values():
            pairs |= {text: text for text in written.messages}
            pairs |= {one.text: written.messages[one.original] for one in written.translations}
        return list(pairs), ["" if OTHER_SCRIPT.search(original) else original for original in pairs.values()]

    @torch.no_grad()
    def _goals(self, teacher: LargeTeacher, first: Student, texts: list[str], originals: list[str]) -> Tensor:
        """Return the teacher's vectors, turned so that they lie as near as possible to those of the student.

        The teacher's have more values: those of the main directions are kept, so that cosines hardly change.
        """
        goals = self._vectors(first, self.tokenizers.for_student(texts, TEXT_PIECES))
        readable = [place for place, original in enumerate(originals) if original]
        unique = list(dict.fromkeys(originals[place] for place in readable))
        taught = self._vectors(teacher, self.tokenizers.for_teacher(unique, TEXT_PIECES))
        numbers = {text: number for number, text in enumerate(unique)}
        rows = torch.tensor([numbers[originals[place]] for place in readable], device=self.device)
        places = torch.tensor(readable, device=self.device)
        values, directions = torch.linalg.eigh((taught.T @ taught).double())
        size = goals.shape[1]
        kept = functional.normalize(taught @ directions[:, -size:].float(), dim=-1)
        left, _, right = torch.linalg.svd((kept[rows].T @ goals[places]).double())
        turned = kept @ (left @ right).float()
        share = float(values[-size:].sum() / values.sum())
        before = functional.cosine_similarity(turned[rows], goals[places]).mean().item()
        goals[places] = turned[rows]
        self.log(f"goals of {len(unique):,} originals: {share:.1%} kept, cosine to the student {before:.3f}")
        return goals.half()

    def teach(self, teacher: LargeTeacher, before: Student) -> Student:
        """Return a student that learned from the teacher."""
        student = self.distil(teacher, before)
        self.watch(student)
        return student

    @torch.no_grad()
    def watch(self, student: Student) -> None:
        """Say how often the right card is first for messages of the cards that were left out, among these and others."""
        held = list(self.pairs.held)
        if not held:
            return
        cards = self.pairs.cards
        others = np.random.default_rng(0).choice(
            self.pairs.latin, min(_WATCHED_CARDS, len(self.pairs.latin)), replace=False
        )
        texts = [f"{cards[number].name} . {cards[number].description}" for number in [*held, *others.tolist()]]
        asked = [(place, text) for place, number in enumerate(held) for text in self.pairs.held[number].messages]
        found = self._vectors(student, self.tokenizers.for_student([text for _, text in asked], 128))
        offered = self._vectors(student, self.tokenizers.for_student(texts, train.CARD_TOKENS))
        first = (found @ offered.T).argmax(1).cpu().numpy()
        self.log(f"right card first: {np.mean(first == [place for place, _ in asked]):.1%} of {len(asked):,}")

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
        """Train like the first rounds; a student also learns texts of any field, and keeps the vectors of asides alone."""

        def with_texts(batch: Inputs) -> Tensor:
            value = loss(batch) + self.chosen.alone * self._distance(model, *self._alone, ALONE)
            if self.chosen.texts:
                typed = self._read[self._chance.integers(len(self._read))]
                value = value + TEXTS_WEIGHT * self._distance(model, typed, self._wanted, TEXTS)
            return value

        super().fit(model, steps, batches, with_texts if isinstance(model, Student) else loss, groups, decay=decay)

    def _distance(self, student: nn.Module, tokens: Tensor, goals: Tensor, count: int) -> Tensor:
        """Return how far the vectors of some texts are from their goals, the whole vectors and the first halves."""
        places = torch.from_numpy(self._chance.choice(len(tokens), min(count, len(tokens)))).to(self.device)
        rows, wanted = tokens[places], goals[places].float()
        width = int((rows != student.padding).sum(1).max())
        with self.half_precision():
            found = student(rows[:, :width].long()).float()
        half = train.HALF_OUTPUT
        whole = 1 - functional.cosine_similarity(found, wanted)
        return (whole + 1 - functional.cosine_similarity(found[:, :half], wanted[:, :half])).mean()

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

    def _matrix(self, tokens: Tokens, padding: int) -> Tensor:
        return self.padded(tokens, padding).int()

    @torch.no_grad()
    def _vectors(self, model: Student | LargeTeacher, tokens: Tokens) -> Tensor:
        order = np.argsort([len(row) for row in tokens], kind="stable")
        parts: list[Tensor] = []
        for some in np.array_split(order, max(1, len(order) // 4_096)):
            with self.half_precision():
                parts.append(model(self.padded([tokens[place] for place in some], model.padding)).float())
        return torch.cat(parts)[torch.from_numpy(np.argsort(order)).to(self.device)]


def main() -> None:
    """Tune the teacher, and train the rounds."""
    parser = argparse.ArgumentParser(description="Teach the encoder once more, by MPNet.")
    parser.add_argument("encoder", type=Path, help="the encoder file to start with")
    parser.add_argument("work", type=Path, help="the folder that prepare.py wrote, with mpnet/")
    parser.add_argument("pairs", type=Path, help="pairs.json.xz")
    parser.add_argument("output", type=Path, help="the folder for before.npz, round1.npz and round2.npz")
    parser.add_argument("--texts", type=Path, help="texts.json.xz, which texts.py wrote")
    parser.add_argument("--exclude", type=Path, help="cards whose messages are not used (excluded.jsonl)")
    parser.add_argument("--written", type=Path, nargs="+", default=(), help="messages that were written for cards")
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
    teacher = LargeTeacher(chosen.work / "mpnet").to(training.device).eval()
    tuned = chosen.output / "teacher.pt"
    if tuned.exists():
        teacher.load_state_dict(torch.load(tuned, map_location=training.device))
    else:
        teacher = training.tune(teacher, sizes=(768,), rate=TUNE_RATE, mix=TEACHER_MIX)
        torch.save(teacher.state_dict(), tuned)
    np.savez_compressed(chosen.output / "before.npz", **unpack_weights(chosen.encoder))
    before = Student(chosen.output / "before.npz").to(training.device).eval()
    training.watch(before)
    training.prepare(teacher, before)
    for number, settings in enumerate(ROUNDS_WITH_TEXTS if chosen.texts else ROUNDS, 1):
        file = chosen.output / f"round{number}.npz"
        if not file.exists():
            vars(chosen).update(settings)
            chosen.distil = chosen.steps or chosen.distil
            training.teach(teacher, before).save(file)
        before = Student(file).to(training.device).eval()
    training.log("done")


if __name__ == "__main__":
    main()
