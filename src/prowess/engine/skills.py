"""Skills: read, check, search, export, write and delete them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.catalog.importer import (
    CheckResult,
    ImportPlan,
    ImportResult,
    OnConflict,
    ProgressCallback,
    check_paths,
    ignore_progress,
)
from prowess.catalog.scans import FindingRow
from prowess.catalog.store import Fault, SearchDocument
from prowess.engine.context import Part, check_message
from prowess.engine.skill_reader import (
    VersionDiff,
    count_skill_dangers,
    diff_versions,
    list_unused,
    read_package,
    read_part,
    read_version,
    report_skill_usage,
    with_references,
)
from prowess.skill.kinds import Artifact, Kind
from prowess.skill.model import Scope, Skill, SkillCard, Version
from prowess.skill.profiles import ProfileName
from prowess.skill.slug import check_slug
from prowess.threads import offload, offload_cancellable

if TYPE_CHECKING:
    from prowess.catalog.exporter import ExportResult
    from prowess.engine.callables import Inventory
    from prowess.engine.drafts import Drafts
    from prowess.engine.skill_changes import SkillChange
    from prowess.engine.skill_overview import Overview, OverviewQuery
    from prowess.engine.skill_rows import SkillPage, SkillQuery, SkillRow
    from prowess.engine.skill_writer import SkillWriter
    from prowess.feed.usage import SkillUsage, UsageReport
    from prowess.match.recommendation import Recommendation
    from prowess.session.session import Session
    from prowess.skill.draft import ParsedDocument, SkillDraft
    from prowess.skill.outline import SkillOutline


class Skills(Part):
    """The available skills. A skill is named by its slug, or by `scope:slug` if a nearer scope overrides it."""

    # Read

    async def cards(self) -> list[SkillCard]:
        """Return the card of every available skill, by slug. If several have the same slug, the nearest one overrides the others.

        Each card has the trust of the skill. An agent gets no text of skills that need an approval to be enabled.
        """
        return (await self.look())[0]

    async def list(
        self,
        query: str = "",
        *,
        tags: Collection[str] = (),
        scope: str = "",
        source_id: str = "",
        enabled: bool | None = None,
    ) -> list[SkillRow]:
        """Return the skills that contain all words of the query and have all tags, by slug, without their documents."""
        from prowess.engine.skill_rows import SkillQuery, list_rows

        words, most = tuple(query.casefold().split()), sys.maxsize
        row_query = SkillQuery(
            words=words, tags=frozenset(tags), scope=scope, source_id=source_id, enabled=enabled, limit=most
        )
        return list((await offload(list_rows, self._context, row_query)).rows)

    async def faults(self) -> list[Fault]:
        """Return the skills that cannot be read, and why. An agent gets no text that nobody has accepted."""
        return (await self.look())[1]

    async def look(self) -> tuple[list[SkillCard], list[Fault]]:
        """Return cards and faults from a single scan."""

        def look() -> tuple[list[SkillCard], list[Fault]]:
            cards, faults = self._context.catalog.look()
            visibility = self._context.visibility
            return visibility.cards(cards), visibility.faults(faults)

        return await offload(look)

    async def reload(self) -> tuple[list[SkillCard], list[Fault]]:
        """Scan all skills again, for matching too."""
        self._context.resources.mark_changed()
        return await self.look()

    async def marked(self, found: Sequence[Recommendation]) -> list[Recommendation]:
        """Return results of a match with the current trust of each skill, without those that are switched off."""
        return await offload(lambda: self._context.visibility.usable(lambda _: found, len(found)))

    async def shown(self, cards: Sequence[SkillCard]) -> set[str]:
        """Return the slugs of the skills whose texts may be part of a prompt of the actor: see `Visibility`."""
        return await offload(self._context.visibility.shown, cards)

    async def documents(self) -> list[SearchDocument]:
        """Return the parts of every skill that matching reads, including its instructions. Each slug occurs once."""
        return await offload(lambda: list(self._context.catalog.documents()))

    async def get(self, slug: str) -> Skill:
        """Return a skill, or raise `NotFound`."""
        return await offload(self._context.catalog.get, slug)

    async def page(self, query: SkillQuery) -> SkillPage:
        """Return one page of the available skills as rows, by slug. Cheaper than `cards`: only changes are read again."""
        from prowess.engine.skill_rows import list_rows

        answers = self._context.resources.answers
        mark = answers.mark(self._context)
        page = answers.page(self._context, query, mark)
        if page is None:
            read = partial(list_rows, self._context, query)
            page = await answers.make(self._context, query, mark, read, lambda page: len(page.items_json))
        return page

    async def overview(self, query: OverviewQuery) -> Overview:
        """Return many skills as short rows of a list, with counts by scope and tag. Made for thousands of them."""
        from prowess.engine.skill_overview import list_overview

        return await offload(list_overview, self._context, query)

    async def row(self, slug: str) -> SkillRow:
        """Return a skill as a row with its document, or raise `NotFound`."""
        from prowess.engine.skill_rows import read_one

        answers = self._context.resources.answers
        mark = answers.mark(self._context)
        row = answers.row(self._context, slug, mark)
        if row is None:
            read = partial(read_one, self._context, slug)
            row = await answers.make(self._context, slug, mark, read, lambda row: len(row.json))
        return row

    async def locate(self, id: str) -> str:
        """Return `scope:slug` of the skill with an id. A slug or an address is returned as it is."""
        from prowess.engine.skill_rows import find_address, looks_like_id

        return await offload(find_address, self._context.catalog, id) if looks_like_id(id) else id

    async def check_readable(self, slug: str) -> None:
        """Raise `Refused` if the actor is an agent that may not see the texts of a skill yet."""
        from prowess.engine.skill_rows import check_readable

        await offload(check_readable, self._context, slug)

    async def outline(self, slug: str) -> SkillOutline | None:
        """Return the outline of a skill without its texts, or None. This is cheap."""
        return await offload(self._context.catalog.outline, slug)

    async def findings(self, slug: str) -> tuple[FindingRow, ...]:
        """Return the findings of the security scan, most severe first. They are advice; see docs/scan.md."""
        catalog = self._context.catalog
        return await offload(lambda: catalog.scans.of(*catalog.find_outline(slug)))

    async def dangers(self, cards: Sequence[SkillCard], *, scan: int = 0) -> dict[str, int]:
        """Return the number of dangerous findings by digest. Scan at most `scan` skills that were never scanned."""
        return await offload(count_skill_dangers, self._context, cards, scan)

    async def read_file(self, slug: str, path: str) -> bytes:
        """Return one file of a skill by its exact path. This does not pass the gate; `resource` does."""

        def read() -> bytes:
            store, skill = self._context.catalog.find(slug)
            return store.read_file(skill.id, path)

        return await offload(read)

    async def resource(self, slug: str, path: str, *, session: Session | str = "") -> bytes:
        """Return one file of a skill by its exact path, through the gate, and record it as a load."""
        from prowess.engine.sessions import load_file

        return await load_file(self._context, slug, path, session=self._context.session_key(session))

    async def part(self, slug: str, name: str, *, kind: Kind | None = None) -> tuple[Artifact, bytes]:
        """Return one artifact with its content, by name or by `name@variant`; with `kind`, only one of that kind."""
        return await offload(read_part, self._context, slug, name, kind)

    async def history(self, slug: str) -> list[Version]:
        """Return the versions of a skill, oldest first, even if it was deleted."""
        return await offload(lambda: self._context.catalog.history(slug)[1])

    async def version(self, slug: str, number: int) -> tuple[Version, str]:
        """Return one version of a skill, and its document; raise `NotFound`."""
        return await offload(read_version, self._context, slug, number)

    async def diff(self, slug: str, before: int | None = None, after: int | None = None) -> VersionDiff:
        """Return what changed between two versions; without numbers, the last change."""
        return await offload(diff_versions, self._context, slug, before, after)

    # Search

    async def search(self, query: str = "", *, limit: int = 20, tags: Collection[str] = ()) -> list[Recommendation]:
        """Return the skills that match a search query, best first; without a query, all with the tags, by slug."""
        context = self._context

        def find(most: int) -> Sequence[Recommendation]:
            return context.resources.matcher.search(query, limit=most, tags=tags, people_only=context.actor.is_person)

        return await offload(lambda: context.visibility.usable(find, limit))

    async def rank(
        self, message: str, *, limit: int = 10, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """Return the whole ranking for a message, with the decision "no", too. Raise `Invalid` if the message is blank."""
        check_message(message, limit)
        resources, visibility = self._context.resources, self._context.visibility

        def find(most: int) -> Sequence[Recommendation]:
            return resources.matcher.rank(message, limit=most, tags=tags, context=context)

        return await offload(lambda: visibility.usable(find, limit))

    async def unused(self, *, days: float, system: bool = False) -> list[tuple[SkillCard, SkillUsage]]:
        """Return the skills that were not loaded, enabled or run in the last days, longest unused first.

        Skills of the system scope, which come with Prowess or a plugin, are left out unless `system` is true.
        """
        return await offload(list_unused, self._context, days, system=system)

    async def usage(self, *, days: float = 30, system: bool = False) -> UsageReport:
        """Report which skills, references and scripts were loaded in the last days, and which can be retired.

        Skills of the system scope are left out of the unused ones unless `system` is true.
        """
        return await offload(report_skill_usage, self._context, days, system=system)

    async def uses(self) -> Mapping[str, SkillUsage]:
        """Return how often and when each skill was used in the organization, by slug. Includes skills that no longer exist."""
        from prowess.feed.usage import list_usage

        resources, organization = self._context.resources, self._context.actor.organization
        return await offload(list_usage, resources.records(), organization) if resources.has_records() else {}

    async def inventory(self) -> Inventory:
        """Return what agents can use, such as callable skills. Reads only changes again."""
        return await offload(self._context.resources.look_for_tools)

    @property
    def last_inventory(self) -> Inventory:
        """The result of the last `inventory()`; empty before the first. Reads nothing."""
        return self._context.resources.last_tools

    # Check and export

    async def check(
        self, *paths: str | Path, profile: ProfileName = "prowess", watch: ProgressCallback = ignore_progress
    ) -> list[CheckResult]:
        """Validate every skill at or below these paths. With several paths, a missing one is a separate result.

        The profile `prowess` also looks up the prompts and rubrics that a skill refers to.
        """

        def check() -> list[CheckResult]:
            found = list(check_paths([Path(path) for path in paths], profile, self._context.resources.limits, watch))
            return [with_references(self._context, checked) for checked in found] if profile == "prowess" else found

        return await offload_cancellable(check)

    async def export(
        self,
        slug: str,
        folder: str | Path,
        *,
        name: str = "",
        form: str | None = None,
        profile: ProfileName | None = None,
        replace: bool = False,
    ) -> ExportResult:
        """Write a skill to a folder. `name` is the file name of an archive (default: after the skill)."""
        from prowess.catalog.exporter import export_skill

        def export() -> ExportResult:
            skill, package = read_package(self._context, slug)
            limits = self._context.resources.limits
            return export_skill(
                skill, package, Path(folder), name=name, form=form, profile=profile, replace=replace, limits=limits
            )

        return await offload(export)

    # Write. See `SkillWriter` for what every write leaves behind.

    async def create(self, skill: Skill, *, scope: Scope | None = None, note: str = "") -> Skill:
        """Store a new skill. Raise `DuplicateSkill` if the slug is taken.

        The default scope is the workspace. For an organization of a server, it is the organization; for an agent, its user.
        """
        return await offload(lambda: self._writer.create(skill, scope, note))

    async def create_document(self, draft: SkillDraft, *, scope: Scope = "org", note: str = "") -> Skill:
        """Store a new skill from one document. The fields of the draft take precedence over its frontmatter.

        Raise `DuplicateSkill` if the slug is taken.
        """
        return await offload(lambda: self._writer.create_document(draft, scope, note))

    async def create_row(self, draft: SkillDraft, *, scope: Scope = "org", enabled: bool = True) -> SkillRow:
        """Store a new skill from one document and return its row; with `enabled` False it is switched off from the start."""
        from prowess.engine.skill_changes import create_row

        return await offload(create_row, self._context, draft, scope, enabled=enabled)

    async def change_row(self, slug: str, change: SkillChange) -> SkillRow:
        """Change the document of a skill, or switch it on or off, and return its new row. Raise `Conflict` if it changed."""
        from prowess.engine.skill_changes import change_row

        return await offload(change_row, self._context, slug, change)

    async def update_document(self, slug: str, draft: SkillDraft, *, expected: str = "", note: str = "") -> Skill:
        """Change the document of a skill, or single fields. Raise `Conflict` if it changed in the meantime.

        With `expected`, the skill must have that digest.
        """
        return await offload(lambda: self._writer.update_document(slug, draft, expected, note))

    async def parse(self, content: str) -> ParsedDocument:
        """Read a document as a draft, with every problem. Stores nothing."""
        from prowess.skill.draft import parse_document

        return await offload(lambda: parse_document(content, limits=self._context.resources.limits))

    async def update(self, skill: Skill, *, note: str = "") -> Skill:
        """Change a skill that was read before. Raise `Conflict` if it has changed since."""
        return await offload(lambda: self._writer.update(skill, note))

    async def fork(self, slug: str, *, scope: Scope = "workspace") -> Skill:
        """Copy a skill of a farther scope into this one, where the copy overrides it, and return the copy.

        Its history records what it was copied from, and its card what it hides. Raise `Conflict` if the scope already has the skill.
        """
        return await offload(lambda: self._writer.fork(slug, scope))

    async def delete(self, slug: str, *, expected: str = "", note: str = "", stored: bool = False) -> Version:
        """Delete a skill, or only its copy `stored` in a database. Return its last version. `expected` is as in `update_document`."""
        return await offload(lambda: self._writer.delete(slug, note, expected=expected, stored=stored))

    async def rollback(self, slug: str, number: int, *, expected: Collection[str] = (), note: str = "") -> Skill:
        """Make the files of an earlier version current again, as a new version.

        With `expected`, raise `Conflict` unless the skill has one of these digests.
        """
        return await offload(lambda: self._writer.rollback(slug, number, note, expected=expected))

    async def import_path(
        self,
        path: str | Path,
        *,
        scope: Scope = "workspace",
        replace: bool = False,
        on_conflict: OnConflict = "refuse",
        slug: str = "",
        prefix: str = "",
        origin: str = "",
        watch: ProgressCallback = ignore_progress,
    ) -> list[ImportResult]:
        """Import every skill at or below a path. Only a person can do this; an agent creates skills one by one.

        `on_conflict` says what to do with a skill whose slug another one has: report it as an error, skip it, import it under
        a free slug, or replace the other one (as does `replace`). `slug` is the new slug of the only skill at the path, and
        `prefix` a namespace for all slugs. `origin` is recorded as the place that they came from (default: the path).
        """
        for text in (slug, prefix):
            if text:
                check_slug(text)
        writer = self._writer
        plan = ImportPlan(on_conflict="replace" if replace else on_conflict, slug=slug, prefix=prefix)
        return await offload_cancellable(
            lambda: writer.import_path(Path(path), scope, plan, watch=watch, origin=origin)
        )

    @cached_property
    def drafts(self) -> Drafts:
        """Preview and test skills that are being written."""
        from prowess.engine.drafts import Drafts

        return Drafts(self._context)

    @property
    def _writer(self) -> SkillWriter:
        from prowess.engine.skill_writer import SkillWriter

        return SkillWriter(self._context)
