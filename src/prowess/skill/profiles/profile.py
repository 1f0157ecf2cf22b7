"""The type of a profile, and the codes of the problems that profiles report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from prowess.errors import Problem, Severity
from prowess.skill.forms.form import Reading
from prowess.skill.limits import DEFAULT_LIMITS, Limits

CODES: dict[str, str] = {
    "asks-for": "The skill asks for something (tools, hooks, servers, commands); nothing of it is granted by keeping it.",
    "assertion-invalid": "An assertion lacks something that its check needs, or has it in another form.",
    "assertion-not-installed": "An assertion is of the type of a plugin that is not installed; it fails in every run.",
    "assertion-pattern": "An assertion has a regular expression that RE2 refuses, or that would cost too much.",
    "assertion-range": "An assertion asks for a length in a range that has nothing in it.",
    "assertion-schema": "An assertion has a JSON Schema that cannot be used.",
    "assertion-unknown": "An assertion has a type or a check that there is not.",
    "assertions-many": "An artifact has more assertions than are evaluated.",
    "binary": "What should be text is binary data.",
    "body-long": "The text has more lines than the open standard recommends.",
    "command-invalid": "A command that the skill declares cannot be run as it is declared; it is no tool.",
    "compatibility-long": "The compatibility note is over the limit.",
    "compatibility-type": "The compatibility note is not text.",
    "control-characters": "Control characters in the text: an error for those such as ESC in instructions, else a warning.",
    "description-empty": "The description is empty or not text.",
    "description-long": "The description is over the limit of the profile.",
    "description-missing": "There is no description where the profile wants one.",
    "description-short": "The description is under the minimum of the profile.",
    "function-invalid": "A Python function cannot be run as it is written, or its file does not define it; it is no tool.",
    "hidden-text": "Text that people cannot see but models read; `docs/profiles.md` lists what is accepted.",
    "intent-pattern": "A regular expression for matching that RE2 refuses.",
    "intent-pattern-costly": "The regular expressions for matching take too many steps together.",
    "intent-pattern-long": "A regular expression for matching is over the limit.",
    "intent-patterns-many": "There are more regular expressions for matching than are run.",
    "listing-cut": "Description and when_to_use are longer than what the client lists.",
    "markup": "Name or description has angle brackets in it.",
    "mcp-bytes": "The skill has more bytes than the MCP extension allows.",
    "mcp-files": "The skill has more files than the MCP extension allows.",
    "mcp-reserved": "A metadata key has the prefix that the protocol keeps for itself.",
    "missing-file": "A file that the manifest lists is not in the package.",
    "mixed-scripts": "A word of the title has letters of several scripts, such as Latin and Cyrillic.",
    "name-ascii": "The name has letters outside a-z.",
    "name-differs-from-folder": "The name is not the one of the folder that the skill lies in.",
    "name-empty": "The name is empty or not text.",
    "name-long": "The name is over the limit.",
    "name-missing": "There is no name where the profile wants one.",
    "name-pattern": "The name breaks the pattern of the profile.",
    "name-reserved": "The name contains a word that the platform keeps for itself.",
    "need-invalid": "Something that the skill needs outside the sandbox is written so that it cannot be read; it is not given.",
    "no-skill-md": "The package has no SKILL.md.",
    "not-json": "A key or value of the frontmatter has no form in JSON.",
    "openai-yaml": "Something in agents/openai.yaml that Codex passes over.",
    "over-limit": "The package is larger than Prowess keeps.",
    "policy-invalid": "A skill's policy, or what it says about its traces, cannot be read.",
    "request-invalid": "A request that the skill declares cannot be sent as it is declared; one that cannot be read is no tool.",
    "requirements-unused": "Packages are asked for that nothing of the skill is given, since it does not run natively.",
    "slug-look-alike": "The slug has letters that look like others, so that people would take it for another skill's.",
    "strict-anchor": "The frontmatter has an anchor or an alias in it.",
    "strict-duplicate": "The frontmatter has a key twice.",
    "strict-encoding": "The file is not UTF-8 text.",
    "strict-flow": "The frontmatter has a list or mapping in brackets.",
    "strict-frontmatter": "The file does not begin with frontmatter, or the frontmatter does not end.",
    "strict-indentation": "Mappings of one level are indented differently.",
    "strict-mapping": "The frontmatter holds no fields.",
    "strict-size": "The frontmatter is over the size that is read.",
    "strict-tag": "The frontmatter has a type tag in it.",
    "strict-yaml": "The frontmatter is not YAML as it is written.",
    "template-long": "A template, or all of a skill together, is over the size that is rendered.",
    "template-syntax": "A prompt template cannot be read.",
    "template-undeclared": "A prompt template uses an input that neither it nor its skill declares.",
    "unknown-field": "A key that the profile does not know.",
    "unusable": "Nothing could be read that makes a skill.",
    "value-type": "A key has a value of another type than the profile asks for.",
    "value-unknown": "A key has a value that the client does not document.",
}

MARKERS = frozenset(
    {
        "blank-before-frontmatter",
        "bom",
        "comment-before-frontmatter",
        "fenced-frontmatter",
        "frontmatter-not-closed",
        "frontmatter-not-opened",
        "marker-form",
        "no-frontmatter",
        "not-utf8",
        "text-after-marker",
        "text-before-frontmatter",
        "utf-16",
    }
)
_SYNTAX = frozenset(
    {
        "bad-escape",
        "bad-indent",
        "broken-flow",
        "frontmatter-not-a-mapping",
        "leading-sign",
        "line-without-key",
        "list-on-key-line",
        "merge-conflict",
        "nul-character",
        "tab-indent",
        "text-after-block-sign",
        "text-after-list",
        "text-after-quote",
        "unclosed-bracket",
        "unclosed-quote",
        "unescaped-quote",
        "unquoted-colon",
        "yaml-alias",
        "yaml-character",
        "yaml-documents",
        "yaml-duplicate-key",
        "yaml-key",
        "yaml-merge-key",
        "yaml-syntax",
        "yaml-tag",
    }
)

EXPLAINED_BY: dict[str, frozenset[str]] = {
    "no-skill-md": frozenset({"skill-md-spelling"}),
    "strict-anchor": frozenset({"leading-sign", "yaml-alias"}),
    "strict-duplicate": frozenset({"yaml-duplicate-key"}),
    "strict-encoding": frozenset({"not-utf8", "utf-16"}),
    "strict-frontmatter": MARKERS,
    "strict-mapping": frozenset({"empty-frontmatter", "frontmatter-not-a-mapping", "line-without-key", "marker-form"}),
    "strict-size": frozenset({"frontmatter-too-large"}),
    "strict-tag": frozenset({"leading-sign", "yaml-tag"}),
    "strict-yaml": _SYNTAX | MARKERS,
}
"""Problems of the readers that explain why a profile finds no SKILL.md, or cannot read it strictly."""


ProfileName = Literal["agentskills", "claude-api", "claude-code", "codex", "mcp", "bernstein", "prowess"]
PROFILE_NAMES: tuple[ProfileName, ...] = get_args(ProfileName)

_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One named set of rules.

    `check` yields the problems under this profile. Of the problems that the readers report, those in `superseded` are
    left out, because `check` reports them in its own words. The others get the severity from `severities` (None leaves them
    out), or else at most `ceiling`: other clients may accept what Prowess cannot use.

    If the profile rejects the frontmatter (codes `strict-…`) and a reader knows the reason, the reader's problem is reported
    instead, as an error. `refusal` is the sentence that names whose rule it is.
    """

    name: ProfileName
    summary: str
    check: Callable[[Reading, Limits], Iterable[Problem]]
    refusal: str = ""
    superseded: Collection[str] = frozenset()
    severities: Mapping[str, Severity | None] = field(default_factory=dict[str, "Severity | None"])
    ceiling: Severity = "warning"

    def judge(self, reading: Reading, limits: Limits = DEFAULT_LIMITS) -> tuple[Problem, ...]:
        """Return all problems, without duplicates, worst first, then by line."""
        own = list(self.check(reading, limits))
        codes = {problem.code for problem in own}
        reported = [problem for problem in reading.problems if problem.code not in self.superseded]
        causes = {code for strict in codes for code in EXPLAINED_BY.get(strict, ())}
        # The reader's problem replaces the refusal that it explains: it names the line and the fix, and the refusal
        # only says that something is wrong.
        found = [self._graded(problem, causes) for problem in reported]
        known = {problem.code for problem in reported}
        found += [
            self._with_refusal(problem) for problem in own if not known & EXPLAINED_BY.get(problem.code, frozenset())
        ]
        return tuple(sorted(dict.fromkeys(problem for problem in found if problem), key=_order))

    def _graded(self, problem: Problem, causes: set[str]) -> Problem | None:
        if problem.code in causes:
            return self._with_refusal(replace(problem, severity="error"))
        # `error` has rank 0, so the larger rank is the milder severity.
        highest = max(problem.severity, self.ceiling, key=_RANK.__getitem__)
        severity = self.severities.get(problem.code, highest)
        if severity is None or severity == problem.severity:
            return problem if severity else None
        return replace(problem, severity=severity)

    def _with_refusal(self, problem: Problem) -> Problem:
        """Add the sentence that names who rejects the frontmatter to such a problem; return any other unchanged."""
        if problem.severity != "error" or problem.code not in REFUSED:
            return problem
        return replace(problem, message=f"{problem.message} {self.refusal}".rstrip())


_NO_FRONTMATTER = MARKERS | {"no-skill-md", "strict-encoding", "strict-frontmatter"}
REFUSED = (
    frozenset({*EXPLAINED_BY, "strict-flow", "strict-indentation"}).union(*EXPLAINED_BY.values()) - _NO_FRONTMATTER
)
"""Ways of writing that only some clients reject. Missing files and markers do not need the sentence."""


def _order(problem: Problem) -> tuple[int, int, str]:
    return (_RANK[problem.severity], problem.line or 0, problem.code)
