"""Two devices of one person, who pushes on one and pulls on the other: nothing is lost, and nobody else takes part."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prowess.errors import Conflict, Invalid, NotFound, Refused, TryLater
from prowess.policy.actor import Actor, agent_of, local_person
from prowess.settings import read_settings
from prowess.skill.draft import SkillDraft
from prowess.skill.package import Package
from prowess.sources.devices.state import DeviceState
from prowess.sources.scripted import ScriptedFetcher, make_fetched
from prowess.sync import Prowess as SyncProwess


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "location"
    made.mkdir()
    return made


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home and a workspace with empty databases: to create them takes longer than everything else here."""
    root = tmp_path_factory.mktemp("template")
    (root / "project").mkdir()
    with SyncProwess.open(settings=read_settings(make_environment(root))) as prowess:
        for scope in ("workspace", "account"):
            content = f"---\nname: seed-{scope}\ndescription: Seed.\n---\nText.\n"
            prowess.skills.create_document(SkillDraft(content=content), scope=scope)
            prowess.skills.delete(f"seed-{scope}")
    return root


def make_environment(root: Path) -> dict[str, str]:
    return {
        "HOME": str(root),
        "PROWESS_HOME": str(root / "home"),
        "PROWESS_WORKSPACE": str(root / "project"),
        "PROWESS_SYSTEM_SKILLS": "off",
        "PROWESS_BACKGROUND": "off",
        "PATH": os.environ["PATH"],
    }


class Device:
    """A device: a home and a workspace of its own, and an engine that stays open."""

    def __init__(self, template: Path, root: Path, environment: dict[str, str]) -> None:
        shutil.copytree(template, root)
        self.home, self.workspace = root / "home", root / "project"
        self.environment = {**make_environment(root), **environment}
        self.fetcher = ScriptedFetcher()
        self._opened: SyncProwess | None = None

    def open(self, actor: Actor | None = None) -> SyncProwess:
        if self._opened is None:
            self._opened = SyncProwess.open(settings=read_settings(self.environment), fetcher=self.fetcher)
        return self._opened.as_actor(actor) if actor else self._opened

    def close(self) -> None:
        if self._opened:
            self._opened.close()
            self._opened = None

    def write(self, slug: str, body: str, scope="workspace") -> str:
        """Create or change a skill; its digest."""
        content = f"---\nname: {slug}\ndescription: What {slug} is for.\n---\n# {slug}\n\n{body}\n"
        skills = self.open().skills
        try:
            return skills.create_document(SkillDraft(content=content), scope=scope).digest
        except Conflict:
            return skills.update_document(f"{scope}:{slug}", SkillDraft(content=content)).digest

    def delete(self, slug: str) -> None:
        self.open().skills.delete(slug)

    def push(self, location: object = "", **options):
        return self.open().devices.push(str(location), **options)

    def pull(self, location: object = "", **options):
        return self.open().devices.pull(str(location), **options)

    def status(self, location: object = ""):
        return self.open().devices.status(str(location))

    def take_key_of(self, other: Device) -> None:
        self.open().devices.set_key(other.open().devices.key())

    def digests(self) -> dict[str, str]:
        return {f"{card.scope}:{card.slug}": card.digest for card in self.open().skills.cards()}

    def trust(self, slug: str) -> str:
        return next(card.trust for card in self.open().skills.cards() if card.slug == slug)

    def history(self, slug: str) -> list[str]:
        return [version.digest for version in self.open().skills.history(slug)]


@pytest.fixture
def devices(request: pytest.FixtureRequest, template: Path, tmp_path: Path) -> Iterator[tuple[Device, Device]]:
    """A laptop and a desktop, which know nothing of each other."""
    in_bucket = "address" in request.fixturenames and request.getfixturevalue("address").startswith("s3:")
    environment = request.getfixturevalue("bucket_environment") if in_bucket else {}
    made = (Device(template, tmp_path / "laptop", environment), Device(template, tmp_path / "desktop", environment))
    yield made
    for device in made:
        device.close()


@pytest.fixture
def paired(devices, folder) -> tuple[Device, Device]:
    laptop, desktop = devices
    laptop.write("release", "One.")
    laptop.push(folder)
    desktop.take_key_of(laptop)
    desktop.pull(folder)
    return laptop, desktop


def changes(result) -> dict[str, tuple[str, str, str]]:
    return {one.slug: (one.change, one.side, one.outcome) for one in result.changes}


