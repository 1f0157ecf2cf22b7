"""Whatever people and the source do, in any order: no edit made here is lost, and a sync does what the model says."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from prowess.open import Prowess
from prowess.policy.actor import Actor
from prowess.settings import read_settings
from prowess.skill.draft import SkillDraft
from prowess.skill.package import Package
from prowess.sources.scripted import ScriptedFetcher, make_fetched

URL = "https://github.com/acme/runbooks.git"
SLUGS = st.sampled_from(["one", "two", "three"])
BODIES = st.sampled_from(["A.", "B.", "C."])


def text(slug: str, body: str) -> str:
    return f"---\nname: {slug}\ndescription: What {slug} is for.\n---\n\n{body}\n"


class SourceMachine(RuleBasedStateMachine):
    """One source and one organization. Contents are the last letter of each skill."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        home = self.folder.name
        environment = {"HOME": home, "PROWESS_HOME": f"{home}/.prowess", "PROWESS_WORKSPACE": home}
        environment |= {"PROWESS_SYSTEM_SKILLS": "off", "PROWESS_BACKGROUND": "off"}
        self.runner = asyncio.Runner()
        self.fetcher = ScriptedFetcher()
        actor = Actor(name="ann", organization="acme")
        self.engine = Prowess.open(settings=read_settings(environment), actor=actor, fetcher=self.fetcher)
        self.source = self.do(self.engine.sources.create("r", "github", {"repo": "acme/runbooks"})).id
        self.upstream: dict[str, str] = {}
        self.here: dict[str, str] = {}
        self.delivered: dict[str, str] = {}
        self.last: tuple[dict[str, str], bool] | None = None
        """What the last sync saw, and if it took everything."""

    def do(self, work: Any) -> Any:
        return self.runner.run(work)

    @rule(slug=SLUGS, body=BODIES)
    def change_upstream(self, slug: str, body: str) -> None:
        self.upstream[slug] = body

    @rule(slug=SLUGS)
    def remove_upstream(self, slug: str) -> None:
        self.upstream.pop(slug, None)

    @rule(slug=SLUGS, body=BODIES)
    def write_here(self, slug: str, body: str) -> None:
        draft = SkillDraft(content=text(slug, body))
        if slug in self.here:
            self.do(self.engine.skills.update_document(slug, draft))
        else:
            self.do(self.engine.skills.create_document(draft))
        self.here[slug] = body

    @rule(slug=SLUGS)
    def delete_here(self, slug: str) -> None:
        if self.here.pop(slug, None) is not None:
            self.do(self.engine.skills.delete(slug))

    @rule(complete=st.booleans())
    def sync(self, complete: bool) -> None:
        packages = {
            f"skills/{slug}": Package.of_texts(slug, {"SKILL.md": text(slug, body)})
            for slug, body in self.upstream.items()
        }
        self.fetcher.answers[URL] = make_fetched(URL, packages, complete=complete)

        result = self.do(self.engine.sources.sync(self.source))

        expected = self.expect_sync(complete)
        assert (result.status, result.unchanged) == expected

    def expect_sync(self, complete: bool) -> tuple[str, bool]:
        """Change the model as a sync does; return its status, and if nothing was compared."""
        if self.last == (self.upstream, True):
            return "ok", True
        conflict = False
        for slug, new in self.upstream.items():
            before, now = self.delivered.get(slug), self.here.get(slug)
            if new == before:
                continue  # nothing new, whatever was done here
            if now == new:
                if before is not None:
                    self.delivered[slug] = new
            elif now == before:
                self.here[slug] = self.delivered[slug] = new
            else:
                conflict = True
        if complete and self.upstream:
            for slug in [slug for slug in self.delivered if slug not in self.upstream]:
                if self.here.get(slug) == self.delivered.pop(slug):
                    del self.here[slug]
                else:
                    conflict = conflict or slug in self.here
        self.last = (dict(self.upstream), not conflict)
        return ("partial" if conflict else "ok"), False

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        found: dict[str, str] = {}
        for card in self.engine.catalog.cards():
            found[card.slug] = self.do(self.engine.skills.get(card.slug)).body.strip()
        assert found == self.here

    def teardown(self) -> None:
        self.do(self.engine.close())
        self.runner.close()
        self.folder.cleanup()


def test_no_edit_is_lost_whatever_people_and_the_source_do() -> None:
    quick = settings(
        max_examples=8, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(SourceMachine, settings=quick)
