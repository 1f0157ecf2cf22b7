"""A skill is drafted, checked, refined and saved once a person approves exactly these files."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from pathlib import Path

import pytest

from prowess.authoring.compose import checks
from prowess.authoring.compose.checks import COMPOSE_CODES, StandIn
from prowess.authoring.compose.draft import TEMPLATES
from prowess.errors import Conflict, DuplicateSkill, Invalid, NoModel, NotFound, OutputInvalid, Refused
from prowess.handlers.host_functions import HOST_FUNCTION_NAMES, HostFunctions
from prowess.llm.scripted import Answer, ScriptedModel
from prowess.policy.actor import agent_of, local_person

from .drafts import TIMELINE, WITH_MODULE, changed

pytestmark = pytest.mark.anyio
ASK = "check timeline consistency"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Stop code that loops early."""
    monkeypatch.setattr(checks, "DRY_RUN_LIMITS", replace(checks.DRY_RUN_LIMITS, fuel=1_000_000_000))


async def test_a_draft_has_everything_that_was_found_about_it(each_place):
    async with each_place.open() as prowess:
        made = await prowess.compose.start(ASK, model=ScriptedModel([TIMELINE]))
        assert made.state == "open"
        assert made.round is not None
        assert made.round.checks.ok
        assert made.round.checks.problems == ()
        assert made.round.checks.triggers == {
            "precision": 1.0,
            "recall": 1.0,
            "queries": 6,
            "missed": [],
            "false_triggers": [],
            "collides_with": "",
        }
        package = await prowess.compose.files(made.id)
        assert [file.path for file in package.files] == [
            *("SKILL.md", "agents/prowess.yaml", "evals/evals.json", "evals/triggers.json", "prompts/prompt.j2")
        ]
        assert package.digest == made.round.digest


async def test_a_draft_is_in_no_catalog_before_it_is_approved(place):
    async with place.open() as prowess:
        made = await prowess.compose.start(ASK, model=ScriptedModel([TIMELINE]))
        assert await prowess.skills.cards() == []
        assert await prowess.match("check the timeline of my novel") == []
        with pytest.raises(NotFound):
            await prowess.run("timeline-check", {"story": "x"})
        saved = await prowess.compose.approve(made.id, digest=made.round.digest)
        assert saved.digest == made.round.digest
        [card] = await prowess.skills.cards()
        assert (card.slug, card.scope, card.trust) == ("timeline-check", "workspace", "local")
        assert [one.slug for one in await prowess.match("check the timeline of my novel")] == ["timeline-check"]
        result = await prowess.run("timeline-check", {"story": "x"}, model=ScriptedModel(["None."]))
        assert result.output.text == "None."


async def test_a_module_is_a_template_and_a_signature_with_the_prompt_as_fallback(place):
    async with place.open() as prowess:
        model = ScriptedModel([TIMELINE, WITH_MODULE])
        made = await prowess.compose.start(ASK, model=model)
        made = await prowess.compose.refine(made.id, "add a dspy_module for optimized execution", model=model)
        saved = await prowess.compose.approve(made.id)
        module = saved.artifact("module")
        assert module.fallback == "prompt"
        assert json.loads(module.content)["template_id"] == "chain_of_thought"
        signature = json.loads(module.content)["signature"]
        assert [one["name"] for one in signature["inputs"]] == ["story"]
        assert "{{" not in signature["instructions"]
        assert not [entry.path for entry in saved.manifest if entry.path.endswith(".py")]


async def test_every_round_is_kept_and_can_be_gone_back_to(place):
    async with place.open() as prowess:
        model = ScriptedModel([TIMELINE, WITH_MODULE, changed(title="Third")])
        made = await prowess.compose.start(ASK, model=model)
        await prowess.compose.refine(made.id, "add a dspy_module", model=model)
        assert "dspy/module.json" in await prowess.compose.diff(made.id)
        back = await prowess.compose.back(made.id, 1)
        assert back.number == 1
        third = await prowess.compose.refine(made.id, "call it Third", model=model)
        assert (third.round.number, third.round.previous) == (3, 1)
        assert [one.number for one in await prowess.compose.rounds(made.id)] == [1, 2, 3]
        await prowess.compose.back(made.id, 2)
        assert "dspy_module" in (await prowess.compose.approve(made.id)).kinds
    with pytest.raises(NotFound, match="no round 9"):
        async with place.open() as prowess:
            await prowess.compose.show(made.id, round=9)


