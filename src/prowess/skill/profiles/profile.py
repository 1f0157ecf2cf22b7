"""The type of a profile, and the codes of the problems that profiles report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import Literal, get_args

from prowess.errors import Problem, Severity
from prowess.lazy_dataclass import dataclass
from prowess.skill.forms.form import Reading
from prowess.skill.limits import DEFAULT_LIMITS, Limits

CODES: dict[str, str] = {
    "asks-for": (
        "The skill requests something (tools, hooks, servers, commands). Storing the skill does not grant it."
    ),
    "assertion-invalid": "An assertion has a missing or invalid setting.",
    "assertion-not-installed": "An assertion has the type of a plugin that is not installed; it fails in every run.",
    "assertion-pattern": "An assertion has a regular expression that is not valid RE2 or too expensive.",
    "assertion-range": "An assertion has an empty range.",
    "assertion-schema": "An assertion has an invalid JSON Schema.",
    "assertion-unknown": "An assertion has an unknown type or check.",
    "assertions-many": "An artifact has too many assertions.",
    "binary": "A text file contains binary data.",
    "body-long": "The text has more lines than the open standard recommends.",
    "code-template-invalid": "A code template is not valid Python, or uses what only prompt templates support; it cannot run.",
    "command-invalid": "A declared command is not valid; it is not offered as a tool.",
    "compatibility-long": "The compatibility note is over the limit.",
    "compatibility-type": "The compatibility note is not a string.",
    "control-characters": (
        "Control characters in the text: an error for those such as ESC in instructions, otherwise a warning."
    ),
    "description-empty": "The description is empty or not a string.",
    "description-long": "The description is over the profile's limit.",
    "description-missing": "The description is missing and the profile requires one.",
    "description-short": "The description is under the profile's minimum.",
    "function-invalid": "A Python function cannot run, or its file does not define it, or a TypeScript file does not export it; "
    "it is not offered as a tool. A warning about an import that a function cannot have.",
    "hidden-text": "Text that people cannot see but models read; `docs/profiles.md` lists what is accepted.",
    "intent-pattern": "A regular expression for matching is not valid RE2.",
    "intent-pattern-costly": "The regular expressions for matching take too many steps together.",
    "intent-pattern-long": "A regular expression for matching is over the limit.",
    "intent-patterns-many": "There are too many regular expressions for matching.",
    "listing-cut": "Description and when_to_use are longer than the client displays.",
    "markup": "Name or description contains angle brackets.",
    "mcp-bytes": "The skill has more bytes than the MCP extension allows.",
    "mcp-files": "The skill has more files than the MCP extension allows.",
    "mcp-reserved": "A metadata key has a prefix that the protocol reserves.",
    "missing-file": "A file that the manifest lists is not in the package.",
    "mixed-scripts": "A word of the title has letters of several scripts, such as Latin and Cyrillic.",
    "name-ascii": "The name has letters outside a-z.",
    "name-differs-from-folder": "The name differs from the name of the skill's folder.",
    "name-empty": "The name is empty or not a string.",
    "name-long": "The name is over the limit.",
    "name-missing": "The name is missing and the profile requires one.",
    "name-pattern": "The name does not match the profile's pattern.",
    "name-reserved": "The name contains a word that the platform reserves.",
    "native-file-unused": "A function or prompt template is only a file, because there is no agents/prowess.yaml.",
    "need-invalid": "A need outside the sandbox has an invalid value; it is ignored.",
    "no-skill-md": "The package has no SKILL.md.",
    "not-json": "A key or value of the frontmatter cannot be represented in JSON.",
    "openai-yaml": "Codex ignores a part of agents/openai.yaml.",
    "over-limit": "The package is over the size limit.",
    "policy-invalid": "The policy or the trace settings of the skill have an invalid value.",
    "request-invalid": "A declared request is not valid, or uses an undeclared environment variable.",
    "requirements-unused": "The skill requires packages that it cannot use, because it does not run natively.",
    "schema-invalid": "A JSON Schema for inputs or outputs is not valid, so that runs fail.",
    "setting-misspelt": "A setting has no effect and is probably misspelt.",
    "setting-unused": "A setting has no effect in this place.",
    "single-braces": "A request or command has an input in single braces, which are not a placeholder.",
    "slug-look-alike": "The slug has letters that look like others, so that it can be mistaken for another skill.",
    "strict-anchor": "The frontmatter contains an anchor or an alias.",
    "strict-duplicate": "The frontmatter has a key twice.",
    "strict-encoding": "The file is not UTF-8 text.",
    "strict-flow": "The frontmatter has a list or mapping in brackets.",
    "strict-frontmatter": "The file does not start with frontmatter, or the frontmatter is never closed.",
    "strict-indentation": "Mappings of the same level are indented differently.",
    "strict-mapping": "The frontmatter has no fields.",
    "strict-size": "The frontmatter is over the size limit.",
    "strict-tag": "The frontmatter contains a type tag.",
    "strict-yaml": "The frontmatter is not valid YAML.",
    "template-empty": "A prompt template has no text.",
    "template-long": "A template, or all templates of a skill together, are over the size limit.",
    "template-syntax": "A prompt template is not valid.",
    "template-undeclared": "A template, a request or a command uses an input that is not declared.",
    "template-unknown-filter": "A prompt template uses a filter that does not exist.",
    "template-unknown-function": "A prompt template calls a function that does not exist.",
    "template-unknown-method": "A prompt template calls a method that no input has.",
    "template-unknown-test": "A prompt template uses a test that does not exist.",
    "unknown-field": "A key that is unknown to the profile.",
    "unusable": "The package does not contain a usable skill.",
    "value-type": "A key has a value of the wrong type.",
    "value-unknown": "A key has a value that the client does not document.",
}

MARKERS = frozenset({
    "blank-before-frontmatter", "bom", "comment-before-frontmatter", "fenced-frontmatter", "frontmatter-not-closed",
    "frontmatter-not-opened", "marker-form", "no-frontmatter", "not-utf8", "text-after-marker",
    "text-before-frontmatter", "utf-16",
})  # fmt: skip
_SYNTAX = frozenset({
    "bad-escape", "bad-indent", "broken-flow", "frontmatter-not-a-mapping", "leading-sign", "line-without-key",
    "list-on-key-line", "merge-conflict", "nul-character", "tab-indent", "text-after-block-sign", "text-after-list",
    "text-after-quote", "unclosed-bracket", "unclosed-quote", "unescaped-quote", "unquoted-colon", "yaml-alias",
    "yaml-character", "yaml-documents", "yaml-duplicate-key", "yaml-key", "yaml-merge-key", "yaml-syntax", "yaml-tag",
})  # fmt: skip

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
"""Reader problems that explain why a profile finds no SKILL.md, or cannot read it strictly."""


ProfileName = Literal["agentskills", "claude-api", "claude-code", "codex", "mcp", "bernstein", "prowess"]
PROFILE_NAMES: tuple[ProfileName, ...] = get_args(ProfileName)

_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One named set of rules.

    `check` yields the problems under this profile, and `remark` those that are never errors. Of the problems that the readers report, those in `superseded` are
    left out, because `check` reports them itself. The others get the severity from `severities` (None leaves them out), or
    else at most `ceiling`: other clients may accept skills that Prowess cannot use.

    If the profile rejects the frontmatter (codes `strict-…`) and a reader knows the reason, the reader's problem is reported
    instead, as an error. `refusal` is the sentence that says who rejects it.
    """

    name: ProfileName
    summary: str
    check: Callable[[Reading, Limits], Iterable[Problem]]
    remark: Callable[[Reading, Limits], Iterable[Problem]] = lambda reading, limits: ()  # noqa: ARG005
    refusal: str = ""
    superseded: Collection[str] = frozenset()
    severities: Mapping[str, Severity | None] = field(default_factory=dict[str, "Severity | None"])
    ceiling: Severity = "warning"

    def judge(self, reading: Reading, limits: Limits = DEFAULT_LIMITS, *, remarks: bool = True) -> tuple[Problem, ...]:
        """Return all problems, or those without remarks; without duplicates, worst first, then by line."""
        own = [*self.check(reading, limits), *(self.remark(reading, limits) if remarks else ())]
        if not own and not reading.problems:
            return ()
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
"""Problems that only some clients reject. Missing files and markers do not need the sentence."""


def _order(problem: Problem) -> tuple[int, int, str]:
    return (_RANK[problem.severity], problem.line or 0, problem.code)
