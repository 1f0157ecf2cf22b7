"""`prowess sidecar`: where the DSPy sidecar is, and what it offers."""

from __future__ import annotations

from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[3] / ".venv" / "sidecar" / "bin" / "python"


def test_it_says_where_the_sidecar_is_and_how_to_get_it(prowess, workspace, monkeypatch) -> None:
    off = prowess("sidecar")
    assert (off.code, "Switched off" in off.out) == (0, True)
    monkeypatch.delenv("PROWESS_SIDECAR")
    assert "prowess sidecar install" in prowess("sidecar", "status").out
    told = prowess("sidecar", "--json").json
    assert (told["state"], told["failure"]) == ("not installed", "")
    monkeypatch.setenv("PROWESS_SIDECAR", "/nowhere/prowess-dspy")
    missing = prowess("sidecar")
    assert (missing.code, "not a program" in missing.err) == (7, True)


def test_an_installation_without_an_index_says_so_and_doctor_repeats_it(prowess, workspace, monkeypatch) -> None:
    monkeypatch.delenv("PROWESS_SIDECAR")
    for name, value in (("UV_NO_INDEX", "1"), ("UV_OFFLINE", "1"), ("UV_FIND_LINKS", ""), ("UV_INDEX", "")):
        monkeypatch.setenv(name, value)
    failed = prowess("sidecar", "install")
    assert (failed.code, "Failed to install" in failed.err) == (7, True)
    assert prowess("sidecar", "--json").json["failure"].startswith("Failed to install")
    [found] = [check for check in prowess("doctor", "--json").json["checks"] if check["name"] == "DSPy sidecar"]
    assert (found["status"], found["hint"]) == ("warning", "Run `prowess sidecar install`.")


@pytest.mark.long
def test_the_templates_are_listed_and_doctor_starts_the_sidecar(prowess, workspace, monkeypatch) -> None:
    if not PYTHON.exists():
        pytest.skip("There is no .venv/sidecar. Run: scripts/setup")
    monkeypatch.setenv("PROWESS_SIDECAR", str(PYTHON))
    listed = prowess("sidecar", "templates", "--json").json
    assert {"predict", "chain_of_thought", "react", "refine"} <= set(listed["templates"])
    printed = prowess("sidecar", "templates").out
    assert all(template["signature"] in printed for template in listed["templates"].values())
    [found] = [check for check in prowess("doctor", "--json").json["checks"] if check["name"] == "DSPy sidecar"]
    assert (found["status"], listed["dspy"] in found["detail"]) == ("ok", True)