async def test_the_model_is_told_the_last_draft_and_its_errors_as_data(place):
    async with place.open() as prowess:
        bad = changed(prompt_template="{% for x in story %}never closed")
        model = ScriptedModel([bad, bad, TIMELINE])
        made = await prowess.compose.start(ASK, model=model)
        assert [one.code for one in made.round.checks.errors] == ["template-syntax"]
        assert "not valid on line" in model.requests[1].messages[-1].text
        with pytest.raises(Invalid, match="cannot be saved"):
            await prowess.compose.approve(made.id)
        assert await prowess.skills.cards() == []
        made = await prowess.compose.refine(made.id, "fix the template", model=model)
        sent = json.loads(model.requests[2].messages[1].text)
        assert (sent["request"], sent["feedback"]) == (ASK, "fix the template")
        assert sent["data"]["last_draft"]["prompt_template"] == bad["prompt_template"]
        assert len(sent["data"]["problems_of_last_draft"]) == 1
        assert made.round.checks.ok


async def test_an_invalid_answer_is_corrected_once(place):
    async with place.open() as prowess:
        model = ScriptedModel([changed(slug="Not A Slug"), Answer(when="/slug", reply=TIMELINE)])
        assert (await prowess.compose.start(ASK, model=model)).round.checks.ok


async def test_a_model_that_answers_twice_outside_the_schema_leaves_a_composition_without_a_draft(place):
    async with place.open() as prowess:
        with pytest.raises(OutputInvalid, match="not write a usable draft in 2 attempts") as failed:
            await prowess.compose.start(ASK, model=ScriptedModel(["I cannot.", {"slug": "x"}]))
        [left] = await prowess.compose.list()
        assert f"prowess compose refine {left.id[:8]}" in failed.value.hint
        assert (left.number, left.state) == (0, "open")
        with pytest.raises(Conflict, match="no draft yet"):
            await prowess.compose.approve(left.id)
    # A new process goes on where the last one was.
    async with place.open() as prowess:
        assert (await prowess.compose.refine(left.id, model=ScriptedModel([TIMELINE]))).number == 1


async def test_without_a_model_nothing_is_stored(place):
    async with place.open() as prowess:
        with pytest.raises(NoModel):
            await prowess.compose.start(ASK)
        assert await prowess.compose.list() == []


CODE = """from prowess import get_pages_by_type, llm_query, submit
found = [llm_query(f"Check {page['slug']}: {story}") for page in get_pages_by_type("event")]
submit({"found": found})
"""
BROKEN = {
    "fails": "raise ValueError('no')",
    "loops": "while True:\n    pass",
    "unknown input": "from prowess import submit\nsubmit({{ chapter }})",
    "wrong arguments": "from prowess import get_page\nget_page(5)",
    "files": "open('/etc/passwd').read()",
}


async def test_code_is_tried_in_the_sandbox_against_a_stand_in(sandboxed):
    async with sandboxed.open() as prowess:
        # The script has one step: no model is asked for what the code asks.
        made = await prowess.compose.start(ASK, model=ScriptedModel([changed(code_template=CODE)]))
        assert made.round.checks.dry_run == {
            "ok": True,
            "calls": ["get_pages_by_type", "llm_query"],
            "output": "{'found': ['An example answer.']}",
        }


async def test_code_that_does_not_run_cannot_be_saved(sandboxed):
    async with sandboxed.open() as prowess:
        for what, code in BROKEN.items():
            bad = changed(code_template=code)
            made = await prowess.compose.start(ASK, model=ScriptedModel([bad, bad]))
            assert made.round.checks.errors, what
            with pytest.raises(Invalid):
                await prowess.compose.approve(made.id)
        assert await prowess.skills.cards() == []


@pytest.mark.parametrize("name", HOST_FUNCTION_NAMES)
def test_the_stand_in_takes_the_arguments_of_the_real_function(name):
    assert inspect.signature(getattr(StandIn, name)) == inspect.signature(getattr(HostFunctions, name))


