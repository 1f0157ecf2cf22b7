"""Old drafts of skills go with their rounds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from prowess.policy.retention import Retention
from prowess.skill.package import File, Package
from prowess.storage import compositions
from prowess.storage.compositions import CompositionRow, RoundRow
from prowess.storage.database import Database
from prowess.storage.owner import Owner


def in_days(days: int) -> Callable[[], str]:
    """Return a clock that shows the time in so many days."""
    time = datetime.now(UTC) + timedelta(days=days)
    return lambda: time.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def test_drafts_that_nobody_has_changed_for_long_go_with_their_rounds(database: Database) -> None:
    with database.write() as connection:
        for name, changed in (("old", in_days(1)()), ("new", in_days(100)())):
            row = CompositionRow(
                id=name, organization_id="acme", user_id="ann", created_by="ann", request="x", updated_at=changed
            )
            compositions.add(connection, row)
            package = Package.of("x", [File(path="SKILL.md", content=b"Hello.")])
            draft = RoundRow(
                composition_id=name,
                number=1,
                organization_id="acme",
                actor="ann",
                model="",
                slug="x",
                digest=package.digest,
                manifest=compositions.stored_manifest(package),
                draft={},
                checks={},
            )
            compositions.add_round(connection, draft, package)

    [report] = Retention(database, moment=in_days(200)).prune()

    assert report.compositions == 1
    with database.read() as connection:
        assert [one.id for one in compositions.find(connection, Owner(organization_id="acme", user_id="ann"), "")] == [
            "new"
        ]
        assert [compositions.list_rounds(connection, name) == [] for name in ("old", "new")] == [True, False]
