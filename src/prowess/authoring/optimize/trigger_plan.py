"""Optimize when a skill is chosen: its trigger phrases, or its description, against its trigger queries.

No method here may take messages from a neighbour: a candidate that competes with a skill it did not compete with before
is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import fmean

from prowess.authoring.evals.case import EvalCase
from prowess.authoring.evals.splits import held_out_cases, optimizer_cases
from prowess.authoring.optimize.bench import Bench
from prowess.authoring.optimize.change import Change, apply_change
from prowess.authoring.optimize.decision import MIN_HELD_OUT
from prowess.authoring.optimize.proposal import OptimizationRequest
from prowess.authoring.optimize.rewrite import MAX_EXAMPLES, ROUNDS, ask_rewrites
from prowess.authoring.optimize.search import SHARES, PairedScores, refuse_too_few
from prowess.catalog.store import SearchDocument
from prowess.engine.context import Context
from prowess.engine.engine import Engine
from prowess.errors import Invalid, ProwessError, Unavailable
from prowess.match.collisions import find_collisions, sample_messages
from prowess.match.matcher import Matcher
from prowess.match.trigger_eval import TriggerReport, evaluate_triggers
from prowess.match.trigger_phrases import find_neighbours, suggest_phrases
from prowess.skill.evals import TriggerCase, find_eval_paths, read_trigger_set
from prowess.skill.kinds import JsonObject
from prowess.skill.model import Skill
from prowess.threads import offload

MIN_QUERIES = 5
"""Queries for training, and for validation."""
MAX_DESCRIPTION = 1_024


async def read_queries(engine: Engine, skill: Skill) -> list[EvalCase]:
    """Return the trigger queries of a skill as cases; raise `Invalid` if they cannot be read."""
    address = f"{skill.scope}:{skill.slug}"
    paths = find_eval_paths(entry.path for entry in skill.manifest)
    found = read_trigger_set({path: await engine.skills.read_file(address, path) for path in paths})
    errors = [problem for problem in found.problems if problem.severity == "error"]
    if errors:
        raise Invalid(f"The trigger queries of {skill.slug!r} have errors: {errors[0].message}", problems=errors)
    return [
        EvalCase(id=f"query-{number}", prompt=case.query, expected=case.should_trigger)
        for number, case in enumerate(found.cases, 1)
    ]


class TriggerPlan:
    """Optimizes trigger phrases or the description of a skill."""

    def __init__(
        self,
        context: Context,
        request: OptimizationRequest,
        skill: Skill,
        queries: Sequence[EvalCase],
        bench: Bench,
        *,
        on_best: Callable[[Change, float], None],
        on_step: Callable[[], None],
    ) -> None:
        self._context = context
        self._request = request
        self._skill = skill
        self._bench = bench
        self._on_best = on_best
        self._on_step = on_step
        self.held_out = held_out_cases(queries, SHARES)
        self._visible = optimizer_cases(queries, SHARES)
        have = (len(self._visible.train), len(self._visible.validation), len(self.held_out.cases))
        refuse_too_few(
            f"optimize the triggers of {skill.slug!r}", have, (MIN_QUERIES, MIN_QUERIES, MIN_HELD_OUT), "queries"
        )
        self.best: tuple[Change, float] | None = None
        self._base = 0.0
        self._collisions: frozenset[tuple[str, str]] = frozenset()

    def restore(self, change: Change, score: float) -> None:
        """Set the best candidate to one that was found before an interruption."""
        self.best = (change, score)

    async def measure_base(self) -> float:
        """Return the share of validation queries with the right result, and note the neighbours that compete already."""

        def measure() -> float:
            with suppress(Unavailable):  # matching works without vectors, too
                self._matcher.prepare()
            self._collisions = self._find_collisions(self._skill)
            return fmean(self._ask(self._skill, self._visible.validation))

        self._base = await offload(measure)
        return self._base

    async def search(self) -> None:
        """Search by the method of the request."""
        if self._request.method == "phrases":
            await offload(self._search_phrases)
        else:
            await self._search_descriptions()

    async def test(self, change: Change) -> PairedScores:
        """Match every held-out query with the skill as it is and with the candidate."""
        cases = self.held_out.cases
        changed = apply_change(self._skill, change)
        before, after = await offload(lambda: (self._ask(self._skill, cases), self._ask(changed, cases)))
        return PairedScores(base=before, candidate=after, clusters=tuple(case.id for case in cases))

    def _search_phrases(self) -> None:
        """Take the phrases that catch missed queries without harm. They are measured one after the other."""
        document = SearchDocument.of(self._skill)
        matcher = self._matcher.with_documents([document])
        report = self._report(self._skill, self._visible.train)
        near = find_neighbours(matcher, document, report)
        messages = {slug: self._messages(slug) for slug in near}
        phrases: tuple[str, ...] = ()
        for suggestion in suggest_phrases(matcher, document, report, messages):
            if not suggestion.taken:
                phrases = (*phrases, suggestion.phrase)
                self._try(Change(kind="triggers", trigger_phrases=phrases))

    async def _search_descriptions(self) -> None:
        best = self._skill
        for _ in range(ROUNDS):
            report = await offload(self._report, best, self._visible.train)
            wrong = [*report.missed, *report.false_triggers]
            if not wrong or self._bench.meter.spent:
                return
            examples: list[JsonObject] = [
                {
                    "message": outcome.case.query,
                    "should_be_chosen": outcome.case.should_trigger,
                    "chosen_before_it": list(outcome.instead),
                }
                for outcome in wrong[:MAX_EXAMPLES]
            ]
            texts = await ask_rewrites(
                self._bench,
                what="the description of a skill, by which a search engine and a model choose skills for a message",
                text=best.description,
                rules=f"At most {MAX_DESCRIPTION} characters of plain text: what it does, and when to use it and when not.",
                examples=examples,
            )
            before = self.best
            for text in texts:
                change = Change(kind="triggers", description=" ".join(text.split())[:MAX_DESCRIPTION])
                await offload(self._try, change)
            if self.best is not None and self.best is not before:
                best = apply_change(self._skill, self.best[0])

    def _try(self, change: Change) -> None:
        """Measure a candidate on the validation queries; keep it if it is better and takes no neighbour's messages."""
        changed = apply_change(self._skill, change)
        score = fmean(self._ask(changed, self._visible.validation))
        self._on_step()
        least = self.best[1] if self.best else self._base
        # Phrases are chosen by the training queries and may do nothing for the few validation ones: the test decides.
        good = score > least or (change.description is None and score >= least)
        if good and not self._find_collisions(changed) - self._collisions:
            self.best = (change, score)
            self._on_best(change, score)

    def _ask(self, skill: Skill, cases: Sequence[EvalCase]) -> tuple[float, ...]:
        return tuple(float(outcome.ok) for outcome in self._report(skill, cases).outcomes)

    def _report(self, skill: Skill, cases: Sequence[EvalCase]) -> TriggerReport:
        document = SearchDocument.of(skill)
        trigger_cases = [TriggerCase(query=case.prompt, should_trigger=bool(case.expected), file="") for case in cases]
        return evaluate_triggers(self._matcher.with_documents([document]), document, trigger_cases)

    def _find_collisions(self, skill: Skill) -> frozenset[tuple[str, str]]:
        document = SearchDocument.of(skill)
        others = {one.slug: one for one in self._context.catalog.documents()}
        documents = {**others, document.slug: document}.values()
        ranker = self._matcher.with_documents([document])
        return frozenset(collision.slugs for collision in find_collisions(ranker, documents, among={document.slug}))

    def _messages(self, slug: str) -> list[str]:
        """Return messages that a neighbour is for: the queries that it ships, or else what its texts suggest."""
        with suppress(ProwessError):
            store, skill = self._context.catalog.find(slug)
            paths = find_eval_paths(entry.path for entry in skill.manifest)
            shipped = read_trigger_set({path: store.read_file(skill.id, path) for path in paths}).cases
            messages = [case.query for case in shipped if case.should_trigger]
            return messages or sample_messages(SearchDocument.of(skill))
        return []

    @property
    def _matcher(self) -> Matcher:
        return self._context.resources.matcher
