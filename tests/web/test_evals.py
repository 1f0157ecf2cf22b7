"""Evaluations, optimizations and drafts: figures that can be read, and decisions that a person makes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import expect

from prowess.authoring.evals.plan import EvalPlan
from prowess.authoring.optimize.proposal import OptimizationRequest
from prowess.llm.scripted import Answer, ScriptedModel

from .site import ROOT, Site, View

COLORS = [
    {"id": "ruby", "prompt": "Color of a ruby?", "expected": "red"},
    {"id": "sky", "name": "The <i>sky</i>", "prompt": "Color of the sky?", "expected": "blue"},
]
LABELS = ("billing", "shipping", "account")
TICKETS = [(f"Question {number} about {LABELS[number % 3]}.", LABELS[number % 3]) for number in range(80)]
BETTER = "Answer with one word, billing, shipping or account: {{ message }}"


@pytest.fixture
def lab(place: Any, serve: Callable[..., Site]) -> Site:
    """A server whose model knows colors, with a skill that has cases about them."""
    script = place.workspace / "model.json"
    script.write_text(json.dumps(["Red.", "<b>green</b>"]))
    place.skill("colors", files={"evals/cases.json": json.dumps({"cases": COLORS})})
    place.skill("plain")
    return serve(replace(place, environment={**place.environment, "PROWESS_MODEL": f"scripted:{script}"}))


@pytest.mark.long
def test_a_run_shows_each_case_with_and_without_the_skill_and_what_changed_since(
    lab: Site, look: Callable[..., View]
) -> None:
    for answers in (["no", "no", "no", "blue"], ["no", "red", "blue", "<b>green</b>"]):
        plan = EvalPlan(target="colors", without=True, concurrency=1, cache=False)
        lab.do(lab.engine.evals.run(plan, models=[ScriptedModel(answers)]))
    view = look(lab)
    page = view.go("/evals")
    expect(page.get_by_role("row")).to_have_count(3)
    expect(page.get_by_role("row").nth(1)).to_contain_text("1 of 2 failed")
    view.check_access()
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Compare the two selected").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Evaluation of colors")
    compared = page.get_by_role("region", name="Compare")
    expect(compared.get_by_role("row", name=re.compile("ruby"))).to_contain_text("0%100%")
    expect(compared).to_contain_text("No difference shown")
    expect(compared).to_contain_text("Compared on 2 cases that both runs have.")
    page.get_by_label("Failed", exact=True).check(force=True)
    cases = page.get_by_role("list", name="Cases").locator("summary")
    expect(cases).to_have_count(1)
    cases.click()
    expect(page.get_by_text("<b>green</b>", exact=True)).to_be_visible()
    expect(page.locator(".evals-cases").get_by_text("expected 'blue'").first).to_be_visible()
    view.check_access()


@pytest.mark.long
def test_an_optimisation_is_read_with_its_evidence_and_approved(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    cases = [{"inputs": {"message": text}, "expected": label} for text, label in TICKETS]
    files: dict[str, str | bytes] = {
        "agents/prowess.yaml": "title: Triage\nversion: 1.0.0\n",
        "prompts/sort.j2": "Sort this: {{ message }}",
        "evals/cases.json": json.dumps(cases),
    }
    place.skill("triage", files=files)
    site = serve(place)
    steps = [Answer(when="You improve the prompt", reply={"rewrites": [BETTER]})]
    for text, label in TICKETS:
        steps += [Answer(when=f"account: {text}", reply=label)] * 2
        steps += [Answer(when=f"Sort this: {text}", reply=f"It may be {label}.")] * 2
    model = ScriptedModel(steps, unordered=True)
    site.do(
        site.engine.optimize.run(OptimizationRequest(skill="triage", method="rewrite", metric="exact", model=model))
    )

    view = look(site)
    page = view.go("/evals?tab=optimizations")
    page.get_by_role("link", name="triage").click()
    expect(page.get_by_text("Waiting for you")).to_be_visible()
    expect(page.get_by_role("region", name="Evidence")).to_contain_text("cases that the search never saw")
    expect(page.get_by_role("region", name="The change")).to_contain_text("Answer with one word")
    view.check_access()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("In use, monitored")).to_be_visible()
    artifact = site.do(site.engine.skills.get("triage")).artifact("sort")
    assert artifact is not None
    assert artifact.content == BETTER


@pytest.mark.long
def test_an_evaluation_is_started_from_the_page_and_appears_in_the_list(lab: Site, look: Callable[..., View]) -> None:
    view = look(lab)
    page = view.go("/evals")
    expect(page.get_by_text("No evaluations yet")).to_be_visible()
    view.check_access()
    page.get_by_role("button", name="Start an evaluation").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Skill", exact=True).fill("unknown")
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("unknown")
    dialog.get_by_label("Skill", exact=True).fill("plain")
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("has no eval cases")
    dialog.get_by_label("Skill", exact=True).fill("colors")
    dialog.get_by_label("Compare with the same model").uncheck()
    view.check_access()
    dialog.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("row", name=re.compile("colors"))).to_be_visible(timeout=30_000)


@pytest.mark.long
def test_a_draft_is_written_refined_and_saved(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    examples = ROOT / "examples/compose"
    steps = [json.loads((examples / name).read_text())[0] for name in ("first-draft.json", "second-draft.json")]
    script = place.workspace / "model.json"
    script.write_text(json.dumps(steps))
    environment = {**place.environment, "PROWESS_MODEL": f"scripted:{script}", "PROWESS_EMBEDDER": "none"}
    site = serve(replace(place, environment=environment))
    view = look(site)
    page = view.go("/evals?tab=drafts")
    page.get_by_role("button", name="Draft a skill").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("What should the skill do?").fill("check timeline consistency")
    dialog.get_by_role("button", name="Write a draft").click()
    expect(page.get_by_role("region", name="Round 1")).to_contain_text("Can be saved")
    view.check_access()
    page.get_by_label("Feedback").fill("add a dspy_module for optimized execution")
    page.get_by_role("button", name="Write the next round").click()
    expect(page.get_by_role("region", name="Round 2")).to_contain_text("dspy_module")
    page.get_by_role("button", name="Approve and save").click()
    expect(page.get_by_text("Saved as")).to_be_visible()
    assert len(site.do(site.engine.skills.cards())) == 1
