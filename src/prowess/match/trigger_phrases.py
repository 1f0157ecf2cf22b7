"""Suggest trigger phrases for the messages that a skill misses, and measure what each phrase would change.

Phrases come from the missed messages: their informative parts, and the words that several of them share. Each phrase is
added to the skill in memory, and the messages of the skill and of its neighbours are asked again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prowess.match.collisions import content_words, find_rivals, is_informative
from prowess.match.recommendation import DECISIONS, Decision
from prowess.match.trigger_eval import QueryOutcome, Ranker, TriggerReport, run_query
from prowess.match.words import CJK_RUN, STOP_WORDS, is_cjk_pair

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument
    from prowess.match.matcher import Matcher

MAX_PHRASES = 64
"""The most phrases that are tried for one skill. Each is asked for all messages at most twice."""
MAX_SUGGESTIONS = 8
MAX_NEIGHBOURS = 10
MAX_NEIGHBOUR_MESSAGES = 10
"""The most messages of one neighbour that are asked again."""

_MAX_MESSAGES, _MAX_CHARACTERS = 40, 1_000
_MAX_WORDS, _MAX_TOKENS = 4, 8
_LITERAL = re.compile(r"```.*?```|`[^`]*`|\"[^\"]*\"|“[^”]*”|«[^»]*»|\S*[/\\@]\S*", re.DOTALL)
"""Quoted text, code, paths and addresses: they belong to one message, not to what the skill is for."""
_TOKEN = re.compile(rf"{CJK_RUN.pattern}|[^\W_](?:[\w.+#'’-]*[\w+#])?")
_IDENTIFIER = re.compile(r"\d|[+#.]|\w[A-Z]")
_CJK_STOP = re.compile(rf"(?:(?={'|'.join(sorted(word for word in STOP_WORDS if is_cjk_pair(word)))}).)+.")
"""Grammatical pairs of characters, which may overlap."""

_FUNCTION_WORDS = """
aber als am an auch auf aus bei bitte da das dass dein deine dem den der des dich die diese diesen dieser dieses dir du ein
eine einem einen einer er es fur hab habe haben hat ich ihr im ist kann kannst konnen konntest mach machen mal mein meine
meinen meiner mich mir mit nach nicht noch nur oder schon sie sind so uber um und uns vom von was wenn wer wie wird wir wo
zu zum zur
au aux avec ce ces cette dans de du elle en est et il je la le les ma mes moi mon ne nous ou par pas peut peux pour pouvez
que qui sa ses sont sur ta tes tu un une vous
al como con del el esta estas este estos favor las lo los me mi mis nos para pero por porque puede puedes quien se su sus
te tus una unas unos
as che com di em gli meu mia minha mio nao os per pode puoi questa questo um uma
bij deze dit een het ik je jij jouw kan maar met mijn naar niet of op uit van
"""
"""German, French, Spanish, Italian, Portuguese and Dutch, without accents. `STOP_WORDS` has those of English.

