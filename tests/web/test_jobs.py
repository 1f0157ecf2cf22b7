"""Jobs: a batch from the page, its results, what failed, and what waits."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from prowess.jobs import system, worker
from prowess.storage import jobs

from .site import Site, View
from .test_traces import write_greeter


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at queues more often, so that tests do not wait."""
    monkeypatch.setattr(worker, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(system, "LISTEN_SECONDS", 0.02)


@pytest.mark.long
def test_a_batch_starts_from_pasted_lines_and_shows_what_failed(
    place: Any, tmp_path: Path, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    write_greeter(place, tmp_path, ["Hello Ann.", "Hello Bob."])
    view = look(serve(place))
    page = view.go("/jobs")
    expect(page.get_by_text("No jobs yet")).to_be_visible()
    page.get_by_role("button", name="Start a batch").first.click()
    form = page.get_by_role("dialog")
    form.get_by_role("button", name="Start a batch").click()
    expect(form.get_by_text("Choose a skill.")).to_be_visible()
    expect(form.get_by_label("Skill")).to_be_focused()
    form.get_by_label("Skill").fill("greeter")
    form.get_by_label("Inputs").fill('{"name": "Ann"}\nBob')
    expect(form.get_by_text("Line 2: not a JSON object")).to_be_visible()
    view.check_access()
    # What was entered is still there after a reload.
    page.reload()
    expect(form.get_by_label("Skill")).to_have_value("greeter")
    form.get_by_label("Inputs").fill("name\tnote\nAnn\tfirst\nBob\t\n")
    expect(form.get_by_text("2 runs")).to_be_visible()
    form.get_by_label("Inputs").fill('name,note\nAnn,"first, of all"\nBob,x\nCid,y')
    expect(form.get_by_text("3 runs")).to_be_visible()
    form.get_by_label("In parallel").fill("1")
    form.get_by_label("Name").fill("greetings")
    form.get_by_role("button", name="Start a batch").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("greetings")
    expect(page.get_by_text("3 of 3 · 1 failed")).to_be_visible()
    results = page.get_by_role("list", name="Results")
    expect(results.get_by_role("listitem")).to_have_count(3)
    expect(results.get_by_role("listitem").first).to_contain_text("Hello Ann.")
    view.check_access()
    page.get_by_text("Only failed").click()
    expect(results.get_by_role("listitem")).to_have_count(1)
    results.get_by_role("button").click()
    expect(page.get_by_role("dialog")).to_contain_text("Unexpected request")
    view.check_access()
    page.keyboard.press("Escape")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download results").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert [json.loads(line)["ok"] for line in lines] == [True, True, False]
    page.get_by_role("button", name="Retry failed items").click()
    expect(page.get_by_text("attempt 2")).to_be_visible()


@pytest.mark.long
def test_jobs_change_in_the_list_as_they_go_on_and_can_be_cancelled(site: Site, look: Callable[..., View]) -> None:
    job = jobs.JobRow(id=str(uuid.uuid4()), kind="batch", name="waiting-batch", skill_slug="notes", total=1_200)
    with site.engine.context.resources.records().write() as connection:
        jobs.add(connection, job, ["{}"] * job.total)
        line = json.dumps({"index": 1_195, "ok": True, "output": "The last one.", "error": None, "traces": []})
        jobs.finish_item(connection, job.id, 1_195, failed=False, cost=0.5, result=line)
    view = look(site)
    page = view.go("/jobs?state=queued")
    expect(page.get_by_text("No worker is running")).to_be_visible()
    view.check_access()
    page.get_by_role("link", name="waiting-batch").click()
    expect(page.get_by_text("1 of 1,200")).to_be_visible()
    rows = page.get_by_role("list", name="Results").get_by_role("listitem")
    expect(rows.first).to_contain_text("Not run yet")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_role("button", name="The last one.")).to_be_visible()
    assert rows.count() < 100
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_text("Cancelled", exact=True)).to_be_visible()
    page.get_by_role("link", name="← Jobs").click()
    expect(page.get_by_role("row", name="waiting-batch")).to_contain_text("Cancelled")
