"""Sync between a person's devices: push the skills of the account and the workspace to a location, and pull them elsewhere."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator
from dataclasses import replace

from prowess.catalog.store import Store
from prowess.engine.context import Context
from prowess.engine.device_bundle import BundleReader, Channel, DeviceChange, DeviceSync, describe
from prowess.errors import Conflict, Invalid, NotFound, Refused
from prowess.skill.model import Scope
from prowess.sources.devices.bundle import (
    MAX_BUNDLE_BYTES,
    Bundle,
    BundledSkill,
    Difference,
    bundle_name,
    package_name,
    read_bundle,
    workspace_channel,
    write_bundle,
)
from prowess.sources.devices.location import Location, open_location
from prowess.sources.devices.state import DeviceState, LastSync
from prowess.threads import offload_to_completion


class Devices:
    """The sync between the devices of one person. Only a person can push and pull, on the machine itself, never an agent."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._state = DeviceState(context.resources.home)

    async def status(self, location: str = "", *, name: str = "") -> DeviceSync:
        """Return the changes that a push and a pull would make. Changes nothing."""
        return await offload_to_completion(self._status, location, name)

    async def push(self, location: str = "", *, name: str = "") -> DeviceSync:
        """Store the skills of this device at a location, by default that of the last sync.

        `name` is that of the workspace at the location, by default the name of its folder. The first push creates the owner's
        key. Raise `Conflict` if the location has changes that are not here yet, and `Refused` if it belongs to someone else.
        """
        return await offload_to_completion(self._push, location, name)

    async def pull(
        self, location: str = "", *, name: str = "", theirs: Collection[str] = (), mine: Collection[str] = ()
    ) -> DeviceSync:
        """Apply the changes at a location. A skill that changed on both sides stays as it is and is a `conflict`.

        `theirs` and `mine` resolve conflicts by slug: the files from there replace those here, which stay a version; or those
        here stay, and the next push replaces those there. Skills that the person had accepted on the other device are accepted
        here too, except for what depends on this machine: sending data out, and hiding other skills.
        """
        return await offload_to_completion(self._pull, location, name, frozenset(theirs), frozenset(mine))

    async def key(self) -> str:
        """Return the owner's key, for another device; raise `NotFound` if there is none yet."""
        self._require_owner()
        key = self._state.key()
        if not key:
            raise NotFound("This device has no sync key yet.", hint="Run `prowess sync push LOCATION` to create one.")
        return key

    async def set_key(self, key: str) -> None:
        """Use the key of the owner's other devices."""
        self._require_owner()
        self._state.set_key(key.strip())

    def _require_owner(self) -> None:
        actor = self._context.actor
        if not actor.is_person or actor.is_remote or actor.organization:
            raise Refused(
                "Only the owner of this installation can sync it with other devices.",
                hint="Run `prowess sync` yourself, on the machine that has the skills.",
            )
        actor.require("skills.write")

    def _open(self, address: str) -> Location:
        self._require_owner()
        chosen = address or self._state.location
        if not chosen:
            raise Invalid(
                "There is no sync location yet.",
                hint="Name a folder, a git address or a bucket: `prowess sync push LOCATION`.",
            )
        return open_location(chosen, self._context.resources.fetch_context())

    def _status(self, address: str, name: str) -> DeviceSync:
        location = self._open(address)
        channels = self._channels(location, name, self._require_key())
        return _report(location, channels, [describe(channel, one) for channel, one in _each(channels)])

    def _push(self, address: str, name: str) -> DeviceSync:
        location = self._open(address)
        with self._state.locked():
            key, new_key = self._state.key(), False
            if not key:
                key, new_key = secrets.token_urlsafe(32), True
            channels = self._channels(location, name, key)
            missing = [one.slug for _, one in _each(channels) if one.side != "here"]
            if missing:
                raise Conflict(
                    f"{location.shown} has changes that are not here yet: {', '.join(missing[:10])}"
                    f"{' …' if len(missing) > 10 else ''}.",
                    hint="Run `prowess sync pull`, then push again.",
                )
            if new_key:
                self._state.set_key(key)
            accepted = self._accepted(channels)
            changes = [describe(channel, one, "done") for channel, one in _each(channels)]
            for channel in channels:
                if channel.differences or channel.bundle is None:
                    self._push_channel(location, channel, key, accepted)
                generation = channel.bundle.generation if channel.bundle else 0
                self._remember(location, channel, channel.here, generation)
        return replace(_report(location, channels, changes), new_key=new_key)

    def _push_channel(
        self, location: Location, channel: Channel, key: str, accepted: Collection[tuple[str, str]]
    ) -> None:
        from prowess.skill.archive import write_archive
        from prowess.storage.clock import now

        stored = set(channel.bundle.digests.values()) if channel.bundle else set[str]()
        for slug, digest in channel.here.items():
            if digest not in stored:
                package = channel.store.get_package_by_name(slug)
                if package is None or package.digest != digest:
                    raise Conflict(f"The skill {slug!r} changed during the push.", hint="Push again.")
                location.add(package_name(digest), write_archive(package, "zip"))
        generation = max(channel.last.generation, channel.bundle.generation if channel.bundle else 0) + 1
        skills = {
            slug: BundledSkill(digest=digest, accepted=(slug, digest) in accepted)
            for slug, digest in channel.here.items()
        }
        bundle = Bundle(
            channel=channel.name, generation=generation, skills=skills, device=self._state.device, pushed_at=now()
        )
        # Last, and only if no other device was faster: until then, the archives are files that nobody asks for.
        location.replace(bundle_name(channel.name), write_bundle(bundle, key), channel.tag)
        channel.bundle = bundle

    def _pull(self, address: str, name: str, theirs: frozenset[str], mine: frozenset[str]) -> DeviceSync:
        location = self._open(address)
        with self._state.locked():
            channels = self._channels(location, name, self._require_key())
            if not any(channel.bundle for channel in channels):
                raise NotFound(
                    f"Nothing was pushed to {location.shown} yet.", hint="Push from your other device first."
                )
            conflicts = {one.slug for _, one in _each(channels) if one.side == "both"}
            if unknown := sorted((theirs | mine) - conflicts):
                raise Invalid(
                    f"{unknown[0]!r} is not in conflict.", hint="Run `prowess sync status` to see the conflicts."
                )
            if both := sorted(theirs & mine):
                raise Invalid(
                    f"{both[0]!r} cannot be both kept and replaced.", hint="Pass --theirs or --mine, not both."
                )
            changes: list[DeviceChange] = []
            for channel in channels:
                if channel.bundle is not None:
                    changes += self._pull_channel(location, channel, channel.bundle, theirs, mine)
        return _report(location, channels, changes)

    def _pull_channel(
        self, location: Location, channel: Channel, bundle: Bundle, theirs: frozenset[str], mine: frozenset[str]
    ) -> list[DeviceChange]:
        # The other channel may have a skill of the same name that changed here only.
        taken = theirs & {difference.slug for difference in channel.differences if difference.side == "both"}
        selected = [
            difference for difference in channel.differences if difference.side == "there" or difference.slug in taken
        ]
        reader = BundleReader(self._context, location, channel, bundle)
        results = reader.apply(selected) if selected else {}
        changes: list[DeviceChange] = []
        after = bundle.digests
        for difference in channel.differences:
            if difference in selected:
                changes.append(results[difference.slug])
            elif difference.side == "both" and difference.slug in mine:
                # From now on it counts as changed here only.
                changes.append(replace(describe(channel, difference), side="here", outcome="pending"))
            elif difference.side == "both":
                changes.append(replace(describe(channel, difference), diff=reader.diff(difference)))
            else:
                changes.append(describe(channel, difference))
            if changes[-1].outcome in ("conflict", "failed"):
                # Not synced: next time, the same change is found again.
                after = {slug: digest for slug, digest in after.items() if slug != difference.slug}
                after |= {difference.slug: difference.before} if difference.before else {}
        self._remember(location, channel, after, bundle.generation)
        return changes

    def _require_key(self) -> str:
        key = self._state.key()
        if not key:
            raise Refused(
                "This device does not have your sync key.",
                hint="Run `prowess sync key` on the device that pushed, and `prowess sync key --set` here.",
            )
        return key

    def _channels(self, location: Location, name: str, key: str) -> list[Channel]:
        resources = self._context.resources
        channels = [self._channel(location, "account", "account", "", key)]
        try:
            resources.writable("workspace")
        except Invalid:  # a server keeps all skills in the account's database
            return channels
        channel = workspace_channel(name or resources.workspace.name or "workspace")
        return [*channels, self._channel(location, channel, "workspace", str(resources.workspace), key)]

    def _channel(self, location: Location, name: str, scope: Scope, place: str, key: str) -> Channel:
        store = self._context.resources.writable(scope)
        found = location.read(bundle_name(name), MAX_BUNDLE_BYTES)
        bundle = read_bundle(found.data, name, key) if found else None
        last = self._state.last(location.shown, place, name)
        if bundle and bundle.generation < last.generation:
            raise Refused(
                f"{location.shown} has an older state than at your last sync.",
                hint="Someone has restored an old bundle. From a device that is up to date, push to another location.",
            )
        return Channel(
            name=name,
            scope=scope,
            place=place,
            store=store,
            here=_own_skills(store),
            last=last,
            bundle=bundle,
            tag=found.tag if found else "",
        )

    def _remember(self, location: Location, channel: Channel, digests: dict[str, str], generation: int) -> None:
        last = LastSync(generation=generation, digests=digests)
        self._state.remember(location.shown, channel.place, channel.name, last)

    def _accepted(self, channels: list[Channel]) -> set[tuple[str, str]]:
        """Return the skills, with their digests, that a person has accepted on this device."""
        from prowess.policy.acceptance import read_records

        resources = self._context.resources
        if not resources.has_records():
            return set()
        slugs = [slug for channel in channels for slug in channel.here]
        with resources.records().read() as connection:
            known = read_records(connection, self._context.actor.owner, slugs, resources.trusted_folders)
        by_rule = {
            (slug, digest)
            for channel in channels
            for slug, digest in channel.here.items()
            if known.has_rule(channel.store.folder)
        }
        return {*known.accepted, *by_rule}


