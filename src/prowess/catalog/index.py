"""Which site serves which slug: kept up to date one site at a time, so that a change costs what it touches."""

from __future__ import annotations

import uuid
from bisect import insort
from collections.abc import Collection, Iterator

from prowess.catalog.codes import slug_conflict
from prowess.catalog.site import Site
from prowess.catalog.store import Fault
from prowess.skill.kinds import Kind
from prowess.skill.model import SkillCard, artifact_id


class Index:
    """The sites of one folder by place, by slug and by id. Of several claims on a slug, the first by path is served."""

    def __init__(self, namespace: str) -> None:
        self.sites: dict[str, Site] = {}
        self._namespace = namespace
        self._claims: dict[str, list[Site]] = {}
        self._declared: dict[str, list[Site]] = {}
        self._made: dict[str, str] = {}
        self._faulty: dict[str, Site] = {}
        self._cards: list[SkillCard] | None = None
        self._artifacts: dict[str, str] | None = None
        self._touched: set[str] = set()

    def put(self, site: Site) -> None:
        """Take a site in, in the place of what was known there."""
        known = self.sites.get(site.location)
        if known is not None and known.card is site.card and known.problems == site.problems:
            self._swap(known, site)
            return
        self.drop(site.location)
        self.sites[site.location] = site
        if site.card is not None:
            self._touched.add(site.slug)
            insort(self._claims.setdefault(site.slug, []), site, key=lambda other: other.order)
            self._made[self._made_id(site.slug)] = site.slug
        elif site.problems:
            self._faulty[site.location] = site
        if site.card is not None and site.declared:
            insort(self._declared.setdefault(site.declared, []), site, key=lambda other: other.order)
        self._forget()

    def drop(self, location: str) -> None:
        """Forget what was known of a place."""
        site = self.sites.pop(location, None)
        if site is None:
            return
        self._faulty.pop(location, None)
        if site.card is not None:
            self._touched.add(site.slug)
        for table, key in ((self._claims, site.slug), (self._declared, site.declared or "")):
            rest = [other for other in table.get(key, ()) if other.location != location]
            if rest:
                table[key] = rest
            else:
                table.pop(key, None)
        self._forget()

    def _swap(self, known: Site, site: Site) -> None:
        """The same skill with newer stamps."""
        self.sites[site.location] = site
        for table in (self._claims, self._declared):
            for key in (site.slug, site.declared or ""):
                claims = table.get(key, [])
                for place, other in enumerate(claims):
                    if other is known:
                        claims[place] = site
        if site.location in self._faulty:
            self._faulty[site.location] = site

    def _forget(self) -> None:
        self._cards = self._artifacts = None

    def _made_id(self, slug: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self._namespace}\x00{slug}"))

    def serving(self, slug: str) -> Site | None:
        """The site that serves a slug."""
        claims = self._claims.get(slug)
        return claims[0] if claims else None

    def touched(self) -> set[str]:
        """The slugs on which a claim came, changed or went since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def copies(self, site: Site) -> list[Site]:
        """The other sites with the same slug and the same files."""
        return [other for other in self._claims.get(site.slug, ()) if other is not site and other.digest == site.digest]

    def slugs(self) -> list[str]:
        """Every slug that is served."""
        return list(self._claims)

    def id_of(self, site: Site) -> str:
        """The id that the skill declares, unless another one has it; else one that follows from folder and slug."""
        if site.declared and self._declared[site.declared][0].slug == site.slug:
            return site.declared
        return self._made_id(site.slug)

    def by_id(self, skill_id: str) -> Site | None:
        """The serving site of a skill's id."""
        declared = self._declared.get(skill_id)
        slug = declared[0].slug if declared else self._made.get(skill_id, "")
        site = self.serving(slug)
        return site if site is not None and self.id_of(site) == skill_id else None

    def by_artifact(self, artifact: str) -> Site | None:
        """The serving site of an artifact's id."""
        if self._artifacts is None:
            self._artifacts = {
                artifact_id(self.id_of(site), name, variant): site.slug
                for site in self._serving()
                for name, variant in site.artifacts
            }
        return self.serving(self._artifacts.get(artifact, ""))

    def _serving(self) -> Iterator[Site]:
        return (claims[0] for claims in self._claims.values())

    def with_kinds(self, kinds: Collection[Kind]) -> Iterator[Site]:
        """The sites of what is served that have an artifact of one of these kinds; all when none is given."""
        wanted = set(kinds)
        for site in self._serving():
            if site.card is not None and (not wanted or not wanted.isdisjoint(site.card.kinds)):
                yield site

    def cards(self) -> list[SkillCard]:
        """The cards of what is served, sorted by slug."""
        if self._cards is None:
            cards = (site.card for site in self._serving())
            self._cards = sorted((card for card in cards if card is not None), key=lambda card: card.slug)
        return self._cards

    def faults(self) -> list[Fault]:
        """What is not served, and why: bad skills, and later claims on a slug with other files."""
        bad = [fault for site in self._faulty.values() if (fault := site.fault)]
        for slug, claims in self._claims.items():
            for other in claims[1:]:
                if other.digest != claims[0].digest:
                    problem = slug_conflict(slug, claims[0].location, other.location)
                    bad.append(Fault(location=other.location, slug=slug, problems=(problem,)))
        return bad
