"""The composer: draft → check → show → feedback → refine → … → a person approves → saved.

Nothing that a model writes is used before a person has approved exactly these files. Until then a draft is in no catalog:
it is never matched, enabled or run (its code once, in the sandbox, against a stand-in), and no prompt has it but the one that
refines it. Every round is stored as soon as it is checked, so an interrupted composition continues with the last one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from prowess.authoring.compose.author import NEIGHBOURS, Assignment, Author
from prowess.authoring.compose.checks import Checks, Surroundings, check_draft
from prowess.authoring.compose.composition import Composition, Round, to_composition, to_round
from prowess.authoring.compose.draft import Draft
from prowess.authoring.compose.files import build_package, read_draft
from prowess.authoring.compose.records import CompositionRecords, no_draft
from prowess.engine.context import Context
from prowess.engine.skill_writer import SkillWriter, check_not_frozen
from prowess.errors import Conflict, DuplicateSkill, Invalid, NotFound, ProwessError, Refused
from prowess.llm.model import Model
from prowess.match.recommendation import Recommendation
from prowess.session.text import format_diff, read_subject
from prowess.skill.model import Scope, Skill
from prowess.skill.outline import SkillOutline
from prowess.skill.package import Package
from prowess.storage.compositions import CompositionRow, CompositionState, RoundRow
from prowess.threads import offload

MAX_CHARS = 20_000
"""The most characters of a request or of feedback."""
_Base = tuple[Skill, Package]


class Composer:
    """Drafts skills for the actor. An agent sees only the compositions that it started."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._records = CompositionRecords(context)

    async def start(
        self, request: str, *, skill: str = "", model: Model | str = "", fallback_model: Model | None = None
    ) -> Composition:
        """Start a composition and return it with its first draft. `skill` is an existing skill to change.

        Raise `OutputInvalid` if the model did not write a usable draft. The composition is kept, and `refine` without feedback tries
        again.
        """
        self._require_drafter()
        words = self._clean(request, "request")

        def begin() -> CompositionRow:
            base = self._read_base(skill) if skill else None
            actor = self._context.actor
            row = CompositionRow(
                id=str(uuid.uuid4()),
                organization_id=actor.organization,
                user_id=actor.user,
                created_by=actor.label,
                request=words,
                skill=f"{base[0].scope}:{base[0].slug}" if base else "",
                base_digest=base[0].digest if base else "",
            )
            self._records.add(row)
            return row

        await self._author.check_model(model, fallback_model)
        row = await offload(begin)
        try:
            return await self._draft(row, None, "", model, fallback_model)
        except ProwessError as error:
            error.hint = f"{error.hint} Try again: `prowess compose refine {row.id[:8]}`.".strip()
            raise

    async def refine(
        self, composition: str, feedback: str = "", *, model: Model | str = "", fallback_model: Model | None = None
    ) -> Composition:
        """Return the composition with a new round that follows the feedback. Earlier rounds do not change.

        Without feedback, only a first draft that failed is retried. Raise `Conflict` if someone else wrote a round in
        the meantime.
        """
        self._require_drafter()
        row, current = await offload(self._records.find_open, composition)
        words = self._clean(feedback, "feedback") if feedback or current else ""
        return await self._draft(row, current, words, model, fallback_model)

    async def show(self, composition: str, *, round: int | None = None) -> Composition:
        """Return a composition with its current round, or another one."""

        def show() -> Composition:
            row, found = self._records.find(composition, round)
            return to_composition(row, found)

        return await offload(show)

    async def list(self, *, state: CompositionState | None = None, limit: int = 100) -> list[Composition]:
        """Return compositions without their rounds, the last changed first."""
        return [to_composition(row) for row in await offload(self._records.list, state, limit)]

    async def rounds(self, composition: str) -> list[Round]:
        """Return all rounds, oldest first. Raise `Refused` for an agent."""
        self._require_person("see the rounds of a draft")
        return [to_round(row) for row in await offload(self._records.list_rounds, composition)]

    async def files(self, composition: str, *, round: int | None = None) -> Package:
        """Return the files of the current round, or of another one. Raise `Refused` for an agent."""
        self._require_person("see the files of a draft")
        return await offload(lambda: self._records.files(*self._records.find(composition, round)))

    async def diff(self, composition: str, *, round: int | None = None, against: int | None = None) -> str:
        """Return the changes of a round compared with another one: by default the one that it refines, or the original skill.

        Raise `Refused` for an agent.
        """
        self._require_person("see the files of a draft")

        def compare() -> str:
            row, found = self._records.find(composition, round)
            after = self._records.files(row, found)
            number = found.previous if found and against is None else against
            if number:
                return format_diff(self._records.files(*self._records.find(composition, number)), after)
            before = self._read_base(row.skill)[1] if row.skill else Package(name=after.name, files=())
            return format_diff(before, after)

        return await offload(compare)

    async def back(self, composition: str, round: int) -> Composition:
        """Make an earlier round the current one. Later rounds are kept, and can be restored too."""
        self._context.actor.require("skills.write")

        def go() -> Composition:
            row, _ = self._records.find_open(composition)
            _, found = self._records.find(composition, round)
            return self._records.change(row, found, {"round": round})

        return await offload(go)

    async def discard(self, composition: str) -> Composition:
        """End a composition without saving anything. Its rounds can still be read."""
        self._context.actor.require("skills.write")

        def end() -> Composition:
            row, current = self._records.find_open(composition)
            return self._records.change(row, current, {"state": "discarded"})

        return await offload(end)

    async def approve(
        self, composition: str, *, digest: str = "", scope: Scope | None = None, allow_collision: bool = False
    ) -> Skill:
        """Save the current round as a skill that this person accepts, and return the skill.

        With `digest`, the round must have exactly these files. Raise `Refused` for an agent, `Invalid` if the round has
        errors, `Conflict` if the round or the changed skill is another one now, and `DuplicateSkill` if the slug is taken.
        `allow_collision` accepts that another skill answers most of its queries.
        """
        self._require_person("approve a draft")
        return await self._save(composition, digest, scope, allow_collision=allow_collision)

    async def propose(self, composition: str, *, digest: str = "", scope: Scope | None = None) -> Skill:
        """Ask a person to approve the current round, and save it once they have. For agents.

        Raise `ApprovalRequired` until a person has approved exactly these files.
        """
        return await self._save(composition, digest, scope)

    async def _save(
        self, composition: str, digest: str, scope: Scope | None, *, allow_collision: bool = False
    ) -> Skill:
        self._context.actor.require("skills.write")

        def save() -> Skill:
            row, current = self._records.find_open(composition)
            if current is None:
                raise no_draft(row)
            if digest and current.digest != digest:
                raise Conflict(
                    f"Round {current.number} has different files from those that were approved.",
                    hint=f"Review them again: `prowess compose show {row.id[:8]}`.",
                )
            _check_savable(row, Checks.from_json(current.checks), allow_collision=allow_collision)
            saved = self._write(row, current, self._records.files(row, current), scope)
            address = f"{saved.scope}:{saved.slug}"
            self._records.change(row, current, {"state": "saved", "saved_as": address, "saved_digest": saved.digest})
            return saved

        return await offload(save)

    def _write(self, row: CompositionRow, current: RoundRow, package: Package, scope: Scope | None) -> Skill:
        note = f"Composed: {row.request[:200]} (composition {row.id[:8]}, round {current.number})"
        where, _, slug = row.skill.partition(":")
        chosen: Any = where or scope
        try:
            return SkillWriter(self._context).save_package(package, chosen, note, expected=row.base_digest)
        except (Conflict, DuplicateSkill):
            # A process that was killed right after it had saved, or a second approval of the same files.
            address = f"{chosen}:{slug or current.slug}" if chosen else current.slug
            try:
                stored = self._context.catalog.find(address)[1]
            except NotFound:
                stored = None
            if stored is None or stored.digest != package.digest:
                raise
            return stored

    async def _draft(
        self,
        row: CompositionRow,
        before: RoundRow | None,
        feedback: str,
        model: Model | str,
        fallback_model: Model | None,
    ) -> Composition:
        """Write, check and store the next round."""
        base, around, neighbours = await offload(self._look_around, row)
        draft = Draft.model_validate(before.draft) if before else read_draft(*base) if base else None
        assignment = Assignment(
            request=row.request,
            feedback=feedback,
            draft=draft,
            problems=Checks.from_json(before.checks).errors if before else (),
            neighbours=neighbours,
            model=model,
            fallback_model=fallback_model,
        )

        async def judge(draft: Draft) -> tuple[Package, Checks]:
            # The slug of an existing skill is not the model's to choose.
            named = draft.model_copy(update={"slug": base[0].slug}) if base else draft
            package = await offload(build_package, named, base, around.limits)
            return package, await check_draft(package, named, around)

        written = await self._author.write(assignment, judge)
        return await offload(self._records.keep, row, feedback, written)

    @property
    def _author(self) -> Author:
        return Author(self._context, self._context.resources.runner.redact)

    def _look_around(self, row: CompositionRow) -> tuple[_Base | None, Surroundings, list[Recommendation]]:
        """Return the skill that is changed, what drafts are checked against, and similar skills. Blocking."""
        resources, visibility = self._context.resources, self._context.visibility
        base = self._read_base(row.skill) if row.skill else None
        if base and base[0].digest != row.base_digest:
            raise _changed_skill(row)
        surroundings = Surroundings(
            matcher=resources.matcher,
            sandbox=resources.sandbox(),
            limits=resources.limits,
            taken=frozenset() if base else frozenset(self._context.catalog.served()),
            base=base[1] if base else None,
        )
        found = resources.matcher.search(row.request, limit=4 * NEIGHBOURS)
        # Nothing that nobody has accepted may reach a model, not even a description.
        accepted = [item for item in visibility.recommendations(found) if item.trust == "local"]
        near = [item for item in accepted if not base or item.slug != base[0].slug]
        return base, surroundings, near[:NEIGHBOURS]

    def _read_base(self, slug: str) -> _Base:
        """Return an existing skill that is to be changed, through the gate: its text goes to a model. Blocking."""
        context = self._context
        store, skill = context.catalog.find(slug)
        check_not_frozen(store, skill.slug)
        subject = read_subject(context.catalog, store, SkillOutline.of(skill))
        context.resources.gate.check(context.actor, "load", subject)
        package = store.get_package(skill.id)
        if package is None or package.digest != skill.digest:
            raise Conflict(f"The skill {skill.slug!r} changed just now.", hint="Try again.")
        return skill, package

    def _require_drafter(self) -> None:
        for permission in ("skills.write", "skills.run"):
            self._context.actor.require(permission)

    def _require_person(self, action: str) -> None:
        if not self._context.actor.is_person:
            raise Refused(
                f"Only a person can {action}.",
                hint="Ask the user to review it with `prowess compose`, or propose it for approval.",
            )

    def _clean(self, words: str, what: str) -> str:
        """Return a person's words without secrets."""
        redact: Callable[[Any], Any] = self._context.resources.runner.redact
        text = words.strip()
        if not text:
            raise Invalid(f"The {what} is empty.", hint="Say in a sentence what the skill should do.")
        if len(text) > MAX_CHARS:
            raise Invalid(f"The {what} has more than {MAX_CHARS:,} characters.", hint="Use fewer words.")
        return str(redact(text))


def _check_savable(row: CompositionRow, checks: Checks, *, allow_collision: bool) -> None:
    errors = [error for error in checks.errors if not (allow_collision and error.code == "triggers-collide")]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise Invalid(
            f"Round {row.round} cannot be saved: {errors[0].message}{more}",
            hint=f"Refine it: `prowess compose refine {row.id[:8]} …`. {errors[0].hint}".strip(),
            problems=checks.problems,
        )


def _changed_skill(row: CompositionRow) -> Conflict:
    name = row.skill.rpartition(":")[2]
    return Conflict(
        f"The skill {name!r} has changed since this composition started.",
        hint=f"Start again with the current skill: `prowess compose --skill {name} …`.",
    )
