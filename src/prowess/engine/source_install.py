"""Install one skill from an address, once, without keeping a source for it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from prowess.catalog.database_store import DatabaseStore
from prowess.catalog.database_writes import SaveOutcome, SaveRequest
from prowess.catalog.store_rules import accepted_skill
from prowess.engine.context import Context
from prowess.errors import Conflict, DuplicateSkill, Invalid, ProwessError
from prowess.skill.forms.form import Reading
from prowess.skill.model import SCOPES, Provenance, Scope, Skill
from prowess.skill.package import Package
from prowess.skill.validate import accept
from prowess.sources.reference import parse_source
from prowess.sources.source_config import describe_place, make_reference
from prowess.storage import ledger
from prowess.storage.ledger import AuditEntry
from prowess.storage.sources import SourceType
from prowess.threads import offload, offload_to_completion

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.sources.fetched import FetchedSkill


async def install_from(
    context: Context, source_type: SourceType, url: str, *, ref: str = "", slug: str = "", scope: Scope
) -> Skill:
    """Fetch an address, and store the one skill that is there, or the one with this slug.

    It counts as synced: its text is used only as far as the policy allows, or once a person has accepted it.
    """
    actor, resources = context.actor, context.resources
    remote = actor.is_remote or bool(actor.organization)
    if source_type == "github":
        reference = parse_source(url)
        make_reference("github", {"repo": reference.url}, remote=remote)  # raises if it is not a repository
        reference = reference.at(ref=ref)
    else:
        reference = make_reference(source_type, {"url": url}, remote=remote)
    policy = await offload(context.read_policy)
    fetching = replace(resources.fetch_context(), credentials=not remote, routes=policy.host_routes)
    fetched = await resources.fetch_source(reference, fetching, None)
    found, reading = await offload(_choose, context, fetched.skills, slug)
    provenance = Provenance(
        source="community",
        source_type=source_type,
        source_url=describe_place(replace(reference, path=""), found.path),
        source_ref=fetched.state.revision or ref or None,
    )
    return await offload_to_completion(install_reading, context, reading, provenance, scope)


def install_package(context: Context, package: Package, provenance: Provenance, scope: Scope) -> Skill:
    """Store a package that was fetched, with where it came from; see `install_reading`. Blocking."""
    return install_reading(context, accept(package, context.resources.limits), provenance, scope)


def install_reading(context: Context, reading: Reading, provenance: Provenance, scope: Scope) -> Skill:
    """Store a skill that was fetched and read, as the next version of what was installed from the same address. Blocking.

    Raise `DuplicateSkill` if the slug is taken by another skill, or by one that was edited here.
    """
    actor, resources = context.actor, context.resources
    slug = accepted_skill(reading)[0].slug
    replaced = ""
    for store in context.catalog.stores():
        if SCOPES.index(store.scope) < SCOPES.index(scope) or (digest := store.get_digest(slug)) is None:
            continue
        installed = store.get_skill_by_name(slug) if store.scope == scope else None
        if installed is None or not _is_from(installed, provenance):
            raise DuplicateSkill(
                f"The slug {slug!r} is already taken in the {store.scope} scope.",
                hint="Delete or rename that skill first. A fetched skill never replaces one of yours.",
            )
        if digest == reading.package.digest:
            return installed
        replaced = digest
    action = "update" if replaced else "install"
    resources.gate.begin(actor, action, source_url=provenance.source_url, slug=slug, scope=scope)

    def finish(connection: sa.Connection, outcomes: list[SaveOutcome]) -> None:
        entries = [
            AuditEntry(
                actor=actor.label,
                channel=actor.channel,
                action=action,
                slug=slug,
                digest=reading.package.digest,
                outcome="done",
                detail={"source_url": provenance.source_url, "source_ref": provenance.source_ref},
            )
            for outcome in outcomes
            if outcome.skill is not None
        ]
        user = actor.user if scope == "user" else ""
        events = ledger.catalog_events(action, len(entries), slug=slug, user=user)
        ledger.append(connection, actor.organization, audits=entries, events=events)

    request = SaveRequest(
        reading=reading,
        expected=replaced or None,
        actor=actor.label,
        note=provenance.source_url or "",
        provenance=provenance,
    )
    store = cast("DatabaseStore", resources.writable(scope))
    try:
        [outcome] = store.save_requests([request], finish)
        stored = outcome.saved
    except ProwessError as error:
        with suppress(ProwessError):  # raise the first error, not one of the log
            resources.gate.end(actor, action, f"failed: {error.code}", names=[slug])
        raise
    finally:
        resources.mark_changed()
        # The write may have created a database, which is one more store.
        context.catalog.stores()
    resources.wake(actor.organization)
    context.catalog.scans.of_package(reading.package)
    return stored


def _is_from(skill: Skill, provenance: Provenance) -> bool:
    """Return True if a skill was installed from this address. An edit ends that, and a source updates its own skills."""
    return not skill.provenance.source_id and skill.provenance.source_url == provenance.source_url


def _choose(context: Context, skills: tuple[FetchedSkill, ...], slug: str) -> tuple[FetchedSkill, Reading]:
    """Return the skill with a slug, or the only one."""
    read: list[tuple[FetchedSkill, Reading]] = []
    errors: list[ProwessError] = []
    for skill in skills:
        try:
            read.append((skill, accept(skill.package, context.resources.limits)))
        except ProwessError as error:
            errors.append(error)
    slugs = [accepted_skill(reading)[0].slug for _, reading in read]
    chosen = [pair for pair, name in zip(read, slugs, strict=True) if not slug or name == slug]
    if len(chosen) == 1:
        return chosen[0]
    if not read and errors:
        raise errors[0]
    if slug or not slugs:
        what = f"no skill {slug!r}" if slug else "no skill"
        raise Invalid(f"There is {what} at this address.", hint=_name(slugs) or "Check the address.")
    raise Conflict(f"There are {len(slugs)} skills at this address.", hint=f"Choose one with `slug`. {_name(slugs)}")


def _name(slugs: list[str]) -> str:
    return f"It has {', '.join(sorted(slugs)[:20])}{' …' if len(slugs) > 20 else ''}." if slugs else ""
