"""Skills over HTTP: read, search, write, import and export them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from prowess.client.part import JsonObject, Part, decode, decode_all
from prowess.client.problems import make_error
from prowess.client.transport import Transport, read_json, segment
from prowess.errors import Conflict, Invalid, NotFound, Problem, Refused

if TYPE_CHECKING:
    from prowess.catalog.exporter import ExportResult
    from prowess.catalog.importer import ImportResult, OnConflict, ProgressCallback
    from prowess.catalog.scans import FindingRow
    from prowess.catalog.store import Fault
    from prowess.engine.skill_reader import VersionDiff
    from prowess.engine.skill_rows import SkillRow
    from prowess.match.recommendation import Recommendation
    from prowess.skill.draft import SkillDraft
    from prowess.skill.kinds import Artifact, Kind
    from prowess.skill.model import Scope, Skill, SkillCard, Version
    from prowess.skill.package import Package
    from prowess.skill.profiles import ProfileName

ZIP = "application/zip"
_ORIGIN = ("source", "source_type", "source_url", "source_ref", "source_id")
"""The fields of a row that say where a skill came from."""
MAX_RESULTS = 200
"""The most results that a server returns for a message or a query."""


class Skills(Part):
    """The skills of the server. A skill is named by its slug, by `scope:slug`, or by its id."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._dangers: dict[str, int] = {}
        """How many severe findings each digest has, as far as it was listed."""

    # Read

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
        from prowess.engine.skill_rows import SkillRow

        return decode_all(SkillRow, await self._rows(query, tags, scope, source_id, enabled))

    async def cards(self) -> list[SkillCard]:
        """Return the card of every available skill, by slug."""
        rows = await self._rows()
        self._dangers |= {row["digest"]: row["dangers"] for row in rows if row["dangers"] is not None}
        return [_card(row) for row in rows]

    async def look(self) -> tuple[list[SkillCard], list[Fault]]:
        """Return the cards. Skills that cannot be read are reported only to the operator of the server."""
        return await self.cards(), []

    async def row(self, slug: str) -> SkillRow:
        """Return a skill with its document, as a row of the table of skills; raise `NotFound`."""
        from prowess.engine.skill_rows import SkillRow

        return decode(SkillRow, await self._transport.get(skill_path(slug)))

    async def get(self, slug: str) -> Skill:
        """Return a skill, read from all of its files, or raise `NotFound`. Sends two requests."""
        return (await self._read(slug))[0]

    async def package(self, slug: str) -> Package:
        """Return the files of a skill."""
        from prowess.skill.archive import read_archive

        response = await self._transport.send("GET", skill_path(slug, "export"), params={"form": "zip"})
        return read_archive(response.content, "skill.zip")[0]

    async def findings(self, slug: str) -> tuple[FindingRow, ...]:
        """Return the findings of the security scan, most severe first."""
        return tuple((await self._transport.get(skill_path(slug, "findings")))["findings"])

    async def dangers(self, cards: Sequence[SkillCard], *, scan: int = 0) -> dict[str, int]:
        """Return the number of dangerous findings by digest. Let the server scan at most `scan` skills that it never scanned.

        The numbers are those of the last list of cards.
        """
        for card in [card for card in cards if card.digest not in self._dangers][:scan]:
            with suppress(NotFound, Refused):
                found = await self.findings(f"{card.scope}:{card.slug}")
                self._dangers[card.digest] = sum(row.get("severity") == "danger" for row in found)
        return dict(self._dangers)

    async def read_file(self, slug: str, path: str) -> bytes:
        """Return one file of a skill by its exact path."""
        return (await self._transport.send("GET", f"{skill_path(slug, 'files')}/{quote(path)}")).content

    async def part(self, slug: str, name: str, *, kind: Kind | None = None) -> tuple[Artifact, bytes]:
        """Return one artifact with its content, by name or by `name@variant`; with `kind`, only one of that kind."""
        from prowess.skill.kinds import kind_info

        skill, package = await self._read(slug)
        found = skill.find_artifact(name, kind)
        if kind_info(found.kind).is_file and found.path:
            return found, _file_content(package, found.path)
        return found, found.content.encode()

    async def history(self, slug: str) -> list[Version]:
        """Return the versions of a skill, oldest first, even if it was deleted."""
        from prowess.skill.model import Version

        return [decode(Version, row) async for row in self._transport.pages(skill_path(slug, "versions"))]

    async def versions(self, slug: str) -> list[Version]:
        """Return the same as `history`, by the name that the HTTP API has for it."""
        return await self.history(slug)

    async def diff(self, slug: str, before: int | None = None, after: int | None = None) -> VersionDiff:
        """Return what changed between two versions; without numbers, the last change."""
        from prowess.engine.skill_reader import VersionDiff

        return decode(VersionDiff, await self._transport.get(skill_path(slug, "diff"), before=before, after=after))

    # Search

    async def search(self, query: str = "", *, limit: int = 20, tags: Collection[str] = ()) -> list[Recommendation]:
        """Return the skills that match a search query, best first; without a query, all with the tags, by slug."""
        body = {"query": query, "limit": min(limit, MAX_RESULTS), "tags": list(tags), "explain": True}
        return await self._recommend("/search", body)

    async def rank(
        self, message: str, *, limit: int = 10, tags: Collection[str] = (), context: str = ""
    ) -> list[Recommendation]:
        """Return the whole ranking for a message, including skills with the decision "no"."""
        return await self.match(message, limit=limit, tags=tags, context=context, every=True)

    async def match(
        self,
        message: str,
        *,
        limit: int = 5,
        tags: Collection[str] = (),
        context: str = "",
        every: bool = False,
    ) -> list[Recommendation]:
        """Return the skills that match a message, best first; with `every`, also those with the decision "no"."""
        body = {"message": message, "limit": min(limit, MAX_RESULTS), "tags": list(tags), "context": context}
        return await self._recommend("/match", {**body, "all": every, "explain": True})

    # Write

    async def create(self, skill: Skill, *, scope: Scope = "org") -> Skill:
        """Store a new skill with all its artifacts. Raise `DuplicateSkill` if the slug is taken."""
        from prowess.skill.edit import rewrite_package

        (result,) = await self._upload(rewrite_package(skill), Path(skill.slug), {"scope": scope})
        return await self.get(f"{scope}:{result.slug}")

    async def create_document(self, draft: SkillDraft, *, scope: Scope = "org") -> SkillRow:
        """Store a new skill from one document, with the fields of the draft written into it."""
        from prowess.engine.skill_rows import SkillRow

        return decode(SkillRow, await self._transport.post("/skills", {**_draft_json(draft), "scope": scope}))

    async def update_document(self, slug: str, draft: SkillDraft, *, expected: str = "") -> SkillRow:
        """Change the document of a skill, or fields in it. `expected` is the digest that it must still have."""
        from prowess.engine.skill_rows import SkillRow

        headers = {"if-match": f'"{expected}"'} if expected else {}
        response = await self._transport.send("PUT", skill_path(slug), json=_draft_json(draft), headers=headers)
        return decode(SkillRow, read_json(response))

    async def fork(self, slug: str, *, scope: Scope = "user") -> Skill:
        """Copy a skill of a farther scope into this one, where the copy overrides it, and return the copy."""
        row = await self._transport.post(skill_path(slug, "fork"), {"scope": scope})
        return await self.get(row["id"])

    async def delete(self, slug: str, *, expected: str = "", note: str = "", stored: bool = False) -> Version:
        """Delete a skill, or only its copy `stored` in a database. Return its last version, which `rollback` can restore."""
        from prowess.skill.model import Version

        headers = {"prefer": "return=representation", **({"if-match": f'"{expected}"'} if expected else {})}
        params = {"note": note, **({"stored": True} if stored else {})}
        response = await self._transport.send("DELETE", skill_path(slug), params=params, headers=headers)
        return decode(Version, read_json(response))

    async def rollback(self, slug: str, number: int, *, note: str = "") -> Skill:
        """Make the files of an earlier version current again, as a new version."""
        row = await self._transport.post(skill_path(slug, "rollback"), {"version": number, "note": note})
        return await self.get(row["id"])

    async def import_path(
        self,
        path: str | Path,
        *,
        scope: Scope = "org",
        replace: bool = False,
        on_conflict: OnConflict = "refuse",
        slug: str = "",
        prefix: str = "",
        watch: ProgressCallback | None = None,
    ) -> list[ImportResult]:
        """Send every skill at or below a path on this machine to the server. Only a person can do this.

        A skill that cannot be imported is a separate result and does not stop the others.
        """
        from prowess.catalog.importer import ImportResult, Progress, find_packages

        found = list(find_packages(Path(path)))
        if slug and len(found) != 1:
            raise Invalid(
                f"There are {len(found)} skills in {str(path)!r}, and --as gives one slug.",
                hint="Import one skill, or use --prefix NAME for all of them.",
            )
        results: list[ImportResult] = []
        conflict = "replace" if replace else on_conflict
        options = {"scope": scope, "on_conflict": conflict, "as": slug, "prefix": prefix}
        for done, item in enumerate(found, start=1):
            if item.package is None:
                results.append(ImportResult(path=item.path, error=item.error))
                continue
            try:
                results += await self._upload(item.package, item.path, options)
            except (Invalid, Conflict) as error:
                results.append(ImportResult(path=item.path, error=error))
            if watch is not None:
                watch(Progress(done=done, total=len(found), saved=sum(result.changed for result in results)))
        return results

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
        """Write a skill to a folder on this machine. `name` is the file name of an archive (default: after the skill)."""
        from prowess.catalog.exporter import export_skill

        skill, package = await self._read(slug)
        return export_skill(skill, package, Path(folder), name=name, form=form, profile=profile, replace=replace)

    async def _rows(
        self,
        query: str = "",
        tags: Collection[str] = (),
        scope: str = "",
        source_id: str = "",
        enabled: bool | None = None,
    ) -> Sequence[JsonObject]:
        params: JsonObject = {
            "q": query,
            "tags": list(tags),
            "scope": scope,
            "source_id": source_id,
            "enabled": enabled,
        }
        return [row async for row in self._transport.pages("/skills", **params)]

    async def _read(self, slug: str) -> tuple[Skill, Package]:
        """Return a skill and its files, of one and the same digest."""
        from prowess.skill.forms.conversion import read_package
        from prowess.skill.model import Provenance

        row: JsonObject = await self._transport.get(skill_path(slug))
        package = await self.package(row["id"])
        if package.digest != row["digest"]:
            raise Conflict(f"The skill {row['slug']!r} changed while it was read.", hint="Read it again.")
        reading = read_package(package)
        if reading.skill is None:
            raise Invalid(f"The skill {row['slug']!r} has problems.", hint="Fix its files.", problems=reading.problems)
        dates = {"created_at": row["created_at"] or "", "updated_at": row["updated_at"] or ""}
        # The files do not say where they came from; the row does.
        provenance = decode(Provenance, {name: row[name] for name in _ORIGIN})
        return reading.skill.kept_as(id=row["id"], scope=row["scope"], provenance=provenance, **dates), package

    async def _recommend(self, path: str, body: JsonObject) -> list[Recommendation]:
        from prowess.match.recommendation import Recommendation

        items = (await self._transport.post(path, body))["items"]
        # Without a query nothing is ranked, and a server says so. In this process, such a skill has the values of a list.
        listed = {"score": 0.0, "decision": "maybe"}
        unranked = [{**item, **listed} if item["decision"] is None else item for item in items]
        return decode_all(Recommendation, unranked)

    async def _upload(self, package: Package, path: Path, options: Mapping[str, str]) -> list[ImportResult]:
        """Import the files of one skill, which came from a path of this machine. Raise the error if that fails."""
        from prowess.skill.archive import write_archive

        data, headers = write_archive(package, "zip"), {"content-type": ZIP}
        response = await self._transport.send("POST", "/skills/import", params=options, content=data, headers=headers)
        return [_decode_import(row, path) for row in read_json(response)["items"]]