@pytest.mark.parametrize(
    "address",
    ["folder", pytest.param("git", marks=pytest.mark.long), pytest.param("bucket", marks=pytest.mark.long)],
    indirect=True,
)
def test_skills_of_the_account_and_the_workspace_arrive_byte_for_byte(devices, address):
    laptop, desktop = devices
    laptop.write("release", "One.")
    laptop.write("review", "Two.", scope="account")
    pushed = laptop.push(address)
    assert changes(pushed) == {"release": ("added", "here", "done"), "review": ("added", "here", "done")}
    assert pushed.new_key
    desktop.take_key_of(laptop)
    assert set(changes(desktop.status(address)).values()) == {("added", "there", "pending")}
    assert set(changes(desktop.pull(address)).values()) == {("added", "there", "done")}
    assert desktop.digests() == laptop.digests()
    assert desktop.trust("release") == "local"
    # Back again, without naming the location.
    desktop.write("release", "One and a half.")
    desktop.delete("review")
    assert changes(desktop.push()) == {"release": ("changed", "here", "done"), "review": ("deleted", "here", "done")}
    assert changes(laptop.pull()) == {"release": ("changed", "there", "done"), "review": ("deleted", "there", "done")}
    assert desktop.digests() == laptop.digests()
    assert (laptop.push().changes, desktop.pull().changes) == ((), ())


@pytest.mark.long
def test_what_a_pull_replaces_and_deletes_stays_an_earlier_version(paired):
    laptop, desktop = paired
    before = desktop.digests()["workspace:release"]
    laptop.write("release", "Two.")
    laptop.push()
    desktop.pull()
    laptop.delete("release")
    laptop.push()
    desktop.pull()
    assert desktop.digests() == {}
    assert before in desktop.history("release")
    desktop.open().skills.rollback("release", 1)
    assert desktop.digests()["workspace:release"] == before


def test_a_change_on_both_sides_is_shown_and_kept_on_both(paired, folder):
    laptop, desktop = paired
    there, here = laptop.write("release", "From the laptop."), desktop.write("release", "From the desktop.")
    laptop.write("other", "New.")
    laptop.push()
    pulled = desktop.pull()
    assert changes(pulled) == {"other": ("added", "there", "done"), "release": ("changed", "both", "conflict")}
    (conflict,) = pulled.with_outcome("conflict")
    assert "-From the desktop." in conflict.diff
    assert "+From the laptop." in conflict.diff
    assert (laptop.digests()["workspace:release"], desktop.digests()["workspace:release"]) == (there, here)
    with pytest.raises(Conflict, match="release"):
        desktop.push()
    (folder / f"packages/{there}.zip").unlink()
    assert changes(desktop.pull()) == {"release": ("changed", "both", "conflict")}


def test_a_conflict_is_resolved_for_either_side(paired):
    laptop, desktop = paired
    theirs, mine = laptop.write("release", "From the laptop."), desktop.write("release", "From the desktop.")
    laptop.push()
    with pytest.raises(Invalid, match="'other'"):
        desktop.pull(mine=["other"])
    with pytest.raises(Invalid, match="cannot be both kept and replaced"):
        desktop.pull(mine=["release"], theirs=["release"])
    assert changes(desktop.pull(mine=["release"])) == {"release": ("changed", "here", "pending")}
    assert desktop.digests()["workspace:release"] == mine
    desktop.push()
    laptop.pull()
    assert laptop.digests()["workspace:release"] == mine
    assert theirs in laptop.history("release")
    laptop.write("release", "Laptop again.")
    desktop.write("release", "Desktop again.")
    laptop.push()
    desktop.pull(theirs=["release"])
    assert desktop.digests() == laptop.digests()


@pytest.mark.long
def test_a_skill_that_one_side_deleted_and_the_other_changed_is_a_conflict(paired):
    laptop, desktop = paired
    laptop.delete("release")
    mine = desktop.write("release", "Still needed.")
    laptop.push()
    assert changes(desktop.pull()) == {"release": ("deleted", "both", "conflict")}
    assert desktop.digests()["workspace:release"] == mine


