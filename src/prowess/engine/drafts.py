"""Drafts: preview a skill that is being written, and test which messages it would be offered for. Nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from prowess.catalog.store import SearchDocument
from prowess.engine.context import Context, Part
from prowess.engine.skill_reader import read_package
from prowess.engine.skill_rows import check_readable
from prowess.errors import Invalid
from prowess.session.session import estimate_tokens
from prowess.skill.draft import ParsedDocument, SkillDraft, describe_report, draft_package, edit_package
from prowess.skill.kinds import Artifact, PromptTemplate, kind_info
from prowess.skill.model import Scope, Skill
from prowess.skill.needs import can_send_out, measure_reach, read_needs
from prowess.skill.package import Package
from prowess.skill.positions import locate_problem
from prowess.skill.profiles.permissions import describe_needs, summarize_permissions
from prowess.skill.prompt_block import inserted_kinds, join_texts, skill_block
from prowess.skill.template import find_variables
from prowess.skill.validate import ValidationReport, validate
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.match.recommendation import Recommendation

RANKING_DEPTH = 20
"""How far down the ranking a draft is searched for."""
_RIVALS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPreview:
    """A preview of a draft: everything that an editor shows next to the text.

    `problems` have the `place` of each problem. `block` is the text that the skill would put into a prompt, and `budget` what
    that does to the budget of a session, or of a new one. `reach` says what it asks for and how far its runs go.
    """

    parsed: ParsedDocument
    form: str
    digest: str
    problems: tuple[dict[str, Any], ...]
    artifacts: tuple[dict[str, Any], ...]
    block: str
    tokens: int
    budget: dict[str, Any]
    findings: tuple[dict[str, Any], ...]
    reach: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object: the fields of the parsed document, and those of the preview."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("parsed", "reach")}
        return {**asdict(self.parsed), **own, **self.reach}


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerTrial:
    """Shows if a draft would be offered for a message, among all stored skills.

    `place` is its place in the ranking, None if it is not near the top. `ranking` has the first skills, and the draft.
    """

    message: str
    decision: str
    score: float | None
    place: int | None
    why: str
    evidence: tuple[dict[str, Any], ...]
    ranking: tuple[dict[str, Any], ...]


class Drafts(Part):
    """Skills that are being written. `skill` is the stored skill that a draft changes; '' for a new one."""

    async def preview(
        self, draft: SkillDraft, *, skill: str = "", scope: Scope = "org", session: str = ""
    ) -> DraftPreview:
        """Return what a draft would be, with every problem and its place. Bad content never raises.

        `session` is the one whose budget counts. Raise `NotFound` for an unknown skill or session, and `Invalid` for a path
        that no file can have.
        """
        return await offload(lambda: _preview(self._context, draft, skill, scope, session))

    async def try_messages(
        self, draft: SkillDraft, messages: Sequence[str], *, skill: str = "", context: str = ""
    ) -> list[TriggerTrial]:
        """Return for each message whether the draft would be offered, in competition with the stored skills.

        Raise `Invalid` if the draft is not a skill.
        """
        return await offload(lambda: _try_messages(self._context, draft, messages, skill, context))

    async def render(
        self, draft: SkillDraft, artifact: str, inputs: Mapping[str, Any], *, skill: str = ""
    ) -> dict[str, Any]:
        """Return the prompt that a template of the draft makes of some inputs. Nothing is sent to a model.

        Raise `NotFound` for an unknown template, and `Invalid` if the template or the inputs are wrong.
        """
        template = await offload(lambda: _find_template(self._context, draft, artifact, skill))
        text = await self._context.resources.render(template.content, inputs, syntax=template.syntax)
        return {"artifact": template.name, "text": text, "chars": len(text)}

    async def artifacts(self, skill: str) -> dict[str, Any]:
        """Return the artifacts of a stored skill with their texts, its inputs, and what it may reach."""

        def read() -> dict[str, Any]:
            check_readable(self._context, skill)
            found, package = read_package(self._context, skill)
            return {
                "slug": found.slug,
                "digest": found.digest,
                "parameters": found.parameters,
                "artifacts": list_artifacts(found, package),
                **describe_reach(found),
            }

        return await offload(read)


def list_artifacts(skill: Skill, package: Package | None = None) -> list[dict[str, Any]]:
    """Return the artifacts of a skill as an editor shows them: with their texts, settings and the variables of templates.

    With a package, artifacts that are files have their text, too, if it is text.
    """
    return [_artifact_json(artifact, package) for artifact in skill.artifacts]


def describe_reach(skill: Skill) -> dict[str, Any]:
    """Return what a skill asks for and how far its runs reach, as its approval card would say it."""
    needs = read_needs(skill)
    requests = summarize_permissions(skill.allowed_tools, [file.path for file in skill.manifest], skill.body)
    return {
        "requests": (*requests, *describe_needs(needs, skill.kinds)),
        "reach": measure_reach(skill, needs=needs),
        "sends_out": can_send_out(needs, skill.kinds),
    }


def _validate(context: Context, draft: SkillDraft, address: str) -> tuple[ValidationReport, Skill | None]:
    """Return the report on the files that a draft would be stored as, and the skill that it changes."""
    limits = context.resources.limits
    if not address:
        return validate(draft_package(draft), "prowess", limits), None
    check_readable(context, address)
    stored, package = read_package(context, address)
    return validate(edit_package(draft, stored.form, package), "prowess", limits), stored


def _preview(context: Context, draft: SkillDraft, address: str, scope: Scope, session: str) -> DraftPreview:
    from prowess.scan import scan_package

    report, stored = _validate(context, draft, address)
    scope = stored.scope if stored else scope
    reading = report.reading
    block = _render_block(reading.skill, scope)
    return DraftPreview(
        parsed=describe_report(report, draft.content or "", scope),
        form=reading.form,
        digest=reading.package.digest,
        problems=tuple(
            {**asdict(problem), "place": asdict(locate_problem(problem, reading))} for problem in report.problems
        ),
        artifacts=tuple(list_artifacts(reading.skill, reading.package)) if reading.skill else (),
        block=block,
        tokens=estimate_tokens(block) if block else 0,
        budget=_budget_effect(context, stored.slug if stored else "", len(block), session),
        findings=tuple(finding.as_json() for finding in scan_package(reading.package)),
        reach=describe_reach(reading.skill) if reading.skill else {"requests": (), "reach": "", "sends_out": False},
    )


def _render_block(skill: Skill | None, scope: Scope) -> str:
    kinds = inserted_kinds(artifact.kind for artifact in skill.artifacts) if skill else ()
    if skill is None or not kinds:
        return ""
    body = join_texts([artifact for artifact in skill.artifacts if artifact.kind in kinds])
    return skill_block(skill.title, body, slug=skill.slug, origin=scope, digest=skill.digest)


def _budget_effect(context: Context, slug: str, chars: int, session: str) -> dict[str, Any]:
    """Return the budget of a session, or a new one, before and after the draft is enabled in it."""
    found = context.find_session(session)
    limit = found.budget.limit if found else context.read_policy().skills_max_prompt_chars
    enabled = found.enabled if found else ()
    # An older version that is enabled leaves the prompt.
    others = sum(skill.content_length for skill in enabled if not slug or skill.slug != slug)
    return {
        "session": found.id if found else "",
        "used": sum(skill.content_length for skill in enabled),
        "max": limit,
        "after": others + chars,
        "fits": others + chars <= limit,
    }


def _artifact_json(artifact: Artifact, package: Package | None) -> dict[str, Any]:
    fields: dict[str, Any] = artifact.model_dump(mode="json", exclude={"id", "skill_id", "revision", "state"})
    file = package.get(artifact.path) if package and artifact.path else None
    if kind_info(artifact.kind).is_file:
        fields["content"] = _decode(file.content) if file else None
    fields["size"] = len(file.content) if file else len(artifact.content.encode("utf-8", "replace"))
    fields["variables"] = _list_variables(artifact)
    fields["runs"] = kind_info(artifact.kind).in_run == "work"
    return fields


def _decode(content: bytes) -> str | None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _list_variables(artifact: Artifact) -> list[str]:
    if not isinstance(artifact, PromptTemplate):
        return []
    try:
        return sorted(find_variables(artifact.content, artifact.syntax))
    except Invalid:  # a problem of the document says so
        return []


def _find_template(context: Context, draft: SkillDraft, name: str, address: str) -> PromptTemplate:
    report, _ = _validate(context, draft, address)
    if report.reading.skill is None:
        raise _no_skill(report)
    found = report.reading.skill.find_artifact(name, "prompt_template")
    assert isinstance(found, PromptTemplate)  # noqa: S101  (of this kind)
    return found


def _no_skill(report: ValidationReport) -> Invalid:
    first = report.errors[0]
    return Invalid(first.message, hint=first.hint or "Fix the document first.", problems=report.problems)


def _try_messages(
    context: Context, draft: SkillDraft, messages: Sequence[str], address: str, before: str
) -> list[TriggerTrial]:
    report, stored = _validate(context, draft, address)
    skill = report.reading.skill
    if skill is None:
        raise _no_skill(report)
    own = SearchDocument.of(skill.kept_as(id="draft", scope=stored.scope if stored else "org"))
    if stored is not None:
        own = replace(own, slug=stored.slug)
    matcher = context.resources.matcher.with_documents([own])
    return [
        _try_message(context, own, matcher.rank(message, limit=RANKING_DEPTH, context=before), message)
        for message in messages
    ]


def _try_message(context: Context, own: Any, found: list[Recommendation], message: str) -> TriggerTrial:
    # What is said of other skills is what the actor may see of them; the draft is the actor's own.
    others = {
        item.slug: item
        for item in context.visibility.recommendations([item for item in found if item.slug != own.slug])
    }
    ranked = [others.get(item.slug, item) for item in found if item.slug == own.slug or item.slug in others]
    place = next((number for number, one in enumerate(ranked, 1) if one.slug == own.slug), None)
    result = ranked[place - 1] if place else None
    return TriggerTrial(
        message=message,
        decision=result.decision if result else "no",
        score=result.score if result else None,
        place=place,
        why=result.why if result else _say_why_not(own.description),
        evidence=tuple(result.as_json()["evidence"]) if result else (),
        ranking=tuple(
            {
                "place": number,
                "slug": one.slug,
                "title": one.title,
                "score": one.score,
                "decision": one.decision,
                "why": one.why,
                "draft": one.slug == own.slug,
            }
            for number, one in enumerate(ranked, 1)
            if number <= _RIVALS or one.slug == own.slug
        ),
    )


def _say_why_not(description: str) -> str:
    if not description:
        return "The draft has no description, so it is not ranked."
    return f"The draft does not rank among the first {RANKING_DEPTH} skills."
