"""Watch approved optimizations in live runs, and roll back one that does worse than what it replaced.

See `decision.judge_live` for when that is. A rollback restores the old version as a new one, with the trust that the old
one had, on behalf of the person who approved the candidate; it is in the audit log and an event, never silent.
"""

from __future__ import annotations

import logging
from functools import partial

from prowess.authoring.optimize.change import read_change
from prowess.authoring.optimize.decision import LOOKS, MAX_OLD_RUNS, LiveTest, judge_live
from prowess.authoring.optimize.records import Records
from prowess.engine.engine import Engine
from prowess.engine.records import read_rows
from prowess.errors import Conflict, NotFound, ProwessError
from prowess.policy.actor import stored_actor
from prowess.storage import proposals
from prowess.storage.proposals import ProposalRow
from prowess.threads import offload

log = logging.getLogger(__name__)

CHANNEL = "optimizer"
"""The channel in the audit log of a rollback that nobody asked for."""


async def watch_approved(engine: Engine, *, organization: str | None = None, skill: str = "") -> list[ProposalRow]:
    """Judge every approved optimization that is watched, roll back those that regressed, and return those that ended.

    With `organization` None, those of all organizations.
    """
    watched = partial(proposals.list_watched, organization_id=organization)
    ended: list[ProposalRow] = []
    for row in await offload(read_rows, engine.context, watched, []):
        if not skill or row.skill_slug == skill:
            try:
                changed = await _judge(engine, row)
            except ProwessError as error:  # such as a damaged row; those of other organizations come next
                log.warning("The optimization %s could not be judged: %s", row.id, error)
                continue
            if changed is not None:
                ended.append(changed)
    return ended


async def _judge(engine: Engine, row: ProposalRow) -> ProposalRow | None:
    """Compare the live runs of both versions; return the optimization if it is no longer watched."""
    owner = engine.as_actor(stored_actor(row.actor), channel=CHANNEL)
    records = Records(owner.context)
    test = await offload(_read_live, owner, row)
    try:
        current = (await owner.skills.get(f"{row.scope}:{row.skill_slug}")).digest
    except NotFound:
        current = ""
    live = test.as_json()
    try:
        if current == row.base_digest:
            why = "The previous version was restored."
            return await records.change(
                row.id, {"state": "rolled_back", "live": live, "reason": why}, states=("watching",)
            )
        if current != row.candidate_digest:
            why = "The skill has changed since, so it is no longer watched."
            return await records.change(row.id, {"state": "kept", "live": live, "reason": why}, states=("watching",))
        if test.verdict == "fine":
            why = f"No regression in {test.looked_at} live runs ({_rates(test)})."
            return await records.change(row.id, {"state": "kept", "live": live, "reason": why}, states=("watching",))
        if test.verdict == "regressed":
            return await _roll_back(owner, records, row, test)
        if live != row.live:
            await offload(_store_live, owner, row, test)
    except Conflict:
        return None  # another process has just done it
    return None


async def _roll_back(owner: Engine, records: Records, row: ProposalRow, test: LiveTest) -> ProposalRow:
    address = f"{row.scope}:{row.skill_slug}"
    versions = await owner.skills.history(address)
    old = next(
        (version for version in reversed(versions) if version.digest == row.base_digest and version.change != "delete"),
        None,
    )
    why = f"Worse than before in live runs: {_rates(test)}"
    if old is None:
        failed = f"{why}. It was not rolled back, because the previous version is no longer stored."
        return await records.change(
            row.id, {"state": "kept", "live": test.as_json(), "reason": failed}, states=("watching",)
        )
    note = f"Rolled back by the optimizer (proposal {row.id[:8]}). {why}."
    try:
        # Only exactly the candidate is replaced: a change that came in between stays.
        await owner.skills.rollback(address, old.number, expected=(row.candidate_digest,), note=note)
    except Conflict:
        raise
    except ProwessError as error:
        # Told once, and tried again with the next look.
        return await records.change(
            row.id,
            {"live": test.as_json(), "reason": f"{why}. The rollback failed: {error.message}"},
            states=("watching",),
        )
    reason = f"{why}. Version {old.number} is current again."
    return await records.change(
        row.id, {"state": "rolled_back", "live": test.as_json(), "reason": reason}, states=("watching",)
    )


def _read_live(owner: Engine, row: ProposalRow) -> LiveTest:
    change = read_change(row)
    names = [name for name in {row.artifact, change.artifact, change.fallback} if name]
    with owner.context.resources.records().read() as connection:
        old = proposals.read_live(
            connection, row.organization_id, row.skill_slug, row.base_digest, names, limit=MAX_OLD_RUNS
        )
        new = proposals.read_live(
            connection,
            row.organization_id,
            row.skill_slug,
            row.candidate_digest,
            names,
            since=row.approved_at or row.created_at,
            limit=LOOKS[-1],
        )
    return judge_live(old, new)


def _store_live(owner: Engine, row: ProposalRow, test: LiveTest) -> None:
    with owner.context.resources.records().write() as connection:
        proposals.change(connection, row.id, {"live": test.as_json()}, states=("watching",))


def _rates(test: LiveTest) -> str:
    def rate(share: float | None, runs: int) -> str:
        return f"{share:.0%} of {runs} runs passed" if share is not None else "no runs"

    return f"{rate(test.new_rate, test.new_runs)}, before {rate(test.old_rate, test.old_runs)}"
