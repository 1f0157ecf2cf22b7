"""One channel of the sync between devices, and how the skills of its bundle are written here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from prowess.engine.context import Context
from prowess.errors import Invalid, NotFound, ProwessError, Refused
from prowess.skill.package import File, Package
from prowess.sources.devices.bundle import Bundle, Difference, compare, package_name, repair_hint
from prowess.sources.devices.location import Location
from prowess.sources.devices.state import LastSync

if TYPE_CHECKING:
    from prowess.catalog.store import Store
    from prowess.skill.model import Scope
    from prowess.storage.trust import Acceptance

Change = Literal["added", "changed", "deleted"]
Outcome = Literal["done", "pending", "conflict", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChange:
    """One skill that differs between this device and the location, and what happened to it."""

    slug: str
    scope: str
    change: Change
    """What the side that changed did; in a conflict, what the other side did."""
    side: Literal["here", "there", "both"]
    outcome: Outcome
    """`pending` if a push or pull is still to be made."""
    accepted: bool = False
    """True if a person has accepted exactly these files, here or on the device that pushed them."""
    diff: str = ""
    """For a conflict: from the files here to those there."""
    error: ProwessError | None = None

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        names = ("slug", "scope", "change", "side", "outcome", "accepted", "diff")
        return {**{name: getattr(self, name) for name in names}, "error": self.error and self.error.as_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSync:
    """The result of a push, a pull or a look at the status."""

    location: str
    changes: tuple[DeviceChange, ...] = ()
    skills: int = 0
    """How many skills are the same on both sides."""
    device: str = ""
    """The device that pushed last; '' if nobody has."""
    pushed_at: str = ""
    new_key: bool = False
    """True if this push has created the owner's key."""
    unknown_workspace: str = ""
    """The name of this workspace if nothing was pushed for it: on another device its folder may have another name."""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        names = ("location", "skills", "device", "pushed_at", "new_key", "unknown_workspace")
        changes = [change.as_json() for change in self.changes]
        return {**{name: getattr(self, name) for name in names}, "changes": changes}

    def with_outcome(self, outcome: Outcome) -> tuple[DeviceChange, ...]:
        """Return the changes that ended like this."""
        return tuple(change for change in self.changes if change.outcome == outcome)


@dataclass(slots=True, kw_only=True)
class Channel:
    """One channel: the skills here, those at the location, and those that both had after the last sync."""

    name: str
    scope: Scope
    place: str
    store: Store
    here: dict[str, str]
    last: LastSync
    bundle: Bundle | None
    tag: str
    differences: list[Difference] = field(init=False)

    def __post_init__(self) -> None:
        # Without a bundle, the location is new: nothing was deleted there.
        before, there = (
            (self.last.digests, self.bundle.digests) if self.bundle else (dict[str, str](), dict[str, str]())
        )
        self.differences = compare(before, self.here, there)


def describe(channel: Channel, one: Difference, outcome: Outcome = "pending") -> DeviceChange:
    """Return a difference as a change for people; a conflict stays one unless something was done about it."""
    now = one.here if one.side == "here" else one.there
    return DeviceChange(
        slug=one.slug,
        scope=channel.scope,
        change="deleted" if not now else "changed" if one.before else "added",
        side=one.side,
        outcome="conflict" if one.side == "both" and outcome == "pending" else outcome,
    )


class BundleReader:
    """Reads the skills of a bundle, and makes those here the same."""

    def __init__(self, context: Context, location: Location, channel: Channel, bundle: Bundle) -> None:
        self._context = context
        self._location = location
        self._channel = channel
        self._bundle = bundle

    def apply(self, differences: list[Difference]) -> dict[str, DeviceChange]:
        """Make skills here what they are in the bundle, each by itself, and accept those that were accepted there."""
        context, channel = self._context, self._channel
        gate, actor = context.resources.gate, context.actor
        gate.begin(actor, "install", path=self._location.shown, scope=channel.scope, replace=True)
        results: dict[str, DeviceChange] = {}
        outcome = "failed: error"
        try:
            for difference in differences:
                results[difference.slug] = self._write(difference)
            outcome = "done"
        finally:
            context.resources.mark_changed()
            # The write may have created a database, which is one more store.
            context.catalog.stores()
            accepted = [self._acceptance(result) for result in results.values() if result.accepted]
            count = sum(result.outcome == "done" for result in results.values())
            deleted = [slug for slug, one in results.items() if one.change == "deleted" and one.outcome == "done"]
            detail = {"path": self._location.shown, "kept": count, "deleted": deleted}
            gate.end(actor, "install", outcome, accepted=accepted, changed=count, **detail)
        return results

    def diff(self, one: Difference) -> str:
        """Return the differences from the files here to those there; '' if either side has deleted it, or cannot be read."""
        from prowess.session.text import format_diff

        here = self._channel.store.get_package_by_name(one.slug) if one.here else None
        if here is None or not one.there:
            return ""
        try:
            return format_diff(here, self._download(one))
        except ProwessError:
            # A push that has not arrived completely. The conflict is shown without its text.
            return ""

    def _write(self, one: Difference) -> DeviceChange:
        done = describe(self._channel, one, "done")
        try:
            self._change(one)
        except ProwessError as error:
            return replace(done, outcome="failed", error=error)
        return replace(done, accepted=bool(one.there) and self._bundle.skills[one.slug].accepted)

    def _change(self, one: Difference) -> None:
        store, label = self._channel.store, self._context.actor.label
        note = f"Synced from {self._location.shown} ({self._bundle.device})"
        if one.there:
            store.save(self._download(one), expected=one.here or None, actor=label, note=note)
            return
        outline = store.get_outline(one.slug)
        if outline is not None:
            store.delete_skill(outline.id, expected=one.here, actor=label, note=note)

    def _download(self, one: Difference) -> Package:
        """Return the files of a skill at the location; raise `Refused` if they are not those of its digest and slug."""
        from prowess.skill.archive import read_archive_files
        from prowess.skill.forms.conversion import read_package

        # Compressed data can be a little longer than the files.
        limits = self._context.resources.limits
        limits = replace(limits, archive_bytes=2 * limits.skill_bytes)
        found = self._location.read(package_name(one.there), limits.archive_bytes)
        if found is None:
            raise NotFound(
                f"{self._location.shown} lacks the files of {one.slug!r}.", hint=repair_hint(self._channel.name)
            )
        damaged = Refused(
            f"The files of {one.slug!r} at {self._location.shown} differ from those that were pushed.",
            hint="Nothing was changed here. Either someone changed them, or a transfer is incomplete. "
            f"To repair them: {repair_hint(self._channel.name)}",
        )
        try:
            files = read_archive_files(found.data, package_name(one.there), limits)
        except Invalid:
            raise damaged from None
        top = files[0].path.partition("/")[0]
        files = [File(path=file.path.removeprefix(f"{top}/"), content=file.content, mode=file.mode) for file in files]
        package = Package.of(top, files, limits)
        skill = read_package(package, limits).skill
        if package.digest != one.there or skill is None or skill.slug != one.slug:
            raise damaged
        return package

    def _acceptance(self, change: DeviceChange) -> Acceptance:
        from prowess.policy.acceptance import accept_import

        digest, origin = self._bundle.skills[change.slug].digest, f"{self._location.shown} ({self._bundle.device})"
        return accept_import(self._context.actor, change.slug, digest, self._channel.scope, origin)
