"""Every error that Prowess raises on purpose.

ProwessError(message, *, hint)
├── NotFound          no such skill, artifact, file or version
├── Invalid           the input is wrong; `.problems` names every fault
├── Refused           a rule, a person or a limit says no
│   ├── BudgetExceeded    the text does not fit into the prompt
│   ├── ApprovalRequired  a person has been asked and has not answered yet
│   ├── ApprovalDenied    a person said no, or nobody answered in time
│   └── SpendExceeded     it would cost more than may be spent
├── Conflict          two claim one name or one version
│   └── DuplicateSkill    a slug that is already taken in its scope
├── Unavailable       a part is not there; a fallback may serve
│   ├── NoHandler         nothing here runs artifacts of that kind
│   ├── NoModel           no model is configured
│   └── TryLater          it cannot be reached just now; the same may work later
└── RunFailed         it ran and gave nothing good
    ├── AnswerUnusable    a model answered with nothing that can be used
    ├── AssertionFailed   an output did not pass a hard assertion
    ├── OutputInvalid     an answer is not what was asked for, also after the retry
    └── TimedOut          its time was over

`code` is stable and meant for programs; the message says what happened and `hint` what to do next.
Each door translates a family once: the command line to an exit code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing found wrong with a skill, told so that a person can mend it.

    `field` is the frontmatter key, file or artifact it is about and `line` the line in that file, counted from 1;
    both are None where the problem belongs to the skill as a whole.
    """

    code: str
    severity: Severity
    message: str
    hint: str = ""
    field: str | None = None
    line: int | None = None


class ProwessError(Exception):
    """What every door catches; nothing else leaves the engine on purpose."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NotFound(ProwessError):
    """There is nothing by that name here."""

    code = "not-found"


class Invalid(ProwessError):
    """The input cannot be accepted; `problems` lists every fault that was found, not just the first."""

    code = "invalid"

    def __init__(self, message: str, *, hint: str = "", problems: Sequence[Problem] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class Refused(ProwessError):
    """A rule, a person or a limit said no."""

    code = "refused"


class BudgetExceeded(Refused):
    """The prompt budget has no room: `limit` and `used` in characters, what is `need`ed, and which skills make `room`."""

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
    """Not before a person agrees; `approval_id` is what they are asked about."""

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
    """Somebody else changed it first, or two claim the same name."""

    code = "conflict"


class DuplicateSkill(Conflict):
    """The slug is taken in this scope."""

    code = "duplicate-skill"


class Unavailable(ProwessError):
    """A part that is needed is not installed, not running or not reachable."""

    code = "unavailable"


class NoHandler(Unavailable):
    """Nothing here runs artifacts of that kind."""

    code = "no-handler"


class NoModel(Unavailable):
    """No model is configured."""

    code = "no-model"


class TryLater(Unavailable):
    """It is overloaded or out of reach just now; `retry_after` is in how many seconds to try again, where it says so."""

    code = "try-later"

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class RunFailed(ProwessError):
    """It ran and gave nothing good."""

    code = "run-failed"


class AnswerUnusable(RunFailed):
    """A model answered, and its answer is of no use.

    `tokens` says how many it read and wrote, and `cost` what for, in US dollars; both are None where that is not known.
    """

    code = "answer-unusable"

    def __init__(
        self, message: str, *, hint: str = "", tokens: tuple[int, int] | None = None, cost: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.tokens = tokens
        self.cost = cost


class AssertionFailed(RunFailed):
    """An output did not pass a hard assertion; its trace has every verdict."""

    code = "assertion-failed"


class OutputInvalid(RunFailed):
    """An answer is not what was asked for; `problems` says how it differs."""

    code = "output-invalid"

    def __init__(self, message: str, *, hint: str = "", problems: Sequence[Problem] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class TimedOut(RunFailed):
    """It took longer than it may."""

    code = "timed-out"
