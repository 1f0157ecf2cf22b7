"""Skills of connectors in a session: the entry that a person approved, and taking a skill out when its server sends other bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prowess.errors import NotFound
from prowess.session.enabled import read_content, release_skill
from prowess.session.sessions import find_open_session, lock_open_session, read_session
from prowess.storage.blobs import get_package, load_manifest

if TYPE_CHECKING:
    from prowess.policy.actor import Actor
    from prowess.session.activate import Activation
    from prowess.skill.package import Package


def read_entry(activation: Activation, actor: Actor, session: str, slug: str) -> Package:
    """Return the entry under which a connector's skill is enabled, after it has passed the gate again. Blocking.

    Raise `NotFound` if the skill is not enabled, or its approval was revoked.
    """
    # The check of every turn: it takes out whatever the policy, a revocation or a changed row no longer allows.
    activation.blocks(actor, session)
    with activation.records.read() as connection:
        row = find_open_session(connection, actor, session)
        held = read_session(connection, row).get(slug)
        stored = read_content(connection, row, slug) if held else None
        if stored is None or not stored.intact or "entry" not in stored.row.detail:
            raise NotFound(
                f"The skill {slug[:80]!r} of a connector is not enabled in this session.",
                hint="Fetch it first: its files can be read while its instructions are in the prompt.",
            )
        manifest = load_manifest(stored.row.detail["entry"])
        return get_package(connection, slug, manifest, digest=stored.row.digest, slug=slug)


def expel_changed(activation: Activation, actor: Actor, session: str, slug: str, digest: str) -> None:
    """Take a connector's skill out of a session because its server sent other bytes than were approved. Blocking."""
    with activation.records.write() as connection:
        row = lock_open_session(connection, actor, session)
        held = read_session(connection, row).get(slug)
        # With another digest it was admitted again meanwhile.
        if held is not None and held.digest == digest:
            release_skill(connection, actor, row, held, "changed").append(connection)
    activation.wake(actor.organization)