def test_every_template_is_one_that_the_sidecar_ships_and_every_code_is_documented():
    root = Path(__file__).resolve().parents[3]
    shipped = (root / "src/prowess_dspy/templates.py").read_text()
    assert all(f'"{name}": Template(' in shipped for name in TEMPLATES)
    page = (root / "docs/composing.md").read_text()
    assert all(f"| `{code}` | {meaning} |" in page for code, meaning in COMPOSE_CODES.items())


async def test_a_skill_that_another_one_answers_for_is_a_collision(place):
    async with place.open() as prowess:
        first = await prowess.compose.start(ASK, model=ScriptedModel([TIMELINE]))
        await prowess.compose.approve(first.id)
        weak = changed(
            slug="story-dates", title="Dates", description="Something about dates.", trigger_phrases=["dates please"]
        )
        made = await prowess.compose.start("dates", model=ScriptedModel([weak, weak]))
        assert [one.code for one in made.round.checks.errors] == ["triggers-collide"]
        assert made.round.checks.triggers["collides_with"] == "timeline-check"
        with pytest.raises(Invalid, match="timeline-check"):
            await prowess.compose.approve(made.id)
        saved = await prowess.compose.approve(made.id, allow_collision=True)
        assert saved.slug == "story-dates"


async def test_a_slug_that_is_taken_is_an_error_of_the_draft(place):
    place.skill("timeline-check")
    async with place.open() as prowess:
        made = await prowess.compose.start(ASK, model=ScriptedModel([TIMELINE, TIMELINE]))
        assert "slug-taken" in [one.code for one in made.round.checks.errors]


async def test_a_slug_that_is_taken_meanwhile_is_refused_at_the_end(place):
    async with place.open() as prowess:
        made = await prowess.compose.start(ASK, model=ScriptedModel([TIMELINE]))
        other = await prowess.compose.start(ASK, model=ScriptedModel([changed(title="Another")]))
        await prowess.compose.approve(other.id)
        with pytest.raises(DuplicateSkill):
            await prowess.compose.approve(made.id)


async def test_an_existing_skill_is_changed_only_where_the_draft_differs(place):
    async with place.open() as prowess:
        made = await prowess.compose.start(ASK, model=ScriptedModel([TIMELINE]))
        before = await prowess.compose.approve(made.id)
        model = ScriptedModel([{**WITH_MODULE, "slug": "another-name"}])
        change = await prowess.compose.start("add a dspy_module", skill="timeline-check", model=model)
        sent = json.loads(model.requests[0].messages[1].text)
        assert sent["data"]["last_draft"]["slug"] == "timeline-check"
        assert sent["data"]["similar_skills"] == []
        after = await prowess.compose.approve(change.id)
        assert (after.slug, after.scope) == (before.slug, before.scope)
        paths = {entry.path: entry.sha256 for entry in before.manifest}
        changes = {entry.path for entry in after.manifest if paths.get(entry.path) != entry.sha256}
        assert changes == {"agents/prowess.yaml", "dspy/module.json"}
        assert [one.number for one in await prowess.skills.history("timeline-check")] == [1, 2]


async def test_a_skill_that_changed_meanwhile_is_not_overwritten(place):
    async with place.open() as prowess:
        made = await prowess.compose.start(ASK, model=ScriptedModel([TIMELINE]))
        kept = await prowess.compose.approve(made.id)
        model = ScriptedModel([WITH_MODULE])
        change = await prowess.compose.start("add a dspy_module", skill="timeline-check", model=model)
        await prowess.skills.update(kept.model_copy(update={"title": "Mine"}))
        with pytest.raises(Conflict, match="changed"):
            await prowess.compose.approve(change.id)
        with pytest.raises(Conflict, match="changed since this composition started"):
            await prowess.compose.refine(change.id, "shorter", model=ScriptedModel([]))
        assert (await prowess.skills.get("timeline-check")).title == "Mine"


async def test_two_refinements_at_once_give_one_round_and_a_conflict(place):
    async with place.open() as prowess:
        made = await prowess.compose.start(ASK, model=ScriptedModel([TIMELINE]))

        class Slow(ScriptedModel):
            async def complete(self, request):
                await prowess.compose.refine(made.id, "first", model=ScriptedModel([WITH_MODULE]))
                return await super().complete(request)

        with pytest.raises(Conflict, match="someone else"):
            await prowess.compose.refine(made.id, "second", model=Slow([TIMELINE]))
        assert [one.feedback for one in await prowess.compose.rounds(made.id)] == ["", "first"]


