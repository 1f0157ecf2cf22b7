"""Decide how far a skill is trusted, from what its store states and what the records say. Nothing else counts.

Where a folder lies proves nothing: a cloned repository, a package manager and an installer all write folders. Nor does
anything that the files of a skill say about themselves. A skill is local if a person here accepted exactly these bytes
(by writing, importing, trusting or approving them), if its folder is under a standing rule, or if it comes with an
installed package. Whatever is not known counts as found.
"""

from __future__ import annotations

import os
from dataclasses import field, replace

from prowess.lazy_dataclass import dataclass
from prowess.policy.actor import AGENT_PREFIX
from prowess.policy.subject import HiddenSkill, Subject, Trust, UsedEntry
from prowess.storage.accepted import Accepted, AcceptedFacts

_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustRecords:
    """The records about some skills for one owner: acceptances, and the folders under a standing rule."""

    accepted: Accepted = field(default_factory=dict["tuple[str, str]", AcceptedFacts])
    folders: tuple[str, ...] = ()
    """Real paths without a slash at the end."""
    uses: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict["tuple[str, str]", "frozenset[str]"])
    """The keys of the prompts and rubrics that were accepted together with a skill, by its slug and digest."""

    def has_rule(self, folder: str) -> bool:
        """Return True if a folder, given by its path, is inside one that is under a standing rule."""
        if not folder or not self.folders:
            return False
        # The real path, because the name of a folder may lead through links that someone else made.
        real = os.path.realpath(folder)
        return any(real == rule or real.startswith(f"{rule.rstrip('/')}/") for rule in self.folders)

    def has_rule_below(self, folder: str) -> bool:
        """Return True if something inside a folder, but not all of it, is under a standing rule."""
        inside = os.path.realpath(folder).rstrip("/") + "/" if self.folders else "/"
        return any(rule.startswith(inside) for rule in self.folders)

    def is_trusted(self, slug: str, hidden: HiddenSkill) -> bool:
        """Return True if a skill that another one hides is trusted."""
        return hidden.frozen or (slug, hidden.digest) in self.accepted or self.has_rule(hidden.folder)


def is_settled(subject: Subject) -> bool:
    """Return True for a skill that is local by a standing rule or an installed package: nothing recorded changes that."""
    return subject.trust == "local" and not subject.sends_out and not subject.unaccepted


def conclude(subject: Subject, known: TrustRecords) -> Subject:
    """Return a subject with how far it is trusted, which trusted skills it hides, and if it may send data out."""
    accepted = known.accepted.get((subject.slug, subject.replaces or subject.digest))
    has_rule = subject.frozen or known.has_rule(subject.folder)
    hidden: tuple[str, ...] = ()
    if subject.hides and not has_rule:
        allowed = accepted.hides if accepted else _NOTHING
        scopes = {hidden.scope for hidden in subject.hides if known.is_trusted(subject.slug, hidden)}
        hidden = tuple(sorted(scopes - allowed))
    return replace(
        subject,
        trust=_decide(subject, is_local=accepted is not None or has_rule),
        hides_trusted=hidden,
        may_send_out=accepted is not None and accepted.sends_out,
        unaccepted=_list_unaccepted(subject, known),
    )


def _list_unaccepted(subject: Subject, known: TrustRecords) -> tuple[UsedEntry, ...]:
    """Return the prompts and rubrics in folders that were not accepted together with exactly these bytes of the skill."""
    agreed = known.uses.get((subject.slug, subject.digest), _NOTHING)
    files = [entry for entry in subject.uses if entry.location and entry.key not in agreed]
    return tuple(entry for entry in files if not known.has_rule(entry.location))


def _decide(subject: Subject, *, is_local: bool) -> Trust:
    if subject.live:
        return "live"
    if is_local:
        return "local"
    # Before its source: an agent could claim any source for what it writes.
    if subject.written_by.startswith(AGENT_PREFIX):
        return "agent"
    # Only a database records a source; in a folder it would be what the files say about themselves.
    if not subject.folder and subject.source_type != "manual":
        return "synced"
    return "found"


NEEDS_ACCEPTANCE = frozenset({"found", "hides-trusted", "can-send-out", "found-prompt"})
"""Rules about local and found skills that only an acceptance satisfies, never an approval that one requester has."""


def asks_for_acceptance(trust: str, rule: str) -> bool:
    """Return True if approving a request, made under this rule about a skill of this trust, accepts the skill itself.

    Approvals of synced skills and of those that agents wrote stay with their requester.
    """
    return trust == "found" or (trust == "local" and rule in NEEDS_ACCEPTANCE)
