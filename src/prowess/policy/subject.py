"""The subject of a decision: one skill with exact bytes, and how far its origin is trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from prowess.lazy_dataclass import dataclass
from prowess.policy.text import clean_text
from prowess.skill.needs import Reach
from prowess.skill.package import FileEntry

if TYPE_CHECKING:
    from prowess.policy.actor import Actor

Trust = Literal["local", "found", "synced", "agent", "live"]
"""How far a skill is trusted: accepted by a person here, merely found, copied from a source, written by an agent, fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenSkill:
    """A skill that another one of the same slug hides: where it is, and its bytes.

    `folder` is where it lies if it is kept in a folder. `frozen` skills come with an installed package.
    """

    scope: str
    digest: str
    folder: str = ""
    frozen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedEntry:
    """A prompt or rubric of the registry that a run uses, with exactly the content that was found for it.

    `location` is its file; '' for one in the database, where only people put entries. `hides` names the place of another
    entry that would be used without this one, and `hidden_digest` is its content.
    """

    kind: str
    label: str
    digest: str
    origin: str
    location: str = ""
    hides: str = ""
    hidden_digest: str = ""

    @property
    def key(self) -> str:
        """Return the key of an acceptance: this content, replacing that one."""
        return f"{self.digest}/{self.hidden_digest}" if self.hides else self.digest

    @property
    def description(self) -> str:
        """The description that a person sees."""
        location = f"{self.origin}: {self.location}" if self.location else self.origin
        instead = f", replacing another one in the {self.hides}" if self.hides else ""
        return f"uses the {self.kind} {self.label!r} ({location}, sha256 {self.digest[:12]}){instead}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One skill as the gate sees it.

    `digest` identifies the bytes to be used or, for an update, to be kept. `origin` says exactly where the skill is from, to
    tell a changed skill from another one of the same slug. `written_by` is the label of the author of the current version.
    `live` marks a skill fetched for one conversation. `requests` lists what the skill asks for (tools, hooks, servers,
    hosts); it is shown and grants nothing. `reach` is how far a run goes beyond the sandbox. With `asks_first`, the skill
    itself wants a person asked before an agent runs it.

    `folder`, `frozen` and `hides` are facts that the store states. `trust`, `hides_trusted`, `may_send_out` and
    `unaccepted` are conclusions that `prowess.policy.trust` draws from them and from the records; until then a skill counts as found.
    """

    slug: str
    digest: str
    title: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    scope: str = ""
    source: str = "user"
    source_type: str = "manual"
    origin: str = ""
    written_by: str = ""
    live: bool = False
    chars: int = 0
    manifest: tuple[FileEntry, ...] = ()
    requests: tuple[str, ...] = ()
    reach: Reach = ""
    asks_first: bool = False
    people_only: bool = False
    """True if its author wants only people to start it, and no person has chosen it for this use."""
    drafted: bool = False
    """True for files that a model wrote and nobody has accepted: an agent may keep them only if a person agrees."""
    folder: str = ""
    """The folder or file of a skill that is kept in a folder; '' for one in a database."""
    frozen: bool = False
    """True if it comes with an installed package."""
    hides: tuple[HiddenSkill, ...] = ()
    """Skills of the same slug with other bytes that are not served because of this one."""
    replaces: str = ""
    """For an update, the digest of the bytes that are there now. How far the skill is trusted is about those."""
    sends_out: bool = False
    """True if a run reaches hosts as well as files, pages or variables."""
    uses: tuple[UsedEntry, ...] = ()
    """The prompts and rubrics that a run takes from the registry, outside the skill's own bytes."""
    trust: Trust = "found"
    hides_trusted: tuple[str, ...] = ()
    """The scopes of trusted skills that it hides, unless a person has accepted that."""
    may_send_out: bool = False
    """True if a person has accepted that it sends out."""
    permitted: bool = False
    """For a connector or one of its tools: True if a person has allowed exactly this without being asked again."""
    unaccepted: tuple[UsedEntry, ...] = ()
    """Those of `uses` that nobody has accepted for this skill."""
    text: str = field(default="", compare=False, repr=False)
    """The text of a skill that was fetched live, which the person who is asked could read nowhere else."""
    findings: tuple[dict[str, Any], ...] = field(default=(), compare=False, repr=False)
    """Findings of the security scan. They follow from the digest."""

    @property
    def dangers(self) -> int:
        """The number of findings with the severity `danger`."""
        return sum(finding.get("severity") == "danger" for finding in self.findings)

    @property
    def is_complete(self) -> bool:
        """True if both skill and bytes are known."""
        return bool(self.slug and self.digest)

    def for_actor(self, actor: Actor) -> Subject:
        """Return the subject as it is recorded for an actor: members of a server's organizations see none of its paths."""
        if not actor.is_tenant:
            return self
        scope, colon, location = self.origin.partition(": ")
        origin = f"{scope}: {shown_path(actor, location)}" if colon else scope
        uses = tuple(replace(entry, location=shown_path(actor, entry.location)) for entry in self.uses)
        return replace(self, origin=origin, uses=uses)

    @property
    def announced(self) -> dict[str, Any]:
        """The skill's fields in events."""
        return {
            "slug": self.slug,
            "name": clean_text(self.title) or self.slug,
            "description": clean_text(self.description),
            "digest": self.digest,
            "source_type": self.source_type,
            "content_length": self.chars,
            "origin": clean_text(self.origin),
            "requests": [clean_text(request, limit=len(request)) for request in self.requests],
        }


def shown_path(actor: Actor, path: str) -> str:
    """Return a path, or where a database is, as an actor sees it: without the folders above, for a server's organizations."""
    if not actor.is_tenant:
        return path
    if "://" in path:
        return "database"
    return "/".join(path.rsplit("/", 3)[1:]) if path.startswith("/") else path


def manifest_changes(before: Sequence[FileEntry], after: Sequence[FileEntry]) -> dict[str, list[str]]:
    """Return the paths that were added, removed or changed (in content or mode), each list sorted."""
    old, new = ({entry.path: entry for entry in manifest} for manifest in (before, after))
    return {
        "added": sorted(new.keys() - old.keys()),
        "removed": sorted(old.keys() - new.keys()),
        "changed": sorted(path for path in old.keys() & new.keys() if old[path] != new[path]),
    }