async def test_what_was_approved_must_be_what_is_saved(place):
    async with place.open() as prowess:
        model = ScriptedModel([TIMELINE, WITH_MODULE])
        seen = await prowess.compose.start(ASK, model=model)
        await prowess.compose.refine(seen.id, "add a dspy_module", model=model)
        with pytest.raises(Conflict, match="different files"):
            await prowess.compose.approve(seen.id, digest=seen.round.digest)
        assert await prowess.skills.cards() == []


async def test_a_process_that_died_after_saving_finds_what_it_saved(place, monkeypatch):
    async with place.open() as prowess:
        made = await prowess.compose.start(ASK, model=ScriptedModel([TIMELINE]))
        from prowess.authoring.compose.records import CompositionRecords

        def die(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(CompositionRecords, "change", die)
            with pytest.raises(KeyboardInterrupt):
                await prowess.compose.approve(made.id)
    async with place.open() as prowess:
        saved = await prowess.compose.approve(made.id)
        assert saved.digest == made.round.digest
        assert len(await prowess.skills.history("timeline-check")) == 1
        with pytest.raises(Conflict, match="is saved as workspace:timeline-check"):
            await prowess.compose.approve(made.id)


async def test_a_discarded_composition_is_over(place):
    async with place.open() as prowess:
        made = await prowess.compose.start(ASK, model=ScriptedModel([TIMELINE]))
        assert (await prowess.compose.discard(made.id)).state == "discarded"
        with pytest.raises(Conflict, match="is discarded"):
            await prowess.compose.approve(made.id)
        assert (await prowess.compose.show(made.id)).round is not None


async def test_an_agent_can_neither_approve_nor_see_the_files(place):
    async with place.open() as prowess:
        made = await prowess.compose.start(ASK, model=ScriptedModel([TIMELINE]))
        agent = prowess.as_actor(agent_of(local_person("ann")))
        for call in (agent.compose.approve, agent.compose.files, agent.compose.diff):
            with pytest.raises(Refused, match="Only a person"):
                await call(made.id)
        # Nor does it know the compositions of others.
        with pytest.raises(NotFound):
            await agent.compose.show(made.id)


async def test_only_accepted_neighbours_are_told_to_a_model(place, monkeypatch):
    place.skill("timeline-notes", fields="tags: [x]\n")
    place.environment["PROWESS_TRUSTED_FOLDERS"] = ""
    async with place.open() as prowess:
        model = ScriptedModel([TIMELINE, TIMELINE])
        await prowess.compose.start("timeline notes", model=model)
        assert json.loads(model.requests[0].messages[1].text)["data"]["similar_skills"] == []
        preview = await prowess.trust.preview("timeline-notes")
        await prowess.trust.accept(preview)
        await prowess.compose.start("timeline notes", model=model)
        [told] = json.loads(model.requests[1].messages[1].text)["data"]["similar_skills"]
        assert told["slug"] == "timeline-notes"


async def test_secrets_neither_reach_the_model_nor_the_database(place):
    secret = "sk-ant-api03-" + "a1B2" * 20
    async with place.open() as prowess:
        model = ScriptedModel([changed(note=f"Uses {secret}.")])
        made = await prowess.compose.start(f"{ASK} with the key {secret}", model=model)
        assert secret not in model.requests[0].messages[1].text
        assert secret not in json.dumps((await prowess.compose.show(made.id)).as_json())
        assert all(secret.encode() not in file.content for file in (await prowess.compose.files(made.id)).files)


async def test_every_change_is_an_event_without_any_text(place):
    async with place.open() as prowess:
        made = await prowess.compose.start(ASK, model=ScriptedModel([TIMELINE]))
        await prowess.compose.approve(made.id)
        told = [event.data for event in await prowess.events.list() if event.name == "composition_changed"]
        assert told == [
            {"composition_id": made.id, "state": "open", "round": 1, "skill": "", "ok": True, "errors": 0},
            {
                "composition_id": made.id,
                "state": "saved",
                "round": 1,
                "skill": "workspace:timeline-check",
                "ok": True,
                "errors": 0,
            },
        ]