def skill_path(slug: str, action: str = "") -> str:
    """Return the path of a skill, or of something below it."""
    return f"/skills/{segment(slug)}" + (f"/{action}" if action else "")


def _card(row: JsonObject) -> SkillCard:
    from prowess.skill.model import SkillCard

    return decode(SkillCard, {**row, "title": row["name"], "chars": row["content_length"]})


def _file_content(package: Package, path: str) -> bytes:
    file = package.get(path)
    if file is None:
        raise NotFound(f"{package.name!r} has no file {path[:200]!r}.", hint=f"It has: {', '.join(package.paths)}.")
    return file.content


def _draft_json(draft: SkillDraft) -> JsonObject:
    fields = asdict(draft)
    fields["name"] = fields.pop("title")
    fields["files"] = dict(draft.files) or None
    return {name: value for name, value in fields.items() if value is not None}


def _decode_import(value: JsonObject, path: Path) -> ImportResult:
    """Return the result of an import. Its path is the one on this machine."""
    from prowess.catalog.importer import ImportResult
    from prowess.scan import Finding

    same = ("slug", "form", "version", "digest", "changed", "skipped", "chars")
    return ImportResult(
        **{name: value[name] for name in same},
        path=path,
        problems=tuple(decode_all(Problem, value["problems"])),
        findings=tuple(decode_all(Finding, value["findings"])),
        error=make_error(value["error"]) if value["error"] else None,
    )
