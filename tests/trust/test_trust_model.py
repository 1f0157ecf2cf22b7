"""Whatever happens in whatever order: no byte that nobody accepted reaches a prompt, a tool description or a process."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from prowess.errors import ApprovalRequired, ProwessError
from prowess.open import Prowess
from prowess.policy.actor import Actor, agent_of
from prowess.settings import read_settings
from prowess.skill.package import Package
from prowess.tools.toolbox import Toolbox

ANN, BOB = Actor(name="ann", user="ann"), Actor(name="bob", user="bob")
PEOPLE = {"ann": ANN, "bob": BOB}
SLUGS = ("deploy", "review")
people, slugs, shops = st.sampled_from(["ann", "bob"]), st.sampled_from(SLUGS), st.sampled_from([0, 1])
places = st.sampled_from([".agents/skills", "vendor/x/.claude/skills", "home"])


def skill_files(slug: str, word: str) -> dict[str, str]:
    """Return a skill of which every text contains the word: the instructions, the description and the code's output."""
    sidecar = "artifacts:\n  - {path: execute.py, kind: function, name: execute}\n"
    text = f"---\nname: {slug}\ndescription: Says {word}.\n---\n\nSay {word}.\n"
    code = f"def execute(args, ctx):\n    return {word!r}\n"
    return {"SKILL.md": text, "agents/prowess.yaml": sidecar, "execute.py": code}


LOOKS = [0]
"""How many times the model was looked at: before the first step of each walk, and after every step."""


