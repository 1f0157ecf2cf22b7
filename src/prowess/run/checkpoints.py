"""Checkpoints: a journal of what the host answered to a script, stored so that an interrupted run can be resumed."""

from __future__ import annotations

import hashlib
import json
import secrets
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from prowess.errors import NotFound, ProwessError
from prowess.lazy_dataclass import dataclass
from prowess.redaction.redactor import Redactor
from prowess.run.call import Call
from prowess.sandbox.protocol import HostFunction
from prowess.skill.kinds import JsonObject
from prowess.storage import checkpoints
from prowess.storage.checkpoints import CheckpointRow
from prowess.storage.database import Connections
from prowess.storage.owner import Owner
from prowess.threads import offload

CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One host call and its answer as JSON; None for a refused call, which is made again on replay."""

    name: str
    asked: str
    """Hash of the arguments."""
    answer: str | None


class Journal:
    """Records host calls; a resumed run first replays the journal of the interrupted one."""

    def __init__(self, *, seed: str, known: Sequence[JournalEntry] = ()) -> None:
        self.seed = seed
        self._known = list(known)
        self._entries: list[JournalEntry] = []
        self.replayed = 0
        """Calls that were answered from the journal."""

    @property
    def entries(self) -> tuple[JournalEntry, ...]:
        """All calls so far."""
        return tuple(self._entries)

    @property
    def size(self) -> int:
        """Total characters of the answers."""
        return sum(len(entry.answer or "") for entry in self._entries)

    def over(
        self, functions: Mapping[str, HostFunction], reached: Callable[[], Awaitable[None]]
    ) -> dict[str, HostFunction]:
        """Return the functions, answered from the journal where possible; await `reached` at every new checkpoint."""
        return {name: self._journaled(name, function, reached) for name, function in functions.items()}

    def _journaled(self, name: str, function: HostFunction, reached: Callable[[], Awaitable[None]]) -> HostFunction:
        async def answer(*args: Any, **kwargs: Any) -> Any:
            arguments_digest = hashlib.sha256(json.dumps([args, kwargs], sort_keys=True).encode()).hexdigest()[:32]
            known = self._next(name, arguments_digest)
            if known is not None and known.answer is not None:
                self.replayed += 1
                # Kept in this run's own journal too: it may be interrupted again.
                self._entries.append(known)
                return json.loads(known.answer)
            try:
                value = await function(*args, **kwargs)
            except ProwessError:
                # The reason for a refusal may be gone when the run is resumed, so the call is made again then.
                self._entries.append(JournalEntry(name=name, asked=arguments_digest, answer=None))
                raise
            self._entries.append(JournalEntry(name=name, asked=arguments_digest, answer=json.dumps(value)))
            if name == CHECKPOINT:
                await reached()
            return value

        return answer

    def _next(self, name: str, arguments_digest: str) -> JournalEntry | None:
        """Return the journal's next entry if it is this call. If the script takes another path, forget the rest."""
        if not self._known:
            return None
        entry = self._known.pop(0)
        if (entry.name, entry.asked) != (name, arguments_digest):
            # The script took another path, so later answers would belong to other questions.
            self._known.clear()
            return None
        return entry


