"""The result of a fetch: the packages found at a source, and exactly which state of the source they are from."""

from __future__ import annotations

from dataclasses import dataclass

from prowess.errors import Problem, ProwessError
from prowess.skill.package import Package


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """The state of a source that a fetch saw. The next fetch gets it back, to return early and to notice tampering."""

    url: str
    """The address that was fetched in the end, after aliases and permanent redirects."""
    revision: str = ""
    """The commit, or the version or digest of an index: what the packages are pinned to."""
    tree: str = ""
    """The git tree of the fetched path."""
    etag: str = ""
    sequence: int = 0
    """The number of a signed index; a smaller one later is a rollback."""
    checked_at: str = ""
    """When the source was seen in this state. Of a signed index, when it was signed: an unchanged one does not get younger."""
    key: str = ""
    """The public key that signed the index; another one later is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedSkill:
    """One skill of a source."""

    package: Package
    path: str = ""
    """The folder or file inside the source, for git inside the whole repository; '' for its root."""
    revision: str = ""
    """The git tree of the folder, or the registry's own version or hash."""
    signature: bytes = b""
    """The signature that came with the skill, not verified yet."""
    marketplace_id: str = ""
    """The id of the skill in a marketplace; '' for other sources. It becomes `marketplace_id` of the stored skill."""
    etag: str = ""
    """The marketplace's own tag for this version. It becomes `sync_etag` of the stored skill."""

    @property
    def origin(self) -> dict[str, str]:
        """The part of the provenance that is about this skill alone; empty unless it is from a marketplace."""
        if not self.marketplace_id:
            return {}
        return {"marketplace_id": self.marketplace_id, "sync_etag": self.etag, "source_ref": self.revision}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableSkill:
    """A skill of a source that could not be read. It does not affect the others."""

    path: str
    error: ProwessError


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """All skills of a source, from one state of it."""

    state: SourceState
    skills: tuple[FetchedSkill, ...] = ()
    unreadable: tuple[UnreadableSkill, ...] = ()
    warnings: tuple[Problem, ...] = ()
    """Warnings for the person who accepts it, such as a history that was rewritten."""
    complete: bool = True
    """False if the source may have more skills than these: then nothing that is missing counts as removed."""
    unchanged: bool = False
    """True if the source is in the state of the last fetch; then there are no skills here."""