class TrustModel(RuleBasedStateMachine):
    """Two workspaces, two people with an agent each, folders, databases and a synced source, and a set of accepted words.

    Every version of a skill has a word of its own. `accepted` says which words each person has accepted, or the whole
    organization by writing them; no other word may be seen where a model or a process could get it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="prowess-trust-"))
        self.home = self.folder / "home"
        self.home.mkdir()
        self.words = (f"word{number}x" for number in itertools.count())
        self.accepted: dict[str, set[str]] = {"ann": set(), "bob": set()}
        self.approved: dict[str, set[str]] = {"ann": set(), "bob": set()}
        self.by_digest: dict[str, str] = {}
        self.engines: list[Prowess] = []
        for number in range(2):
            workspace = self.folder / f"shop{number}"
            workspace.mkdir()
            environment = {
                "HOME": str(self.home),
                "PROWESS_HOME": str(self.home / ".prowess"),
                "PROWESS_WORKSPACE": str(workspace),
                "PROWESS_SYSTEM_SKILLS": "off",
            }
            self.engines.append(Prowess.open(settings=read_settings(environment), actor=ANN))
        self.turns = itertools.cycle(itertools.product(range(2), PEOPLE))

    def wait(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def engine(self, shop: int, person: str, *, agent: bool = False) -> Prowess:
        actor = PEOPLE[person]
        return self.engines[shop].as_actor(agent_of(actor) if agent else actor)

    def root(self, shop: int, place: str) -> Path:
        return self.home / ".agents" / "skills" if place == "home" else self.folder / f"shop{shop}" / place

    def new_package(self, slug: str) -> tuple[Package, str]:
        word = next(self.words)
        package = Package.of_texts(slug, skill_files(slug, word))
        self.by_digest[package.digest] = word
        return package, word

    def accept(self, person: str, digests: Any) -> None:
        self.accepted[person] |= {self.by_digest[digest] for digest in digests}

    # What happens

    @rule(shop=shops, place=places, slug=slugs)
    def files_appear_or_change(self, shop: int, place: str, slug: str) -> None:
        package, _ = self.new_package(slug)
        folder = self.root(shop, place) / slug
        for file in package.files:
            (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
            (folder / file.path).write_bytes(file.content)

    @rule(shop=shops, place=places, slug=slugs)
    def files_go(self, shop: int, place: str, slug: str) -> None:
        shutil.rmtree(self.root(shop, place) / slug, ignore_errors=True)

    @rule(shop=shops, slug=slugs, claim=st.sampled_from(["manual", "github"]))
    def a_row_appears_in_the_account(self, shop: int, slug: str, claim: str) -> None:
        """A source was synced, or a process ended between writing a skill and accepting it."""
        package, word = self.new_package(slug)
        if claim == "github":
            files = {**skill_files(slug, word), "agents/prowess.yaml": "provenance: {source_type: github}\n"}
            package = Package.of_texts(slug, files)
            self.by_digest[package.digest] = word
        store = self.engines[shop]._context.resources.writable("account")
        store.save_all([package], replace=True)

    @rule(shop=shops, person=people, slug=slugs, scope=st.sampled_from(["workspace", "account"]))
    def a_person_imports(self, shop: int, person: str, slug: str, scope: Any) -> None:
        package, word = self.new_package(slug)
        source = self.folder / "source" / slug
        shutil.rmtree(source, ignore_errors=True)
        for file in package.files:
            (source / file.path).parent.mkdir(parents=True, exist_ok=True)
            (source / file.path).write_bytes(file.content)
        results = self.wait(self.engine(shop, person).skills.import_path(source, scope=scope, replace=True))
        if all(result.error is None for result in results):
            for one in self.accepted.values():
                one.add(word)

    @rule(shop=shops, person=people, slug=slugs)
    def an_agent_updates(self, shop: int, person: str, slug: str) -> None:
        agent = self.engine(shop, person, agent=True)
        try:
            skill = self.wait(agent.skills.get(slug))
            self.wait(agent.skills.update(skill.model_copy(update={"version": "9.9.9"})))
        except ProwessError:
            return

    @rule(shop=shops, person=people)
    def a_person_trusts_the_workspace(self, shop: int, person: str) -> None:
        engine = self.engine(shop, person)
        preview = self.wait(engine.trust.preview())
        outcome = self.wait(engine.trust.accept(preview))
        self.accept(person, [skill.digest for skill in preview.skills if skill.slug in outcome.accepted])

    @rule(shop=shops, person=people, slug=slugs)
    def a_person_trusts_what_has_changed_since(self, shop: int, person: str, slug: str) -> None:
        engine = self.engine(shop, person)
        preview = self.wait(engine.trust.preview())
        self.files_appear_or_change(shop, ".agents/skills", slug)
        outcome = self.wait(engine.trust.accept(preview))
        self.accept(person, [skill.digest for skill in preview.skills if skill.slug in outcome.accepted])

    @rule(shop=shops, person=people, slug=slugs)
    def a_person_revokes(self, shop: int, person: str, slug: str) -> None:
        try:
            self.wait(self.engine(shop, person).trust.revoke(slug))
        except ProwessError:
            return
        given = self.wait(self.engine(shop, person).trust.list())
        left = {self.by_digest.get(one.digest, "") for one in given.skills}
        other = "bob" if person == "ann" else "ann"
        rest = self.wait(self.engine(shop, other).trust.list())
        self.accepted[person] &= left
        self.accepted[other] &= {self.by_digest.get(one.digest, "") for one in rest.skills}

    @rule(shop=shops, person=people, agent=st.booleans(), slug=slugs, approve=st.booleans())
    def somebody_enables(self, shop: int, person: str, agent: bool, slug: str, approve: bool) -> None:
        engine, session = self.engine(shop, person, agent=agent), f"{shop}-{person}-{agent}"
        self.wait(engine.sessions.open(session))
        try:
            self.wait(engine.enable(slug, session=session))
        except ApprovalRequired as asked:
            if approve:
                row = self.wait(
                    self.engine(shop, person).approvals.resolve(asked.approval_id, approved=True, proof="test")
                )
                # Approving what a source or an agent brought is an answer to the request; it does not accept the skill.
                if row.detail["trust"] in ("found", "local"):
                    self.accept(person, [row.digest])
                else:
                    self.approved[person].add(self.by_digest[row.digest])
        except ProwessError:
            return

    @rule(shop=shops, slug=slugs, number=st.integers(1, 3))
    def a_person_restores(self, shop: int, slug: str, number: int) -> None:
        try:
            skill = self.wait(self.engine(shop, "ann").skills.rollback(slug, number))
        except ProwessError:
            return
        if skill.digest in self.by_digest:
            for one in self.accepted.values():
                one.add(self.by_digest[skill.digest])

    # What must hold

    @invariant()
    def nothing_unaccepted_is_seen(self) -> None:
        """Look as one of the people in one of the workspaces, in turn: looking as all of them takes four times as long."""
        LOOKS[0] += 1
        self.look([next(self.turns)])

    def look(self, whose: list[tuple[int, str]]) -> None:
        for shop, person in whose:
            engine, agent = self.engine(shop, person), self.engine(shop, person, agent=True)
            box = Toolbox(self.engines[shop], actor=agent_of(PEOPLE[person]), conversation=f"{shop}-{person}-True")
            seen = [
                [tool.description for tool in self.wait(box.offered())],
                self.wait(box.call("list_skills", {})).data,
                self.wait(agent.index()).text,
                self.wait(engine.index()).text,
                [self.wait(agent.load(slug)) for slug in SLUGS],
                [self.wait(engine.load(slug)) for slug in SLUGS],
            ]
            for kind in ("True", "False"):
                try:
                    seen.append(self.wait(engine.prompt(f"{shop}-{person}-{kind}")))
                    seen.append(self.wait(agent.prompt(f"{shop}-{person}-{kind}")))
                except ProwessError:
                    continue
            for slug in SLUGS:
                seen.append(self.ran(engine, slug))
                seen.append(self.ran(agent, slug))
            text = json.dumps(seen)
            leaked = {word for word in self.by_digest.values() if word in text}
            leaked -= self.accepted[person] | self.approved[person]
            assert leaked == set(), (shop, person, leaked)

    def ran(self, engine: Prowess, slug: str) -> str:
        """Return the code that would run, if the gate lets it: a dry run passes the gate for loading, a real one for running."""
        from prowess.run.request import RunRequest

        try:
            run = engine.runs._resolve(RunRequest(slug=slug))
        except ProwessError:
            return ""
        return " ".join(artifact.content for artifact in run.skill.artifacts)

    def teardown(self) -> None:
        self.look(list(itertools.product(range(2), PEOPLE)))
        for engine in self.engines:
            self.wait(engine.close())
        self.loop.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def test_a_short_walk_through_the_state_of_trust_leaks_nothing() -> None:
    quick = settings(max_examples=3, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(TrustModel, settings=quick)


# Before a release: PROWESS_TRUST_STEPS=10000.
STEPS = int(os.environ.get("PROWESS_TRUST_STEPS", "2000"))


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))  # in parts, which run side by side
def test_thousands_of_steps_through_the_state_of_trust_leak_nothing(part: int) -> None:
    walks = 10
    full = settings(max_examples=walks, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
    # Hypothesis ends some walks early, so their number says little about the number of steps.
    steps, rounds = 0, 0
    while steps < STEPS / 4:
        before, rounds = LOOKS[0], rounds + 1
        run_state_machine_as_test(TrustModel, settings=full)
        steps += LOOKS[0] - before - walks  # each walk is looked at once before its first step
        assert rounds < 20 + STEPS / 1_000


def race(place: Any, turns: int) -> None:
    """Approve and change a skill at the same moment, each turn: what is used afterwards was accepted, or is asked about."""
    place.environment["PROWESS_TRUSTED_FOLDERS"] = ""
    loop = asyncio.new_event_loop()

    def wait(work: Any) -> Any:
        return loop.run_until_complete(work)

    engine = place.open(Actor(name="ann"))
    session = wait(engine.sessions.create())
    for turn in range(turns):
        place.skill("deploy", f"Version {turn} shown.")
        try:
            wait(engine.enable("deploy", session=session))
        except ApprovalRequired as asked:
            approval = asked.approval_id
        else:
            raise AssertionError("A skill that nobody accepted was enabled.")
        start = threading.Barrier(2)

        def change(turn: int = turn, start: threading.Barrier = start) -> None:
            start.wait()
            place.skill("deploy", f"Version {turn} changed.")

        thread = threading.Thread(target=change)
        thread.start()
        start.wait()
        wait(engine.approvals.resolve(approval, approved=True))
        body = wait(engine.load("deploy"))["body"] or ""
        thread.join()
        assert "changed" not in body
        assert "changed" not in wait(engine.prompt(session))
        after = wait(engine.load("deploy"))
        assert (after["body"], bool(after.get("approval_id"))) == (None, True)
        for open_request in wait(engine.approvals.list()):  # no more than 100 may wait
            wait(engine.approvals.resolve(open_request.id, approved=False))
    wait(engine.close())
    loop.close()


def test_approving_and_changing_at_once_never_lets_in_what_was_not_shown(place: Any) -> None:
    race(place, 20)


@pytest.mark.long
def test_approving_and_changing_at_once_hundreds_of_times(place: Any) -> None:
    race(place, 300)
