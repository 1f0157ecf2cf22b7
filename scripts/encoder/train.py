"""Train the encoder on one GPU: tune MiniLM on messages and cards, then distil it into USE-multilingual v3.

`python scripts/encoder/train.py WORK pairs.json.xz ROUND1`, and a second round with `--resume ROUND1`; see the README beside
this file. WORK is the folder that `prepare.py` wrote.
"""

from __future__ import annotations

import argparse
import copy
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sentencepiece
import torch
from models import Student, Teacher
from pairs import Batch, Pairs, has_other_script
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

TEMPERATURE = 0.05
TEACHER_MIX = 0.75
"""The share of the tuned weights in the teacher; the rest are stock weights."""
HALF_OUTPUT = 256
"""The loss is computed for all 512 values of the output and for the first half, so that vectors can be cut."""
SHORT_TOKENS, LONG_TOKENS, CARD_TOKENS = 48, 128, 128
RESUMED_BITS = 5
_ALIKE_COSINE, _SAME_COSINE, _ALIKE = 0.8, 0.85, 32
_NEVER = -1e4

Tokens = list[np.ndarray]


class Tokenizers:
    """The tokenizers of both models."""

    def __init__(self, work: Path, teacher: Path | None = None) -> None:
        self._teacher = Tokenizer.from_file(str(teacher or work / "tokenizer.json"))
        self._teacher.no_padding()
        self._teacher.enable_truncation(256)
        self._student = sentencepiece.SentencePieceProcessor(model_file=str(work / "sp.model"))
        keep = np.load(work / "use.npz")["keep"]
        self._places = np.ones(int(keep.max()) + 1, np.int64)
        """The row of each piece in the cut table; row 1 stands for unknown ones."""
        self._places[keep] = np.arange(len(keep))

    def for_teacher(self, texts: Sequence[str], limit: int) -> Tokens:
        """Return the tokens of MiniLM."""
        return [_cut(np.array(found.ids), limit) for found in self._teacher.encode_batch(list(texts))]

    def for_student(self, texts: Sequence[str], limit: int) -> Tokens:
        """Return the pieces of the student."""
        found = self._student.encode(list(texts), out_type=int, add_bos=True, add_eos=True)
        return [_cut(self._places[numbers], limit) for numbers in found]


class Inputs(NamedTuple):
    """A batch as tokens of both models; the student's are empty while the teacher is tuned."""

    numbers: np.ndarray
    teacher_messages: Tokens
    teacher_cards: Tokens
    student_messages: Tokens
    student_cards: Tokens
    teacher_strangers: Tokens
    """Messages that no card of the batch answers."""
    student_strangers: Tokens
    other_messages: np.ndarray
    """Which messages the teacher cannot read: those with other than Latin characters that have no original in English."""
    other_cards: np.ndarray