def test_a_device_without_the_key_neither_pulls_nor_pushes(devices, folder, tmp_path):
    laptop, stranger = devices
    laptop.write("release", "One.")
    laptop.push(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*.json")}
    for attempt in (stranger.pull, stranger.status):
        with pytest.raises(Refused, match="sync key"):
            attempt(folder)
    with pytest.raises(Refused, match="another owner"):
        stranger.push(folder)
    with pytest.raises(NotFound):
        stranger.open().devices.key()
    assert before == {path: path.read_bytes() for path in folder.rglob("*.json")}
    assert stranger.digests() == {}


def test_agents_and_callers_from_elsewhere_do_not_sync(paired, folder):
    laptop, _ = paired
    person = local_person("ann")
    others = [agent_of(person), Actor(name="ann", channel="http"), Actor(name="ann", organization="acme")]
    others.append(Actor(name="ann", permissions=frozenset({"skills.read"})))
    for actor in others:
        devices = laptop.open(actor).devices
        for attempt in (devices.push, devices.pull, devices.status):
            with pytest.raises(Refused):
                attempt(str(folder))
        with pytest.raises(Refused):
            devices.key()


def edited(path: Path, change: Callable[[dict], None]) -> None:
    sealed = json.loads(path.read_bytes())
    change(sealed)
    path.write_text(json.dumps(sealed))


def test_a_bundle_that_somebody_changed_is_refused(paired, folder):
    laptop, desktop = paired
    laptop.write("release", "Two.")
    laptop.push()
    bundle = folder / "bundles/workspace-project.json"
    good = bundle.read_bytes()
    before = desktop.digests()
    spoiled: list[Callable[[dict], None]] = [
        lambda sealed: sealed["bundle"]["skills"].clear(),
        lambda sealed: sealed["bundle"].update(generation=99),
        lambda sealed: sealed.update(checksum="0" * 64),
        lambda sealed: sealed.update(checksum="\ud800"),
        lambda sealed: sealed["bundle"].update(channel="account"),
        lambda sealed: sealed.update(version=2),
        lambda sealed: sealed.update(bundle=[]),
    ]
    for change in spoiled:
        edited(bundle, change)
        with pytest.raises((Refused, Invalid)):
            desktop.pull()
        bundle.write_bytes(good)
    (folder / "bundles/account.json").write_bytes(good)
    with pytest.raises(Refused, match="not for"):
        desktop.pull()
    assert desktop.digests() == before


@pytest.mark.long
def test_a_bundle_that_is_put_back_is_noticed(paired, folder):
    laptop, desktop = paired
    bundle = folder / "bundles/workspace-project.json"
    old = bundle.read_bytes()
    laptop.write("release", "A security fix.")
    laptop.push()
    desktop.pull()
    fixed = desktop.digests()
    bundle.write_bytes(old)
    with pytest.raises(Refused, match="older state"):
        desktop.pull()
    assert desktop.digests() == fixed


def test_files_that_were_exchanged_are_refused_and_the_others_arrive(paired, folder):
    laptop, desktop = paired
    digest = laptop.write("spoiled", "Good.")
    laptop.write("fine", "Good.")
    laptop.push()
    evil = folder / f"packages/{digest}.zip"
    with zipfile.ZipFile(evil, "w") as archive:
        archive.writestr("spoiled/SKILL.md", "---\nname: spoiled\ndescription: Evil.\n---\nEvil.\n")
    pulled = desktop.pull()
    assert changes(pulled)["fine"][2] == "done"
    (failed,) = pulled.with_outcome("failed")
    assert isinstance(failed.error, Refused)
    assert "workspace:spoiled" not in desktop.digests()
    evil.unlink()
    (again,) = desktop.pull().with_outcome("failed")
    assert isinstance(again.error, NotFound)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:50])


def spoil(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"release", b"Release"))


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("packages/*.zip", cut),
        ("packages/*.zip", Path.unlink),
        ("bundles/workspace-project.json", cut),
        ("bundles/workspace-project.json", spoil),
    ],
)
def test_a_damaged_location_is_repaired_as_the_hint_says(paired, folder, file, damage):
    laptop, desktop = paired
    laptop.write("release", "Two.")
    laptop.push()
    for path in folder.glob(file):
        damage(path)
    hint = "Remove bundles/workspace-project.json there, then push from the device that has your skills."
    if file.startswith("packages"):
        (failed,) = desktop.pull().with_outcome("failed")
        assert hint in failed.error.hint
    else:
        with pytest.raises((Refused, Invalid)) as refused:
            desktop.pull()
        assert hint in refused.value.hint
    (folder / "bundles/workspace-project.json").unlink()
    laptop.push()
    desktop.pull()
    assert desktop.digests() == laptop.digests()


def test_a_skill_that_nobody_accepted_arrives_unaccepted(devices, folder):
    laptop, desktop = devices
    laptop.write("mine", "By hand.")
    content = "---\nname: by-agent\ndescription: What an agent wrote.\n---\nText.\n"
    agent = laptop.open(agent_of(local_person("ann")))
    agent.skills.create_document(SkillDraft(content=content), scope="workspace")
    laptop.push(folder)
    desktop.take_key_of(laptop)
    assert {one.slug: one.accepted for one in desktop.pull(folder).changes} == {"by-agent": False, "mine": True}
    assert (desktop.trust("mine"), desktop.trust("by-agent")) == ("local", "found")


