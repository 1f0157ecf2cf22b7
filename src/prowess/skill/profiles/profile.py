"""What a profile is: the rules by which one client, or one standard, judges a skill."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from prowess.errors import Problem, Severity
from prowess.skill.forms.form import Reading
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.profiles.codes import EXPLAINED_BY, MARKERS

ProfileName = Literal["agentskills", "claude-api", "claude-code", "codex", "mcp", "bernstein", "prowess"]
PROFILE_NAMES: tuple[ProfileName, ...] = get_args(ProfileName)

_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One named set of rules.

    `check` gives what this profile has to say about what was read within limits. Of what the readers report, `superseded` is left out
    because `check` says it in its own words, and the rest is graded by `severities` (None leaves it out), or else no
    higher than `ceiling`: what Prowess cannot use another client may well take.

    Where the profile cannot take the frontmatter as it is written (codes `strict-…`) and a reader has found out why, the
    reader's problem stands for both, as an error; `refusal` is the sentence that says whose rule it is.
    """

    name: ProfileName
    summary: str
    check: Callable[[Reading, Limits], Iterable[Problem]]
    refusal: str = ""
    superseded: Collection[str] = frozenset()
    severities: Mapping[str, Severity | None] = field(default_factory=dict[str, "Severity | None"])
    ceiling: Severity = "warning"

    def judge(self, reading: Reading, limits: Limits = DEFAULT_LIMITS) -> tuple[Problem, ...]:
        """Everything this profile finds, worst first, then by line; nothing twice."""
        own = list(self.check(reading, limits))
        codes = {problem.code for problem in own}
        reported = [problem for problem in reading.problems if problem.code not in self.superseded]
        causes = {code for strict in codes for code in EXPLAINED_BY.get(strict, ())}
        found = [self._graded(problem, causes) for problem in reported]
        known = {problem.code for problem in reported}
        found += [self._told(problem) for problem in own if not known & EXPLAINED_BY.get(problem.code, frozenset())]
        return tuple(sorted(dict.fromkeys(problem for problem in found if problem), key=_order))

    def _graded(self, problem: Problem, causes: set[str]) -> Problem | None:
        if problem.code in causes:
            return self._told(replace(problem, severity="error"))
        highest = max(problem.severity, self.ceiling, key=_RANK.__getitem__)
        severity = self.severities.get(problem.code, highest)
        if severity is None or severity == problem.severity:
            return problem if severity else None
        return replace(problem, severity=severity)

    def _told(self, problem: Problem) -> Problem:
        """A refusal of the frontmatter with the sentence that says who refuses it; anything else as it is."""
        if problem.severity != "error" or problem.code not in REFUSED:
            return problem
        return replace(problem, message=f"{problem.message} {self.refusal}".rstrip())


_MISSING = MARKERS | {"no-skill-md", "strict-encoding", "strict-frontmatter"}
REFUSED = frozenset({*EXPLAINED_BY, "strict-flow", "strict-indentation"}).union(*EXPLAINED_BY.values()) - _MISSING
"""Ways of writing that only some clients refuse; that the file or its markers are missing needs no such sentence."""


def _order(problem: Problem) -> tuple[int, int, str]:
    return (_RANK[problem.severity], problem.line or 0, problem.code)