def _own_skills(store: Store) -> dict[str, str]:
    """Return the digests of the skills that a person keeps here. Those from a source come to other devices from there, too."""
    digests: dict[str, str] = {}
    for card in store.list_skills():
        # Skills from a source have the source `community`. So have some that a person imported; only the outline shows which.
        outline = store.get_outline(card.slug) if card.source == "community" else None
        if outline is None or outline.provenance.source_type == "manual":
            digests[card.slug] = card.digest
    return digests


def _each(channels: list[Channel]) -> Iterator[tuple[Channel, Difference]]:
    return ((channel, difference) for channel in channels for difference in channel.differences)


def _report(location: Location, channels: list[Channel], changes: list[DeviceChange]) -> DeviceSync:
    newest = max(
        (channel.bundle for channel in channels if channel.bundle), key=lambda bundle: bundle.pushed_at, default=None
    )
    same = sum(
        1
        for channel in channels
        for slug, digest in channel.here.items()
        if channel.bundle and channel.bundle.digests.get(slug) == digest
    )
    unknown = next((one.name for one in channels if one.scope == "workspace" and one.bundle is None), "")
    return DeviceSync(
        location=location.shown,
        changes=tuple(changes),
        skills=same,
        unknown_workspace=unknown.removeprefix("workspace-"),
        device=newest.device if newest else "",
        pushed_at=newest.pushed_at if newest else "",
    )
