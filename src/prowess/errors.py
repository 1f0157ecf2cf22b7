"""Every error that Prowess raises on purpose.

ProwessError(message, *, hint)
├── NotFound          no such skill, artifact, file or version
├── Invalid           the input is wrong; `.problems` lists every problem
├── Refused           a rule, a person or a limit says no
│   ├── BudgetExceeded    the text does not fit into the prompt
│   ├── ApprovalRequired  a person was asked and has not answered yet
│   ├── ApprovalDenied    a person said no, or nobody answered in time
│   └── SpendExceeded     it would cost more than may be spent
├── Conflict          two changes, or two skills with one name
│   └── DuplicateSkill    the slug is already taken in its scope
├── Unavailable       something is missing; a fallback may serve
│   ├── NoHandler         no handler for artifacts of that kind
│   ├── NoModel           no model is configured
│   └── TryLater          not reachable now; the same request may work later
└── RunFailed         the run gave no usable result
    ├── AnswerUnusable    a model's answer cannot be used
    ├── AssertionFailed   an output did not pass a hard assertion
    ├── OutputInvalid     an answer does not fit its schema, also after the retry
    └── TimedOut          the time limit was reached

`code` is stable and meant for programs; the message says what happened and `hint` what to do next.
Each interface translates the tree in one place, for example the command line to exit codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem found in a skill, worded so that a person can fix it.

    `field` is the frontmatter key, file or artifact that it is about, and `line` the line in that file, counted from 1.
    Both are None if the problem concerns the skill as a whole.
    """

    code: str
    severity: Severity
    message: str
    hint: str = ""
    field: str | None = None
    line: int | None = None


class ProwessError(Exception):
    """The base of the tree. Interfaces catch this class; every other exception is a bug."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NotFound(ProwessError):
    """Nothing has that name."""

    code = "not-found"


class Invalid(ProwessError):
    """The input cannot be accepted. `problems` lists every problem that was found, not just the first."""

    code = "invalid"

    def __init__(self, message: str, *, hint: str = "", problems: Sequence[Problem] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class Refused(ProwessError):
    """A rule, a person or a limit said no."""

    code = "refused"


class BudgetExceeded(Refused):
    """The text does not fit into the prompt budget.

    `limit`, `used` and `need` are numbers of characters; `room` lists the skills that would make room if they were disabled.
    """

    code = "budget-exceeded"

    def __init__(
        self, message: str, *, limit: int, used: int, need: int, room: Sequence[str] = (), hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.limit = limit
        self.used = used
        self.need = need
        self.room = tuple(room)


class ApprovalRequired(Refused):
    """A person has to agree first; `approval_id` identifies the question."""

    code = "approval-required"

    def __init__(self, message: str, *, approval_id: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.approval_id = approval_id


class ApprovalDenied(Refused):
    """A person said no, or nobody answered in time."""

    code = "approval-denied"


class SpendExceeded(Refused):
    """It would cost more than may be spent in this session, on this day or in this run."""

    code = "spend-exceeded"


class Conflict(ProwessError):
    """Somebody else changed it first, or two skills claim the same name."""

    code = "conflict"


class DuplicateSkill(Conflict):
    """The slug is already taken in this scope."""

    code = "duplicate-skill"


class Unavailable(ProwessError):
    """Something that is needed is not installed, not running or not reachable."""

    code = "unavailable"


class NoHandler(Unavailable):
    """No handler runs artifacts of that kind."""

    code = "no-handler"


class NoModel(Unavailable):
    """No model is configured."""

    code = "no-model"


class TryLater(Unavailable):
    """It is overloaded or out of reach now. `retry_after` is the number of seconds to wait, if known."""

    code = "try-later"

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class RunFailed(ProwessError):
    """The run gave no usable result.

    `result` is what a failed generation or review still has to say, under the names that AgentLayerRules uses; usually empty.
    """

    code = "run-failed"
    result: Mapping[str, Any] = MappingProxyType({})


class AnswerUnusable(RunFailed):
    """A model answered, but the answer cannot be used.

    `tokens` has how many tokens the model read and wrote, `cost` the price in US dollars; each is None if unknown.
    """

    code = "answer-unusable"

    def __init__(
        self, message: str, *, hint: str = "", tokens: tuple[int, int] | None = None, cost: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.tokens = tokens
        self.cost = cost


class AssertionFailed(RunFailed):
    """An output did not pass a hard assertion; the trace has every verdict."""

    code = "assertion-failed"


class OutputInvalid(RunFailed):
    """An answer does not fit what was asked for; `problems` says how."""

    code = "output-invalid"

    def __init__(self, message: str, *, hint: str = "", problems: Sequence[Problem] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class TimedOut(RunFailed):
    """It took longer than allowed."""

    code = "timed-out"