class Training:
    """One round of training."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self.chosen = chosen
        self.device = torch.device(chosen.device)
        self.pairs = Pairs(chosen.pairs, chosen.exclude, chosen.written)
        self.pairs.written_share = chosen.written_share if chosen.written else 0.0
        self.tokenizers = Tokenizers(chosen.work)
        self.vectors = torch.empty(0)
        """The teacher's vectors of all cards."""
        self._began = time.monotonic()

    def log(self, told: str) -> None:
        """Print a line with the seconds since the start."""
        print(f"[{time.monotonic() - self._began:6.1f}] {told}", flush=True)

    def tune(
        self, stock: Teacher, *, sizes: Sequence[int] = (384, 256, 128), rate: float = 5e-5, mix: float = TEACHER_MIX
    ) -> Teacher:
        """Return the teacher tuned by contrast for these sizes of the output, with this share of the tuned weights."""
        self.find_alike(stock)
        tuned = copy.deepcopy(stock)

        def loss(batch: Inputs) -> Tensor:
            with self.half_precision():
                messages = tuned(self.padded(batch.teacher_messages, tuned.padding))
                cards = tuned(self.padded(batch.teacher_cards, tuned.padding))
                strangers = (
                    tuned(self.padded(batch.teacher_strangers, tuned.padding)) if batch.teacher_strangers else None
                )
            off = self.ambiguous(batch.numbers)
            losses = [contrast(messages, cards, off, strangers, size) for size in sizes]
            return torch.stack(losses).mean()

        batches = self.batches(self.chosen.tune, with_student=False)
        self.fit(tuned, self.chosen.tune, batches, loss, [{"params": tuned.parameters(), "lr": rate}], decay=0.01)
        state = stock.state_dict()
        for name, value in tuned.state_dict().items():
            if value.is_floating_point():
                value.copy_((1 - mix) * state[name] + mix * value)
        return tuned

    def distil(self, teacher: Teacher, before: Student) -> Student:
        """Return a student that learned the teacher's similarities, and its own `before` for other scripts."""
        self.find_alike(teacher)
        self.pairs.translated_share, self.pairs.twin_share = 0.25, 0.06
        student = copy.deepcopy(before)
        student.bits = self.chosen.bits
        scale = nn.Parameter(torch.tensor([3.0, -10.0], device=self.device))
        objective = Distillation(teacher_share=self.chosen.teacher, absolute=self.chosen.absolute, scale=scale)

        def loss(batch: Inputs) -> Tensor:
            messages = self.padded(batch.student_messages, student.padding)
            cards = self.padded(batch.student_cards, student.padding)
            with self.half_precision():
                learned = student(messages), student(cards)
                strangers = (
                    student(self.padded(batch.student_strangers, student.padding)) if batch.student_strangers else None
                )
                with torch.no_grad():
                    kept = before(messages), before(cards)
                    taught = (
                        teacher(self.padded(batch.teacher_messages, teacher.padding)),
                        teacher(self.padded(batch.teacher_cards, teacher.padding)),
                    )
            own = kept[0] @ kept[1].T
            other = (torch.tensor(batch.other_messages), torch.tensor(batch.other_cards))
            other_messages, other_cards = (which.to(self.device) for which in other)
            off = self.ambiguous(batch.numbers)
            return objective.loss(learned, taught, own, other_messages, other_cards, off, strangers)

        groups = [
            {"params": student.dense.parameters(), "lr": 3e-4 * self.chosen.rate},
            {"params": student.table.parameters(), "lr": 1.5e-3 * self.chosen.rate},
            {"params": [scale], "lr": 1e-2},
        ]
        batches = self.batches(self.chosen.distil, with_student=True)
        self.fit(student, self.chosen.distil, batches, loss, groups, decay=0.0)
        student.bits = 0
        return student

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
        """Train with a short warm-up, then a rate that falls to 2 %."""
        optimizer = torch.optim.AdamW(groups, weight_decay=decay, betas=(0.9, 0.98))
        warm_up = max(1, steps // 15)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / warm_up, max(0.02, (steps - step) / steps))
        )
        model.train()
        for step, batch in enumerate(batches, 1):
            value = loss(batch)
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            if step % max(1, steps // 5) == 0:
                self.log(f"step {step} of {steps}, loss {value.item():.3f}")
        model.eval()

    def batches(self, steps: int, *, with_student: bool) -> Iterator[Inputs]:
        """Yield batches from processes that draw and cut them beside the training; their order varies."""
        context = multiprocessing.get_context("fork")
        queue = context.Queue(2 * self.chosen.workers)

        def work(stream: int) -> None:
            os.environ["TOKENIZERS_PARALLELISM"] = "false"
            self.pairs.seed(self.chosen.seed, stream)
            choices = np.random.default_rng(self.chosen.seed + stream)
            while True:
                is_long = bool(choices.random() < self.chosen.long)
                drawn = self.pairs.batch(self.chosen.batch, is_long=is_long)
                queue.put(self.cut(drawn, LONG_TOKENS if is_long else SHORT_TOKENS, with_student=with_student))

        workers = [context.Process(target=work, args=(stream,), daemon=True) for stream in range(self.chosen.workers)]
        for worker in workers:
            worker.start()
        try:
            for _ in range(steps):
                yield queue.get()
        finally:
            for worker in workers:
                worker.terminate()

    def cut(self, batch: Batch, limit: int, *, with_student: bool) -> Inputs:
        """Return a batch as tokens."""
        tokens = self.tokenizers
        return Inputs(
            batch.numbers,
            tokens.for_teacher(batch.english, limit),
            tokens.for_teacher(batch.cards, CARD_TOKENS),
            tokens.for_student(batch.messages, limit) if with_student else [],
            tokens.for_student(batch.cards, CARD_TOKENS) if with_student else [],
            tokens.for_teacher(batch.strangers, limit),
            tokens.for_student(batch.strangers, limit) if with_student else [],
            has_other_script(batch.english),
            has_other_script(batch.cards),
        )

    @torch.no_grad()
    def find_alike(self, teacher: Teacher) -> None:
        """Compare all cards: which look alike is what batches are made from, and what is no negative."""
        texts = [f"{card.name} . {card.description}" for card in self.pairs.cards]
        tokens = self.tokenizers.for_teacher(texts, CARD_TOKENS)
        order = np.argsort([len(row) for row in tokens])
        parts: list[Tensor] = []
        for some in np.array_split(order, max(1, len(order) // 1024)):
            with self.half_precision():
                parts.append(teacher(self.padded([tokens[place] for place in some], teacher.padding)).float())
        self.vectors = torch.cat(parts)[torch.tensor(np.argsort(order), device=self.device)]
        near: list[np.ndarray] = []
        for some in self.vectors.split(4096):
            cosines = some @ self.vectors.T
            cosines[cosines > _SAME_COSINE] = -1  # the same skill again
            near.append(cosines.topk(min(_ALIKE, cosines.shape[1]), 1).indices.cpu().numpy())
        self.pairs.near = np.concatenate(near)

    def ambiguous(self, numbers: np.ndarray) -> Tensor:
        """Return which cards are not negatives for which messages: near-equal cards, or the same one again."""
        cards = torch.tensor(numbers, device=self.device)
        vectors, is_card = self.vectors[cards.clamp(min=0)], cards >= 0
        alike = (vectors @ vectors.T > _ALIKE_COSINE) & is_card[:, None] & is_card[None]
        return (alike | (cards[:, None] == cards[None])).fill_diagonal_(fill_value=False)

    def padded(self, tokens: Tokens, padding: int) -> Tensor:
        """Return tokens as a matrix, its width a multiple of 8."""
        width = -(-max(map(len, tokens)) // 8) * 8
        rows = np.full((len(tokens), width), padding)
        for row, numbers in zip(rows, tokens, strict=True):
            row[: len(numbers)] = numbers
        return torch.from_numpy(rows).to(self.device)

    def half_precision(self) -> torch.autocast:
        """Compute products in bfloat16 on a GPU."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type != "cpu")


class Distillation(NamedTuple):
    """The loss of the student."""

    teacher_share: float
    """The share of the teacher in the similarities to learn; the rest are those of the student before."""
    absolute: float
    """The weight of the loss that puts similarities of all messages on one scale."""
    scale: nn.Parameter

    def loss(
        self,
        learned: tuple[Tensor, Tensor],
        taught: tuple[Tensor, Tensor],
        own: Tensor,
        other_messages: Tensor,
        other_cards: Tensor,
        off: Tensor,
        strangers: Tensor | None,
    ) -> Tensor:
        """Return the loss; `learned` and `taught` are vectors of messages and cards, `off` marks what is no negative."""
        same = torch.eye(len(own), dtype=torch.bool, device=own.device)
        goal = self.teacher_share * taught[0] @ taught[1].T + (1 - self.teacher_share) * own
        card_goal = (taught[1] @ taught[1].T).masked_fill(same, -100.0)
        losses: list[Tensor] = []
        for size in (2 * HALF_OUTPUT, HALF_OUTPUT):
            messages, cards = _first(learned[0], size), _first(learned[1], size)
            near = messages @ cards.T
            value = 0.4 * contrast(messages, cards, off, strangers, size)
            value = value + divergence(near, goal, other_messages, other_cards)
            value = value + 0.5 * divergence(near.T, goal.T, other_cards, other_messages)
            among = (cards @ cards.T).masked_fill(same, -100.0)
            value = value + 0.5 * divergence(among, card_goal, other_cards, other_cards)
            if self.absolute:
                value = value + self.absolute * self._scale_loss(near, same, off)
                if strangers is not None:
                    logits = self.scale[0].exp() * (_first(strangers, size) @ cards.T) + self.scale[1]
                    value = value - self.absolute * functional.logsigmoid(-logits).sum() / len(near)
            if other_messages.any():
                # The teacher reads English only: messages in other scripts keep the similarities they had.
                wanted = functional.log_softmax(own[other_messages] / TEMPERATURE, 1)
                found = functional.log_softmax(near[other_messages] / TEMPERATURE, 1)
                value = value + functional.kl_div(found, wanted, log_target=True, reduction="sum") / len(near)
            losses.append(value)
        return torch.stack(losses).mean()

    def _scale_loss(self, near: Tensor, same: Tensor, off: Tensor) -> Tensor:
        """Return the loss of telling each pair apart on its own, as a yes or no."""
        signs = torch.where(same, 1.0, -1.0).masked_fill(off, 0.0)
        logits = self.scale[0].exp() * near + self.scale[1]
        return -(functional.logsigmoid(signs * logits) * (signs != 0)).sum() / len(near)


def contrast(messages: Tensor, cards: Tensor, off: Tensor, strangers: Tensor | None, size: int) -> Tensor:
    """Return InfoNCE in both directions, from cards to messages and strangers at half the weight."""
    messages, cards = _first(messages, size), _first(cards, size)
    near = (messages @ cards.T / TEMPERATURE).masked_fill(off, _NEVER)
    target = torch.arange(len(messages), device=messages.device)
    back = near.T if strangers is None else torch.cat([near.T, cards @ _first(strangers, size).T / TEMPERATURE], 1)
    return functional.cross_entropy(near, target) + 0.5 * functional.cross_entropy(back, target)


def divergence(found: Tensor, goal: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return how far rows of similarities are from the goal, without the marked rows and columns."""

    def spread(near: Tensor) -> Tensor:
        return functional.log_softmax((near / TEMPERATURE).masked_fill(columns[None], _NEVER), 1)[~rows]

    return functional.kl_div(spread(found), spread(goal), log_target=True, reduction="batchmean")


def _first(vectors: Tensor, size: int) -> Tensor:
    return functional.normalize(vectors[:, :size].float(), dim=-1)


def _cut(tokens: np.ndarray, limit: int) -> np.ndarray:
    """Return at most `limit` tokens, the last one always: it ends the text."""
    return tokens if len(tokens) <= limit else np.append(tokens[: limit - 1], tokens[-1])


def main() -> None:
    """Train one round."""
    parser = argparse.ArgumentParser(description="Train the encoder on one GPU.")
    parser.add_argument("work", type=Path, help="the folder that prepare.py wrote")
    parser.add_argument("pairs", type=Path, help="pairs.json.xz")
    parser.add_argument("output", type=Path, help="the folder for teacher.npz and student.npz")
    parser.add_argument("--exclude", type=Path, help="cards whose messages are not used (excluded.jsonl)")
    parser.add_argument("--written", type=Path, nargs="+", default=(), help="messages that were written for cards")
    parser.add_argument("--written-share", type=float, default=0.33, help="their share of a batch")
    parser.add_argument("--resume", type=Path, help="the output of an earlier round")
    parser.add_argument("--tune", type=int, default=450, help="steps of the teacher, without --resume")
    parser.add_argument("--distil", type=int, default=900, help="steps of the student")
    parser.add_argument("--long", type=float, default=0.2, help="the share of batches with long messages")
    parser.add_argument("--teacher", type=float, default=0.65, help="the share of the teacher in what is learned")
    parser.add_argument("--bits", type=int, default=0, choices=(0, 4, 5), help="round the table while learning")
    parser.add_argument("--rate", type=float, default=1.0, help="a factor for the learning rate of the student")
    parser.add_argument("--absolute", type=float, default=0.0, help="the weight of the loss for one common scale")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--device", default="cuda")
    chosen = parser.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(chosen.seed)
    torch.backends.cuda.matmul.allow_tf32 = True
    training = Training(chosen)
    source = chosen.resume or chosen.work
    teacher = Teacher(source / ("teacher.npz" if chosen.resume else "minilm.npz")).to(training.device).eval()
    student = Student(source / ("student.npz" if chosen.resume else "use.npz")).to(training.device).eval()
    if chosen.resume:
        student.round(RESUMED_BITS)
    else:
        teacher = training.tune(teacher)
    teacher.save(chosen.output / "teacher.npz")
    training.distil(teacher, student).save(chosen.output / "student.npz")
    training.log("done")


if __name__ == "__main__":
    main()
