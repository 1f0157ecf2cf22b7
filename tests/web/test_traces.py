"""Runs: their list, their charts, and one of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from prowess.errors import ProwessError
from prowess.redaction import Redactor
from prowess.run.request import RunRequest
from prowess.storage.traces import Trace, insert_many, to_values
from prowess.traces.trace_row import to_row

from .site import Site, View

SIDECAR = "title: G\nartifacts:\n- {path: prompts/greet.j2, kind: prompt_template, name: greet}\n"
HOSTILE = "# Hi **Ann**\n\n<img src=x onerror=alert(1)> ![x](https://evil.example/a.png) [go](javascript:alert(1))"


def write_greeter(place: Any, folder: Path, answers: list[object]) -> None:
    """Write the skill `greeter`, and a model that gives these answers."""
    script = folder / "answers.json"
    script.write_text(json.dumps(answers))
    place.environment["PROWESS_MODEL"] = f"scripted:{script}"
    place.skill("greeter", files={"agents/prowess.yaml": SIDECAR, "prompts/greet.j2": "Greet {{ name }}."})


def run_greeter(site: Site, name: str) -> None:
    """Run it; a run that fails leaves a trace too."""
    request = RunRequest(slug="greeter", inputs={"name": name})

    async def run() -> None:
        try:
            await site.engine.runs.attempt(request)
        except ProwessError as error:
            raise AssertionError(str(error)) from error

    site.do(run())


def add_traces(site: Site, traces: list[Trace]) -> None:
    """Record runs that never happened."""
    with site.engine.context.resources.records().write() as connection:
        insert_many(connection, [to_values(to_row(trace, Redactor())) for trace in traces])


def make_trace(number: int, **fields: Any) -> Trace:
    """Return a run that ended some hours ago."""
    started = (datetime.now(UTC) - timedelta(hours=5 * number)).isoformat(timespec="microseconds")
    moment = started.replace("+00:00", "Z")
    values: dict[str, Any] = {
        "id": f"{number:08}-0000-4000-8000-000000000000",
        "run_id": f"{number:08}-1111-4000-8000-000000000000",
        "skill_id": "notes",
        "skill_slug": "notes",
        "artifact_id": "write",
        "artifact_name": "write",
        "artifact_kind": "prompt_template",
        "status": "ok",
        "started_at": moment,
        "deadline_at": moment,
        "completed_at": moment,
        "duration_ms": 100 * number,
        "model_id": "openai:gpt-5-mini",
        "input_tokens": 10,
        "output_tokens": 5,
        "estimated_cost": 0.25,
    }
    return Trace(**{**values, **fields})


@pytest.mark.long
def test_runs_appear_as_they_happen_and_one_shows_what_came_out_and_what_went_wrong(
    place: Any, tmp_path: Path, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    write_greeter(place, tmp_path, [HOSTILE])
    site = serve(place)
    view = look(site)
    page = view.go("/traces")
    expect(page.get_by_text("No runs yet")).to_be_visible()
    view.check_access()

    run_greeter(site, "Ann")
    expect(page.get_by_role("row", name="greeter greet")).to_contain_text("Succeeded")
    run_greeter(site, "Bob")
    failed = page.get_by_role("row").filter(has_text="Failed")
    expect(failed).to_contain_text("Unexpected request number")
    view.check_access()

    page.get_by_role("row").filter(has_text="Succeeded").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("greeter · greet")
    expect(page.get_by_text("Succeeded in")).to_be_visible()
    output = page.get_by_role("region", name="Output")
    expect(output.get_by_role("heading", name="Hi Ann")).to_be_visible()
    expect(output.locator("img, [href^=javascript]")).to_have_count(0)
    output.get_by_text("As text").click()
    expect(output.locator("pre")).to_contain_text("onerror=alert(1)")
    page.get_by_text("What was sent or executed").click()
    expect(page.get_by_text("Greet Ann.")).to_be_visible()
    view.check_access()

    page.get_by_role("link", name="← Traces").click()
    failed.get_by_role("link").click()
    expect(page.get_by_text("Failed after")).to_be_visible()
    expect(page.get_by_text("Compare the prompt below with the answer")).to_be_visible()


@pytest.mark.long
def test_a_list_is_filtered_by_its_address_and_drawn_as_charts(each_site: Site, look: Callable[..., View]) -> None:
    add_traces(each_site, [make_trace(number) for number in range(1, 56)])
    add_traces(
        each_site,
        [
            make_trace(
                60, skill_slug="claims", status="failed", error="Not JSON.", assertions_run=2, model_id="ollama:q"
            )
        ],
    )
    view = look(each_site)
    page = view.go("/traces")
    expect(page.get_by_text("50 of 56 runs")).to_be_visible()
    page.get_by_role("button", name="Show more").click()
    expect(page.get_by_text("56 of 56 runs")).to_be_visible()
    page.get_by_role("combobox", name="Skill").select_option("claims")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(each_site.url + "/traces?skill=claims")
    expect(page.get_by_role("link", name="Export")).to_have_attribute(
        "href", "/api/v1/traces/export?skill=claims&days=30"
    )

    page.get_by_role("combobox", name="Skill").select_option("")
    page.get_by_role("tab", name="Charts").click()
    cost = page.locator("section").filter(has=page.get_by_role("heading", name="Cost"))
    expect(cost.get_by_text("$14.00")).to_be_visible()
    expect(cost.get_by_role("row", name="notes $13.75")).to_be_visible()
    # The chart has the same numbers as a table.
    expect(cost.get_by_role("table", name="Cost per day")).to_contain_text("notes: $")
    page.get_by_text("By model").click()
    expect(page.get_by_role("table", name="Failed assertions", exact=True)).to_contain_text("ollama:q")
    view.check_access()


@pytest.mark.long
def test_the_runs_of_one_day_are_seen_in_the_chart_of_a_month(site: Site, look: Callable[..., View]) -> None:
    add_traces(site, [make_trace(1)])
    view = look(site)
    page = view.go("/traces?view=charts")
    chart = page.locator("section", has=page.get_by_role("heading", name="Latency")).locator("canvas")
    chart.wait_for()
    # The only colors of a chart without values are grays.
    colored = """canvas => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        for (let at = 0; at < data.length; at += 4)
            if (data[at + 3] === 255 && Math.abs(data[at] - data[at + 1]) > 60) return true;
        return false;
    }"""
    page.wait_for_function(colored, arg=chart.element_handle())


@pytest.mark.long
def test_a_run_of_several_steps_is_a_timeline_with_what_replaced_what(site: Site, look: Callable[..., View]) -> None:
    run = "22222222-0000-4000-8000-000000000000"
    verdict = {
        "type": "rubric",
        "description": "Names a source",
        "passed": False,
        "severity": "error",
        "explanation": "No.",
    }
    first = make_trace(1, run_id=run, artifact_name="extract", status="unavailable", error="No sidecar.")
    names = [{"name": "evil.example", "times": 2}]
    second = make_trace(
        2,
        run_id=run,
        started_at=first.started_at[:-1] + "1Z",
        artifact_name="spare",
        fallback_of=first.id,
        verdicts=[verdict],
        assertions_run=1,
        raw_output='{"a": {"b": {"c": [1]}}}',
        detail={"receipt": {"refused": {"hosts": names}}, "timings_ms": {"prompt": 10, "model": 90}},
        session_id="some-session",
    )
    add_traces(site, [first, second])
    view = look(site, viewport={"width": 360, "height": 740})
    page = view.go(f"/traces/{second.id}")
    steps = page.get_by_role("region", name="Steps of this run").get_by_role("listitem")
    expect(steps.first).to_contain_text("extract")
    expect(steps.last).to_contain_text("spare instead of extract")
    expect(page.get_by_role("region", name="Assertions")).to_contain_text("Names a source")
    expect(page.get_by_role("region", name="What it touched")).to_contain_text("evil.example")
    expect(page.get_by_role("link", name="Open the conversation")).to_have_attribute("href", "/chat/some-session")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    view.check_access()
    steps.first.get_by_role("link").click()
    expect(page.get_by_text("No sidecar.")).to_be_visible()
    for number, session, name, address in (
        (8, "eval:e1", "Evaluation", "/evals/e1"),
        (9, "optimize:o1", "Optimization", "/optimizations/o1"),
    ):
        measured = make_trace(number, session_id=session)
        add_traces(site, [measured])
        page.goto(f"/traces/{measured.id}")
        expect(page.get_by_role("link", name=name, exact=True)).to_have_attribute("href", address)
    page.goto("/traces/00000000-unknown")
    expect(page.get_by_role("alert")).to_contain_text("not found")
    view.check_access()
