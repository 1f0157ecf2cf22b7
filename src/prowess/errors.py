"""Every error that Prowess raises on purpose.

ProwessError(message, *, hint)
├── NotFound          the skill, artifact, file or version does not exist
├── Invalid           the input is not valid; `.problems` lists every problem
│   └── TooLarge          it exceeds a size limit
├── Refused           denied by a rule, a person or a limit
│   ├── BudgetExceeded    the text does not fit into the prompt
│   ├── ApprovalRequired  an approval is pending
│   ├── ApprovalDenied    the request was denied, or expired
│   └── SpendExceeded     the cost would exceed a spending limit
├── Conflict          a concurrent change, or two skills with the same name
│   ├── DuplicateSkill    the slug is already taken in its scope
│   └── PreconditionFailed  the skill has changed since the caller read it
├── Unavailable       a dependency is missing; a fallback may work
│   ├── NoHandler         no handler for this kind of artifact
│   ├── NoModel           no model is configured
│   └── TryLater          temporarily unreachable; retry later
└── RunFailed         the run gave no usable result
    ├── AnswerUnusable    the model's answer cannot be used
    ├── AssertionFailed   an output failed a hard assertion
    ├── OutputInvalid     the answer does not match its schema, even after a retry
    ├── SidecarFailed     the DSPy sidecar ended while it worked, or its program failed
    └── TimedOut          the time limit was reached

`code` is stable and meant for programs; the message says what happened and `hint` what to do next.
Each interface translates the tree in one place, for example the command line to exit codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from prowess.lazy_dataclass import dataclass

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem found in a skill, with a message for the person who fixes it.

    `field` is the frontmatter key, file or artifact that it is about, and `line` the line in that file, counted from 1.
    Both are None if the problem concerns the skill as a whole.
    """

    code: str
    severity: Severity
    message: str
    hint: str = ""
    field: str | None = None
    line: int | None = None

    @property
    def place(self) -> str:
        """The field and the line, such as `SKILL.md:3`, as far as the message does not have them."""
        field = None if self.field and self.message.startswith(f"{self.field}:") else self.field
        line = None if f"line {self.line}" in self.message else self.line
        return ":".join(str(part) for part in (field, line) if part is not None)


class ProwessError(Exception):
    """The base of the tree. Interfaces catch this class; every other exception is a bug."""

    code: ClassVar[str] = "error"
    location: str = ""
    """Where the database is that the message names. Only its operator needs to know that."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self._notes: tuple[str, ...] = ()

    # A property and no call of `add_note`, because the hint may be replaced later, to redact a secret in it.
    @property
    def __notes__(self) -> list[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The hint, and notes that were added. Python prints them below the message of a traceback."""
        return [note for note in (self.hint, *self._notes) if note]

    def add_note(self, note: str, /) -> None:
        """Add a note to print after the hint."""
        self._notes = (*self._notes, note)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are otherwise copied and unpickled by a call with the message alone, which lacks required arguments.
        return BaseException.__new__, (type(self), *self.args), self.__dict__

    def for_agent(self) -> ProwessError:
        """Return the error as an agent may be told it."""
        return self.without_location() if "://" in self.location else self

    def without_location(self) -> ProwessError:
        """Return the error as callers of a server are told it: without where the database is, which only the log has."""
        if not self.location:
            return self
        import logging  # only here: importing it takes 2 % of a short command

        logging.getLogger(__name__).warning("A request failed: %s", self.message)
        if isinstance(self, Unavailable):
            # What the driver says has the address in words of its own.
            return Unavailable("The database does not answer.", hint="Try again. The server's log says more.")
        told = copy(self)
        told.message, told.hint = (text.replace(self.location, "the database") for text in (self.message, self.hint))
        told.location = ""
        told.args = (told.message,)
        return told

    def as_json(self) -> dict[str, str]:
        """Return code, message and hint as a JSON object."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


class NotFound(ProwessError):
    """The requested item does not exist, or cannot be used.

    `for_agents` is the message for agents if `message` quotes files that nobody may have accepted.
    """

    code = "not-found"

    def __init__(self, message: str, *, hint: str = "", for_agents: str = "") -> None:
        super().__init__(message, hint=hint)
        self.for_agents = for_agents

    def for_agent(self) -> ProwessError:
        """Return the error without text of files that nobody may have accepted."""
        if not self.for_agents:
            return super().for_agent()
        return NotFound(self.for_agents, hint="Ask the user to run `prowess doctor` for details.")


class Invalid(ProwessError):
    """The input is not valid. `problems` lists every problem, not just the first."""

    code = "invalid"

    def __init__(self, message: str, *, hint: str = "", problems: Sequence[Problem] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class TooLarge(Invalid):
    """The input exceeds a size limit."""

    code = "too-large"


class Refused(ProwessError):
    """Denied by a rule, a person or a limit."""

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
    """Approval is required first; `approval_id` identifies the request."""

    code = "approval-required"

    def __init__(self, message: str, *, approval_id: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.approval_id = approval_id


class ApprovalDenied(Refused):
    """The request was denied, or expired without an answer."""

    code = "approval-denied"


class SpendExceeded(Refused):
    """The cost would exceed the spending limit of this session, day or run."""

    code = "spend-exceeded"


class Conflict(ProwessError):
    """A concurrent change came first, or two skills have the same name."""

    code = "conflict"


class DuplicateSkill(Conflict):
    """The slug is already taken in this scope."""

    code = "duplicate-skill"


class PreconditionFailed(Conflict):
    """The skill does not fulfil the `If-Match` or `If-None-Match` of a request over HTTP.

    `etag` and `version`, the number of a version, are those that it has now.
    """

    code = "precondition-failed"

    def __init__(self, message: str, *, hint: str = "", etag: str = "", version: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.etag = etag
        self.version = version


DuplicateSkillError = DuplicateSkill
"""The same error under the name that other skill loaders give it."""


class Unavailable(ProwessError):
    """A dependency is not installed, not running or not reachable."""

    code = "unavailable"


class NoHandler(Unavailable):
    """No handler supports this kind of artifact."""

    code = "no-handler"


class NoModel(Unavailable):
    """No model is configured."""

    code = "no-model"


class TryLater(Unavailable):
    """A service is overloaded or unreachable. `retry_after` is the number of seconds to wait, if known."""

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
    """The model answered, but the answer cannot be used.

    `tokens` are the tokens read and written, `cost` is the price in US dollars; each is None if unknown.
    """

    code = "answer-unusable"

    def __init__(
        self, message: str, *, hint: str = "", tokens: tuple[int, int] | None = None, cost: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.tokens = tokens
        self.cost = cost


class AssertionFailed(RunFailed):
    """An output failed a hard assertion; the trace has every verdict."""

    code = "assertion-failed"


class OutputInvalid(RunFailed):
    """The answer does not match its schema; `problems` lists the differences."""

    code = "output-invalid"

    def __init__(self, message: str, *, hint: str = "", problems: Sequence[Problem] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class SidecarFailed(RunFailed):
    """The DSPy sidecar ended while it worked, or the program that it ran failed."""

    code = "sidecar-failed"


class TimedOut(RunFailed):
    """The time limit was reached."""

    code = "timed-out"