@pytest.mark.long
def test_two_workspaces_of_the_same_name_do_not_delete_each_others_skills(paired, folder, tmp_path):
    laptop, _ = paired
    other = laptop.workspace.parent / "elsewhere" / "project"
    other.mkdir(parents=True)
    laptop.close()
    laptop.environment["PROWESS_WORKSPACE"] = str(other)
    with pytest.raises(Conflict):
        laptop.push()
    assert changes(laptop.pull()) == {"release": ("added", "there", "done")}


@pytest.mark.long
def test_a_location_that_lost_its_bundles_deletes_nothing_here(paired, folder):
    laptop, desktop = paired
    before = desktop.digests()
    for path in folder.rglob("*.json"):
        path.unlink()
    with pytest.raises(NotFound, match="Nothing was pushed"):
        desktop.pull()
    assert desktop.digests() == before
    assert changes(desktop.push()) == {"release": ("added", "here", "done")}
    assert laptop.pull().changes == ()


def test_skills_of_a_source_stay_with_their_source(devices, folder):
    laptop, _ = devices
    url = "https://github.com/acme/runbooks.git"
    text = "---\nname: restart\ndescription: Restarts it.\n---\nDo it.\n"
    laptop.fetcher.answers[url] = make_fetched(url, {"restart": Package.of_texts("restart", {"SKILL.md": text})})
    sources = laptop.open().sources
    sources.sync(sources.create("Runbooks", "github", {"repo": "acme/runbooks"}).id)
    laptop.write("mine", "By hand.", scope="account")
    assert set(laptop.digests()) == {"account:restart", "account:mine"}
    assert set(changes(laptop.push(folder))) == {"mine"}


def test_one_sync_runs_at_a_time(paired):
    laptop, _ = paired
    with DeviceState(laptop.home).locked(), pytest.raises(TryLater):
        laptop.pull()


def test_a_pull_is_in_the_audit_log_with_what_it_accepted(paired):
    _, desktop = paired
    rows = [(entry.action, entry.outcome, entry.slug) for entry in desktop.open().audit.rows()]
    assert ("trust", "imported", "release") in rows
    assert ("install", "begun", "") in rows


def test_what_a_pull_deletes_is_in_the_audit_log_and_published(paired):
    laptop, desktop = paired
    laptop.delete("release")
    laptop.push()
    seen = [event.number for event in desktop.open().events.list()]
    desktop.pull()
    assert desktop.open().audit.rows()[-1].detail["deleted"] == ["release"]
    later = [event for event in desktop.open().events.list() if event.number not in seen]
    assert [(event.name, event.data) for event in later] == [
        ("catalog_changed", {"action": "install", "skill": None, "count": 1})
    ]


def test_the_key_is_in_a_file_that_only_the_owner_reads(paired):
    laptop, _ = paired
    assert (laptop.home / "sync.key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(Invalid):
        laptop.open().devices.set_key("short")


STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["write", "write", "delete", "push", "pull", "mine", "theirs"]),
        st.sampled_from("ab"),
    ),
    min_size=4,
    max_size=14,
)


@pytest.mark.long
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_two_devices_do_nothing_is_lost_and_they_agree_in_the_end(steps, template, tmp_path):
    root = Path(tempfile.mkdtemp(dir=tmp_path))
    (root / "location").mkdir()
    pair = [Device(template, root / name, {}) for name in ("laptop", "desktop")]
    written: list[set[tuple[str, str]]] = [set(), set()]
    try:
        pair[0].push(root / "location")
        pair[1].take_key_of(pair[0])
        pair[1].pull(root / "location")
        for number, (which, action, slug) in enumerate(steps):
            device = pair[which]
            if action == "write":
                written[which].add((slug, device.write(slug, f"Text {number}.")))
            elif action == "delete":
                with suppress(NotFound):
                    device.delete(slug)
            elif action == "push":
                with suppress(Conflict):
                    device.push()
            else:
                resolve(device, action if action != "pull" else "")
        # One after the other, until there is nothing left to exchange.
        for device in (pair[0], pair[1], pair[0]):
            resolve(device, "mine")
            device.push()
        pair[1].pull()
        assert pair[0].digests() == pair[1].digests()
        for device, own in zip(pair, written, strict=True):
            assert all(digest in device.history(slug) for slug, digest in own)
    finally:
        for device in pair:
            device.close()


def resolve(device: Device, side: str) -> None:
    """Pull; then resolve all conflicts for one side, or leave them as they are."""
    before = device.digests()
    conflicts = [one.slug for one in device.pull().with_outcome("conflict")]
    after = device.digests()
    assert all(after.get(f"workspace:{slug}") == before.get(f"workspace:{slug}") for slug in conflicts)
    if conflicts and side:
        assert not device.pull(**{side: conflicts}).with_outcome("conflict")