As a trigger phrase, they would attract every message in the language."""
_UNINFORMATIVE = frozenset(_FUNCTION_WORDS.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How many of a skill's own messages trigger it, how many of these are offers, and how many trigger it wrongly."""

    found: int
    offered: int
    false_triggers: int

    @classmethod
    def of(cls, outcomes: Iterable[QueryOutcome]) -> Figures:
        """Count the results of some queries."""
        triggered = [one for one in outcomes if one.triggered]
        wanted = [one for one in triggered if one.case.should_trigger]
        return cls(
            found=len(wanted),
            offered=sum(one.decision == "offer" for one in wanted),
            false_triggers=len(triggered) - len(wanted),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenMessage:
    """A message of another skill for which this one would come first, or be offered."""

    slug: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A phrase to add. `before` and `after` are measured with all suggestions above it in place.

    `caught` are the messages that trigger the skill now, or are offers now. `taken` is not empty only if no other phrase
    catches these messages without taking some from a neighbour.
    """

    phrase: str
    caught: tuple[str, ...]
    before: Figures
    after: Figures
    taken: tuple[TakenMessage, ...] = ()


def find_neighbours(ranker: Ranker, document: SearchDocument, report: TriggerReport) -> list[str]:
    """Return the skills that compete with a skill, then those in the top five of its queries, most frequent first."""
    rivals = find_rivals(ranker, document).shares
    near = Counter(slug for outcome in report.outcomes for slug in outcome.top)
    found = sorted({*rivals, *near} - {document.slug}, key=lambda slug: (-rivals.get(slug, 0.0), -near[slug], slug))
    return found[:MAX_NEIGHBOURS]


def needs_phrases(report: TriggerReport) -> bool:
    """Return True if some message of the skill does not find it, or only as a maybe."""
    return any(map(_is_weak, report.outcomes))


def suggest_phrases(
    matcher: Matcher,
    document: SearchDocument,
    report: TriggerReport,
    neighbours: Mapping[str, Sequence[str]],
    *,
    limit: int = 5,
    at: Decision = "maybe",
) -> list[Suggestion]:
    """Return the phrases that catch missed messages without a new false trigger, best first.

    `neighbours` has the messages of other skills, by slug. `limit` and `at` are those of the report.
    """
    trial = _Trial(matcher, document, report, neighbours, limit, at)
    phrases = propose_phrases(document, [one.case.query for one in report.outcomes if _is_weak(one)])
    found, taking = trial.select(phrases, MAX_SUGGESTIONS, may_take=False)
    # A phrase that takes messages from a neighbour is left out where one that does not catches the same.
    more, _ = trial.select(taking, MAX_SUGGESTIONS - len(found), may_take=True)
    return found + more


class _Trial:
    """A skill with the phrases accepted so far, and what its messages and those of its neighbours find then."""

    def __init__(
        self,
        matcher: Matcher,
        document: SearchDocument,
        report: TriggerReport,
        neighbours: Mapping[str, Sequence[str]],
        limit: int,
        at: Decision,
    ) -> None:
        self._matcher = matcher
        self._document = document
        self._outcomes = report.outcomes
        self._limit = limit
        self._at: Decision = at
        own = {one.case.query for one in report.outcomes}
        self._foreign = [
            TakenMessage(slug=slug, message=message)
            for slug, messages in neighbours.items()
            for message in messages[:MAX_NEIGHBOUR_MESSAGES]
            if message not in own
        ]
        self._held = self._find_taken(matcher)

    def select(self, phrases: list[str], most: int, *, may_take: bool) -> tuple[list[Suggestion], list[str]]:
        """Accept the best phrase until none is left that helps. Return what was accepted, and the phrases that take.

        A phrase that does harm is not tried again: it does no less with other phrases added.
        """
        found: list[Suggestion] = []
        taking: list[str] = []
        left = self._order(phrases)
        while left and len(found) < most:
            phrase = left.pop(0)
            ranker = self._add(phrase)
            outcomes = self._ask_all(ranker)
            if outcomes is None:
                continue
            held = self._find_taken(ranker)
            taken = tuple(one for one in held if one not in self._held)
            if taken and not may_take:
                taking.append(phrase)
                continue
            risen = [after for before, after in zip(self._outcomes, outcomes, strict=True) if _rise(before, after)]
            found.append(
                Suggestion(
                    phrase=phrase,
                    caught=tuple(one.case.query for one in risen),
                    before=Figures.of(self._outcomes),
                    after=Figures.of(outcomes),
                    taken=taken,
                )
            )
            self._document = _with_phrase(self._document, phrase)
            self._outcomes, self._held = outcomes, held
            left = self._order(left)
        return found, taking

    def _order(self, phrases: Iterable[str]) -> list[str]:
        """Return the phrases that catch a message which shares a word with them, best first."""
        weak = [(one, content_words(one.case.query).keys()) for one in self._outcomes if _is_weak(one)]
        keys: dict[str, tuple[int, int, bool, float]] = {}
        for phrase in phrases:
            ranker, stems = self._add(phrase), content_words(phrase).keys()
            pairs = [(one, self._ask(ranker, one)) for one, said in weak if said & stems]
            # Its own message was caught by another phrase, so this one says more than the messages that are left.
            spent = not any(stems <= said for _, said in weak)
            triggered = sum(after.triggered > before.triggered for before, after in pairs)
            risen = sum(_rise(before, after) for before, after in pairs)
            if risen > 0:
                keys[phrase] = (-triggered, -risen, spent, -self._margin(phrase))
        # Equal ones stay in the order in which they were proposed.
        return sorted(keys, key=keys.__getitem__)

    def _margin(self, phrase: str) -> float:
        """Return how much nearer a phrase is to this skill than to any other, before it is added."""
        scores = {result.slug: result.score for result in self._matcher.rank(phrase, limit=self._limit)}
        own = scores.pop(self._document.slug, 0.0)
        # One digit: small differences say nothing, and the last digits differ between machines.
        return round(own - max(scores.values(), default=0.0), 1)

    def _add(self, phrase: str) -> Ranker:
        return self._matcher.with_documents([_with_phrase(self._document, phrase)])

    def _ask_all(self, ranker: Ranker) -> tuple[QueryOutcome, ...] | None:
        """Ask all messages of the skill; return None if a right one is lost, or a wrong one comes nearer."""
        found: list[QueryOutcome] = []
        for before in self._outcomes:
            after = self._ask(ranker, before)
            if _rise(before, after) * (1 if before.case.should_trigger else -1) < 0:
                return None
            found.append(after)
        return tuple(found)

    def _ask(self, ranker: Ranker, outcome: QueryOutcome) -> QueryOutcome:
        return run_query(ranker, self._document.slug, outcome.case, self._limit, self._at)

    def _find_taken(self, ranker: Ranker) -> list[TakenMessage]:
        """Return the neighbours' messages for which this skill comes first, or is offered."""
        return [one for one in self._foreign if self._takes(ranker, one.message)]

    def _takes(self, ranker: Ranker, message: str) -> bool:
        results = ranker.rank(message, limit=self._limit)
        place = next((place for place, result in enumerate(results) if result.slug == self._document.slug), None)
        if place is None:
            return False
        decision = results[place].decision
        return decision == "offer" or (place == 0 and decision == "maybe")


def _is_weak(outcome: QueryOutcome) -> bool:
    return outcome.case.should_trigger and outcome.decision != "offer"


def _rise(before: QueryOutcome, after: QueryOutcome) -> int:
    """Return by how many steps the decision became better."""
    return DECISIONS.index(before.decision) - DECISIONS.index(after.decision)


def _with_phrase(document: SearchDocument, phrase: str) -> SearchDocument:
    return replace(document, triggers=(*document.triggers, phrase))


@dataclass(frozen=True, slots=True)
class _Part:
    """Some words of a message: as they stand, and the stems of the informative ones.

    `cuts` counts the ends at which an informative word follows at once, as in "a slow SQL" of "a slow SQL query".
    """

    text: str
    stems: frozenset[str]
    words: int
    cuts: int = 0


def propose_phrases(document: SearchDocument, messages: Sequence[str]) -> list[str]:
    """Return at most `MAX_PHRASES` phrases that may stand for these messages, the most promising of each message first.

    A phrase is two to four informative words with what stands between them, words that two messages share, or one
    identifier.
    """
    messages = messages[:_MAX_MESSAGES]
    runs = [_split_runs(message) for message in messages]
    stems = [frozenset(stem for run in one for token in run for stem in token.stems) for one in runs]
    said = {frozenset(content_words(trigger)) for trigger in document.triggers}
    sharing: dict[frozenset[str], int] = {}

    def prefer(part: _Part) -> tuple[int, int, int, int]:
        if part.stems not in sharing:
            sharing[part.stems] = sum(part.stems <= one for one in stems)
        return (-sharing[part.stems], part.cuts, abs(part.words - 3), len(part.text))

    # Words that two messages share read best as the message has them that says them together.
    together = {part.stems: part for one in runs for part in sorted(_windows(one), key=lambda part: -len(part.text))}
    queues: list[list[str]] = []
    for place, one in enumerate(runs):
        shared = _shared_parts(one, [other for other in stems if other is not stems[place]])
        windows = list(_windows(one))
        # A phrase that ends in the middle of "slow SQL query" is a last resort.
        if any(part.words > 1 and not part.cuts for part in windows):
            windows = [part for part in windows if part.words == 1 or not part.cuts]
        chosen: list[str] = []
        for part in sorted([*windows, *(together.get(part.stems, part) for part in shared)], key=prefer):
            # One everyday word would attract too much. A format, a product or a language may stand alone.
            stands = part.words > 1 or len(stems[place]) == 1 or _IDENTIFIER.search(part.text)
            if stands and part.stems not in said:
                said.add(part.stems)
                chosen.append(part.text)
        queues.append(chosen)
    longest = max(map(len, queues), default=0)
    # In turns, so that no message uses up the phrases of the others.
    return [queue[place] for place in range(longest) for queue in queues if place < len(queue)][:MAX_PHRASES]


def _split_runs(message: str) -> list[list[_Part]]:
    """Return the words of a message, in runs without punctuation, literals or numbers."""
    text = _CJK_STOP.sub("\n", _LITERAL.sub("\n", message[:_MAX_CHARACTERS]))
    text = CJK_RUN.sub(r" \g<0> ", text)
    runs: list[list[_Part]] = [[]]
    end = 0
    for found in _TOKEN.finditer(text):
        if text[end : found.start()].strip(" \t"):
            runs.append([])
        end = found.end()
        if found[0][0].isdecimal():
            runs.append([])
            continue
        words = content_words(found[0]).items()
        stems = frozenset(stem for stem, word in words if is_informative(word) and word not in _UNINFORMATIVE)
        # Chinese and Japanese have no spaces: a run of several characters stands for several words.
        count = min(len(stems), 2) if CJK_RUN.match(found[0]) else bool(stems)
        runs[-1].append(_Part(found[0], stems, count))
    return runs


def _windows(runs: Iterable[Sequence[_Part]]) -> Iterator[_Part]:
    """Yield the parts of each run that start and end with an informative word."""
    for run in runs:
        ends = [place for place, token in enumerate(run) if token.stems]
        for first, last in ((one, other) for one in ends for other in ends if one <= other < one + _MAX_TOKENS):
            part = _join(run[first : last + 1])
            if part.words <= _MAX_WORDS:
                yield replace(part, cuts=(first - 1 in ends) + (last + 1 in ends))


def _shared_parts(runs: Iterable[Sequence[_Part]], others: Iterable[frozenset[str]]) -> Iterator[_Part]:
    """Yield the words that a message shares with each of the others, wherever they stand in it."""
    tokens = [token for run in runs for token in run if token.stems]
    for other in others:
        shared = [token for token in tokens if token.stems <= other]
        if 1 < len(shared) <= _MAX_WORDS:
            yield _join(shared)


def _join(tokens: Sequence[_Part]) -> _Part:
    stems = frozenset(stem for token in tokens for stem in token.stems)
    return _Part(" ".join(token.text for token in tokens), stems, sum(token.words for token in tokens))