MAX_JOURNAL_CHARS = 16 * 1024 * 1024
"""Characters of answers that a checkpoint may have."""
_SHORTEST_ID = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state to resume a run from: the artifact and its digest, the inputs, and the artifacts that follow."""

    trace: str
    slug: str
    digest: str
    artifact: str
    following: tuple[str, ...]
    inputs: JsonObject
    journal: Journal


class Checkpoints:
    """Stores checkpoints until their run succeeds. Each user sees only their own."""

    def __init__(self, records: Callable[[], Connections], redactor: Redactor) -> None:
        self._records = records
        self._redactor = redactor

    async def begin(self, call: Call) -> Journal:
        """Return the journal of the run that the call resumes, or an empty one.

        An artifact of a durable run that was interrupted continues from its own last checkpoint.
        """
        if not call.resumes:
            if call.request.journal is not None and (found := await offload(self._find_earlier, call)) is not None:
                return found.journal
            # The seed of `random` in the script: a resumed run must draw the same numbers to make the same calls.
            return Journal(seed=secrets.token_hex(16))
        return (await offload(find_checkpoint, self._records, call.actor.owner, call.resumes)).journal

    async def keep(self, call: Call, journal: Journal) -> None:
        """Store the journal. If that is not allowed, would store secrets or is too large, the trace says so instead."""
        why = _why_not(call, journal) or await offload(self._why_secret, call, journal)
        calls = len(journal.entries)
        call.notes.detail["checkpoint"] = {"calls": calls, "kept": not why, **({"why": why} if why else {})}
        if not why:
            await offload(self._keep, call, journal)

    async def forget(self, call: Call) -> None:
        """Delete the checkpoint of a run that succeeded."""
        if call.request.journal is not None:
            await offload(self._forget_earlier, call)
        if "checkpoint" in call.notes.detail or call.resumes:
            call.notes.detail.get("checkpoint", {}).pop("kept", None)
            await offload(self._forget, call)

    def _why_secret(self, call: Call, journal: Journal) -> str:
        """Return why the journal cannot be stored: it has secrets, and a redacted journal could not be replayed."""
        texts = [dict(call.inputs), *(json.loads(entry.answer) for entry in journal.entries if entry.answer)]
        hidden = call.notes.secrets.redact_json(texts)
        # `is_clean` is a quick check that may report a secret where there is none; then the redactor decides.
        if hidden == texts and (self._redactor.is_clean(json.dumps(texts)) or self._redactor.value(texts) == texts):
            return ""
        return "The inputs or answers contain a secret, so no checkpoint is stored."

    def _keep(self, call: Call, journal: Journal) -> None:
        row = CheckpointRow(
            trace_id=call.id,
            skill_slug=call.skill.slug,
            skill_digest=call.skill.digest,
            artifact_name=call.artifact.name,
            following=list(call.following),
            seed=journal.seed,
            journal=_written(call, journal),
        )
        with self._records().write() as connection:
            checkpoints.keep(connection, call.actor.owner, row)

    def _find_earlier(self, call: Call) -> Checkpoint | None:
        with self._records().read() as connection:
            row = checkpoints.find_of_run(connection, call.actor.owner, call.run.id, call.artifact.name)
        return _read(row) if row is not None and row.skill_digest == call.skill.digest else None

    def _forget_earlier(self, call: Call) -> None:
        with self._records().write() as connection:
            checkpoints.remove_of_run(connection, call.actor.owner, call.run.id, call.artifact.name)

    def _forget(self, call: Call) -> None:
        with self._records().write() as connection:
            checkpoints.remove(connection, call.actor.owner, [call.id, *([call.resumes] if call.resumes else [])])


def find_checkpoint(records: Callable[[], Connections], owner: Owner, trace: str) -> Checkpoint:
    """Return the checkpoint of a run, by the id of its trace or at least four of its first characters. Blocking."""
    found: list[CheckpointRow] = []
    # PostgreSQL rejects NUL in a text; such an id is simply unknown.
    if len(trace) >= _SHORTEST_ID and trace.isascii() and trace.isprintable():
        with records().read() as connection:
            found = checkpoints.find(connection, owner, trace)
    if len(found) != 1:
        raise unknown_checkpoint(trace)
    return _read(found[0])


def unknown_checkpoint(trace: str) -> NotFound:
    """Return the error for a run without a checkpoint."""
    return NotFound(
        f"No checkpoint found for the run {trace[:40]!r}.",
        hint="Only an interrupted run whose script called checkpoint() can be resumed. Run `prowess traces list` to find runs.",
    )


def _why_not(call: Call, journal: Journal) -> str:
    allowance = call.run.limits
    # A checkpoint stores inputs and answers; a skill that keeps them out of its trace has none.
    if not (allowance.log_input and allowance.log_output) or allowance.withheld:
        return "The skill does not allow its inputs and outputs to be stored."
    if journal.size > MAX_JOURNAL_CHARS:
        return f"The answers have {journal.size:,} characters, more than the limit of {MAX_JOURNAL_CHARS:,} for a checkpoint."
    return ""


def _written(call: Call, journal: Journal) -> bytes:
    entries = [[entry.name, entry.asked, entry.answer] for entry in journal.entries]
    return zlib.compress(json.dumps({"inputs": dict(call.inputs), "entries": entries}).encode(), 3)


def _read(row: CheckpointRow) -> Checkpoint:
    journal: dict[str, Any] = json.loads(zlib.decompress(row.journal))
    known = [JournalEntry(name=name, asked=asked, answer=answer) for name, asked, answer in journal["entries"]]
    return Checkpoint(
        trace=row.trace_id,
        slug=row.skill_slug,
        digest=row.skill_digest,
        artifact=row.artifact_name,
        following=tuple(row.following),
        inputs=journal["inputs"],
        journal=Journal(seed=row.seed, known=known),
    )
