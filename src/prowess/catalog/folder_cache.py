"""Cache the skills of a folder between processes, so that listing them reads only changed files.

The cache holds the data of `DiskSkill`: cards, digests and the stamps of files, never their content. Each entry is checked
against the disk before it is used, exactly as within one process. A cache that is missing, damaged or written by another
version is ignored and rewritten, so it only affects speed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prowess.catalog.folder_index import DiskSkill
from prowess.skill.limits import Limits
from prowess.skill.model import Scope, SkillCard
from prowess.skill.reader_version import reader_version

_FORMAT = 2


class FolderCache:
    """The cache file of one skill folder, below `folder`, which must not belong to the workspace.

    A workspace may contain untrusted files; write access to the cache means control over the cards that are shown.
    """

    def __init__(self, folder: Path, *, root: str, scope: Scope, limits: Limits) -> None:
        name = hashlib.sha256(f"{scope}\0{root}".encode(errors="surrogateescape")).hexdigest()[:20]
        self._path = folder / f"{name}.json"
        self._scope: Scope = scope
        # Everything besides the files that decides what is read from them. Python is part of it, because functions are
        # checked by its parser.
        limited = [limits.frontmatter_bytes, limits.skill_md_bytes, limits.body_chars, limits.file_bytes]
        limited += [limits.skill_bytes, limits.files, limits.depth, limits.yaml_depth, limits.strict]
        self._key = [_FORMAT, reader_version(), list(sys.version_info[:2]), scope, root, limited]
        self._saved: dict[str, object] = {}

    def load(self) -> list[DiskSkill]:
        """Return the saved skills, or an empty list without a usable cache."""
        try:
            key, rows = json.loads(self._path.read_bytes())
            skills = [self._skill(*row) for row in rows] if key == self._key else []
        except (OSError, ValueError, TypeError, RecursionError):
            return []
        self._saved = {skill.location: skill.stamps for skill in skills}
        return skills

    def save(self, skills: Iterable[DiskSkill]) -> None:
        """Save the skills unless they are saved already. A disk that is full or read-only is not an error."""
        # A skill with problems is read again by every process: messages may have been reworded, and it will be fixed.
        # One that is not settled would have to be read again anyway.
        cached = [skill for skill in skills if skill.settled and not (skill.problems and skill.card is None)]
        stamps: dict[str, object] = {skill.location: skill.stamps for skill in cached}
        if stamps == self._saved:
            return
        from prowess.storage.files.cache_file import write_cache  # lazy: most commands save nothing

        write_cache(self._path, json.dumps([self._key, [_row(skill) for skill in cached]]))
        self._saved = stamps

    def _skill(
        self,
        location: str,
        single_file: bool,
        digest: str,
        slug: str,
        declared: str | None,
        artifacts: list[Any],
        stamps: list[Any],
        card: list[Any] | None,
    ) -> DiskSkill:
        return DiskSkill(
            location=location,
            single_file=single_file,
            stamps=tuple((path, (mtime, ctime, size, inode, mode)) for path, mtime, ctime, size, inode, mode in stamps),
            settled=True,
            digest=digest,
            slug=slug,
            card=None if card is None else card_from_row(self._scope, slug, digest, *card),
            declared=declared,
            artifacts=tuple((name, variant) for name, variant in artifacts),
        )


_EMPTY_CARD = SkillCard.model_construct()


def card_row(card: SkillCard) -> list[Any]:
    """Return the fields of a card that a cache stores, besides its slug and digest."""
    values = [card.title, card.description, card.version, card.tags, card.source, card.kinds, card.chars]
    return [*values, card.people_only]


def card_from_row(
    scope: Scope,
    slug: str,
    digest: str,
    title: str,
    description: str,
    version: str,
    tags: list[str],
    source: Any,
    kinds: Any,
    chars: int,
    people_only: bool,
) -> SkillCard:
    """Return the card of a row in a cache."""
    # Not validated: it was when the files were read. A copy takes half as long as `model_construct`.
    return _EMPTY_CARD.model_copy(
        update={
            "slug": slug,
            "title": title,
            "description": description,
            "version": version,
            "tags": tuple(tags),
            "scope": scope,
            "source": source,
            "digest": digest,
            "kinds": tuple(kinds),
            "chars": chars,
            "people_only": people_only,
        }
    )


def _row(skill: DiskSkill) -> list[Any]:
    card = skill.card
    return [
        skill.location,
        skill.single_file,
        skill.digest,
        skill.slug,
        skill.declared,
        skill.artifacts,
        [(path, *stamp) for path, stamp in skill.stamps],
        card_row(card) if card else None,
    ]
