"""`prowess doctor`: its checks of the match index and of the sandboxes."""

from __future__ import annotations

import time

import pytest

from prowess.engine.doctor import check_commands, check_functions
from prowess.match import matcher
from prowess.sandbox.commands.sandbox import LockedCommandSandbox
from prowess.sandbox.deno.sandbox import DenoSandbox
from prowess.sandbox.wasm.sandbox import WasmSandbox
from prowess.storage.files import freshness

HOUR = 3_600_000_000_000


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the clock forward by an hour, so that files written just now count as settled."""
    now = time.time_ns
    monkeypatch.setattr(freshness.time, "time_ns", lambda: now() + HOUR)


@pytest.fixture
def index(prowess):
    """Return a function that runs `doctor` and returns its check of the match index."""

    def told() -> dict[str, str]:
        ran = prowess("doctor", "--json")
        found = next(check for check in ran.json["checks"] if check["name"] == "match index")
        assert ran.code == (1 if found["status"] == "error" else 0), ran.out
        return found

    return told


@pytest.mark.long
@pytest.mark.usefixtures("later")
def test_doctor_says_where_the_index_lies_and_whether_it_is_current(prowess, office, write_skill, index, home):
    assert index()["detail"].startswith(str(home / ".prowess/cache/match/"))
    assert index()["detail"].endswith("(created by the next match)")

    prowess("match", "extract the totals of this invoice")
    assert (index()["status"], "5 skills, " in index()["detail"]) == ("ok", True)
    assert index()["detail"].endswith(" bytes, current")

    write_skill("tidy")
    assert "5 skills, " in index()["detail"]
    assert index()["detail"].endswith("updated by the next match")
    prowess("match", "extract the totals of this invoice")
    assert "6 skills, " in index()["detail"]
    assert index()["detail"].endswith("current")


@pytest.mark.long
def test_doctor_names_an_embedder_that_is_not_there(prowess, workspace, index, monkeypatch):
    monkeypatch.setenv("PROWESS_EMBEDDER", "onnx:/nowhere")
    assert (index()["status"], "/nowhere" in index()["detail"]) == ("warning", True)
    monkeypatch.setenv("PROWESS_EMBEDDER", "nonsense")
    assert (index()["status"], "onnx:FOLDER" in index()["hint"]) == ("error", True)


def test_doctor_runs_something_in_every_place_where_code_of_skills_runs(prowess, workspace):
    checks = {check["name"]: check for check in prowess("doctor", "--json").json["checks"]}
    assert checks["sandbox"]["detail"].endswith("built on the first run of a script")
    assert checks["packages"]["detail"].startswith("installed by ")
    assert "bubblewrap" in checks["native runtime"]["detail"]
    for name in ("native runtime", "scripts and commands", "TypeScript"):
        detail = checks[name]["detail"]
        assert (checks[name]["status"], "confined by" in detail, "files" in detail) == ("ok", True, True), detail


@pytest.mark.anyio
async def test_what_cannot_run_is_a_warning_that_says_why(tmp_path):
    missing = await check_commands(LockedCommandSandbox(searched=(str(tmp_path),)))
    assert (missing.status, "true" in missing.detail) == ("warning", True)
    broken = await check_functions("TypeScript", DenoSandbox(program=tmp_path / "deno"), "Deno", "typescript")
    assert (broken.name, broken.status) == ("TypeScript", "warning")
    assert broken.detail


@pytest.mark.anyio
async def test_the_interpreter_is_tried_where_it_is_built(sandbox_home):
    found = await check_functions("sandbox", WasmSandbox(sandbox_home, spare_guests=0), "CPython")
    assert (found.status, found.detail.startswith("CPython, confined by ")) == ("ok", True), found.detail


def vectors(prowess, *options: str) -> dict[str, str]:
    ran = prowess("doctor", *options, "--json")
    return next(check for check in ran.json["checks"] if check["name"] == "match vectors")


@pytest.mark.long
def test_doctor_counts_the_skills_that_have_vectors_and_computes_them_on_request(prowess, write_skill, monkeypatch):
    for number in range(60):
        write_skill(f"skill-{number}")
    monkeypatch.setattr(matcher, "PATIENT", 8)
    prowess("match", "skill 7")  # computes those of the skills that are likely to fit
    told = vectors(prowess)
    assert (told["status"], told["detail"].partition(";")[0]) == ("warning", "16 of 60 skills")
    assert "prowess doctor --index" in told["hint"]
    monkeypatch.setenv("PROWESS_BACKGROUND", "on")
    assert vectors(prowess)["status"] == "ok"
    monkeypatch.setenv("PROWESS_BACKGROUND", "off")
    assert (vectors(prowess, "--index")["status"], vectors(prowess)["detail"]) == ("ok", "60 of 60 skills")
