"""Packages that bring skills: found when they are installed, skipped and named when they are broken."""

from __future__ import annotations

import importlib
import logging
import re
from pathlib import Path

import pytest

from prowess import plugins

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "plugins.md"
BROKEN = {
    "a-missing-folder": "folder not found",
    "a-missing-module": "ModuleNotFoundError",
    "a-plain-embedder": "no namespace",
    "a-strange-handler": "not a handler with a kind and an async `run`: UnknownKind",
    "a-strange-store": "not a store: str",
    "a-taken-folder": "the model of broken.script",
    "a-taken-tool": "not a tool: PluginTool",
    "a-wrong-value": "returned dict, expected prowess.Plugin",
    "an-error": "the licence has run out",
    "an-exit": "SystemExit: not today",
}


def test_the_skills_of_an_installed_plugin_are_in_reach(prowess, sample):
    listed = prowess(sample, "list", "--json")
    card = next(card for card in listed.json if card["slug"] == "sourdough-starter")
    assert (card["scope"], listed.err) == ("system", "")

    shown = prowess(sample, "show", "sourdough-starter", "--reference", "feeding-times.md")
    assert (shown.code, "| 24 | 6 |" in shown.out) == (0, True)
    loaded = prowess(sample, "load", "sourdough-starter", "--json").json
    assert (loaded["error"], loaded["available_references"]) == (None, ["feeding-times.md"])
    matched = prowess(sample, "match", "my sourdough starter does not rise, when do I feed it?", "--json").json
    assert matched[0]["slug"] == "sourdough-starter"


def test_skills_of_a_plugin_cannot_be_changed_from_here(prowess, sample):
    assert prowess(sample, "delete", "sourdough-starter").code == 5
    assert "sourdough-starter" in prowess(sample, "list").out


def test_plugins_are_listed_with_what_they_bring(prowess, sample):
    (found,) = prowess(sample, "plugins", "--json").json
    assert (found["name"], found["distribution"], found["version"]) == ("recipes", "prowess-recipes", "1.2.0")
    assert (found["ok"], found["problem"], found["stores"]) == (True, "", [])
    assert found["packs"] == [str(sample / "recipe_pack" / "skills")]
    shown = prowess(sample, "plugins").out
    assert all(words in shown for words in ("recipes", "prowess-recipes", "1.2.0", "1 plugin, 0 skipped."))


def test_the_skills_of_a_store_that_a_plugin_brings_are_served_in_its_scope(prowess, shelf):
    cards = {card["slug"]: card["scope"] for card in prowess(shelf, "list", "--json").json}
    assert cards["house-style"] == "org"
    # A plugin brings the store; who wrote what is in it is not known.
    asked = prowess(shelf, "load", "org:house-style", "--json").json
    assert (asked["body"], bool(asked["approval_id"])) == (None, True)
    matched = prowess(shelf, "match", "check the house style of this text for customers", "--json").json
    assert matched[0]["slug"] == "house-style"
    (found,) = prowess(shelf, "plugins", "--json").json
    assert [store["scope"] for store in found["stores"]] == ["org"]
    assert prowess(shelf, "doctor").code == 0


def test_the_kinds_that_a_plugin_runs_are_listed(prowess, kitchen):
    (found,) = prowess(kitchen, "plugins", "--json").json
    assert (found["ok"], found["handlers"]) == (True, ["dspy_module"])
    assert "runs dspy_module" in prowess(kitchen, "plugins").out


def test_a_handler_that_a_plugin_brings_runs_the_artifacts_of_its_kind(prowess, kitchen):
    ran = prowess(kitchen, "run", "scale-recipe", "-i", "grams:=250", "-i", "portions:=3", "--json")
    assert (ran.code, ran.json["output"], ran.json["parts"][0]["kind"]) == (0, 750, "dspy_module")


def test_broken_plugins_are_named_skipped_and_counted(prowess, sample_and_broken):
    ran = prowess(sample_and_broken, "plugins", "--json")
    problems = {found["name"]: found["problem"] for found in ran.json if not found["ok"]}
    assert problems.keys() == BROKEN.keys()
    for name, words in BROKEN.items():
        assert words in problems[name]
        assert name in ran.err
    assert "11 plugins, 10 skipped." in prowess(sample_and_broken, "plugins").out


BREAD = "---\nname: bread\ndescription: Bakes bread.\n---\nKnead.\n"
NO_PLUGIN = "plugin = Plugin(name='odd')"
STORE = """
from prowess.catalog.memory_store import MemoryStore

store = MemoryStore("galaxy")
plugin = Plugin(name="odd", stores=(store,))
"""


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("class Panic(BaseException): pass\nraise Panic('out of order')", "Panic: out of order"),
        ("raise ValueError('\\x1b]0;gone\\x07')", "ValueError: \ufffd]0;gone\ufffd"),
        ("class Bad(Exception):\n    def __str__(self): raise OSError\nraise Bad", "Bad"),
        (STORE, "ValueError: the store MemoryStore has the unknown scope 'galaxy'"),
        (
            "class Bare:\n    scope = 'org'\nplugin = Plugin(name='odd', stores=(Bare(),))",
            "Bare, which lacks location",
        ),
    ],
)
def test_whatever_a_plugin_raises_is_its_problem_alone(prowess, package, code, problem):
    ran = prowess(package(code), "plugins", "--json")
    (found,) = ran.json
    assert (ran.code, found["ok"], problem in found["problem"]) == (0, False, True)
    assert "Skipping the plugin odd of odd-pack" in ran.err
    assert "\x1b" not in ran.err


FAILING_STORE = """
from prowess.catalog.memory_store import MemoryStore

class Failing(MemoryStore):
    def list_skills(self): raise SystemExit(3)
    def documents(self, slugs=None):
        raise ZeroDivisionError
        yield

plugin = Plugin(name="odd", stores=(Failing("org"),))
"""
FAILING_FORM = """
from prowess.skill.form_info import FormInfo

class Failing:
    def recognises(self, candidate): raise ZeroDivisionError("none left")

form = FormInfo(name="odd.form", markers=("odd.json",), is_data=True, has_needs=False, is_descriptor=False, load=Failing)
plugin = Plugin(name="odd", forms=(form,))
"""


def test_everything_else_works_beside_a_store_that_fails_when_it_is_used(prowess, package):
    odd = package(FAILING_STORE)
    listed = prowess(odd, "list")
    assert (listed.code, "The plugin odd failed: SystemExit: 3" in " ".join(listed.err.split())) == (0, True)
    assert prowess(odd, "match", "bake a loaf").code == 0
    checked = prowess(odd, "doctor")
    assert (checked.code, "The plugin odd failed" in " ".join(checked.out.split())) == (0, True)


def test_a_form_that_fails_takes_no_other_skill_away(prowess, package, tmp_path):
    for name, file, text in (("bread", "SKILL.md", BREAD), ("odd", "odd.json", "{}")):
        (tmp_path / ".agents/skills" / name).mkdir(parents=True)
        (tmp_path / ".agents/skills" / name / file).write_text(text)
    odd = package(FAILING_FORM)

    assert [skill["slug"] for skill in prowess(odd, "list", "--json").json] == ["bread"]
    shown = " ".join(prowess(odd, "doctor").out.split())
    assert "The plugin odd failed: ZeroDivisionError: none left" in shown


@pytest.mark.parametrize("declared", ["[prowess.plugins]\nno pair\n", "[prowess.plugins]\nodd = :::\n[[\n= x\n"])
def test_a_package_whose_entry_points_cannot_be_read_is_skipped(prowess, package, declared):
    ran = prowess(package(NO_PLUGIN, entry_points=declared), "plugins", "--json")
    assert (ran.code, [(one["name"], one["ok"]) for one in ran.json]) == (0, [("odd-pack", False)])
    assert "entry_points.txt is not valid" in ran.err


def test_entry_points_of_a_package_without_plugins_do_not_matter(prowess, package, tmp_path):
    folder = package(NO_PLUGIN)
    (other := folder / "other-1.0.dist-info").mkdir()
    (other / "entry_points.txt").write_text("[console_scripts]\nno pair\n")
    assert [one["ok"] for one in prowess(folder, "plugins", "--json").json] == [True]


def test_a_plugin_of_a_package_with_damaged_metadata_is_used(prowess, package):
    (found,) = prowess(package(NO_PLUGIN, metadata="damaged"), "plugins", "--json").json
    assert (found["name"], found["distribution"], found["ok"]) == ("odd", "", True)


def test_what_a_plugin_prints_when_it_is_loaded_is_not_output_of_the_command(prowess, package):
    ran = prowess(package(f"print('Hello!')\n{NO_PLUGIN}"), "list", "--json")
    assert (type(ran.json), "Hello!" in ran.err) == (list, True)


def test_everything_else_works_beside_broken_plugins(prowess, sample_and_broken):
    listed = prowess(sample_and_broken, "list", "--json")
    assert (listed.code, "sourdough-starter" in {card["slug"] for card in listed.json}) == (0, True)
    assert prowess(sample_and_broken, "show", "sourdough-starter").code == 0


def test_doctor_tells_of_plugins_and_is_content_with_the_rest(prowess, sample_and_broken):
    ran = prowess(sample_and_broken, "doctor", "--json")
    plugins = {check["name"]: check for check in ran.json["checks"] if check["name"].startswith("plugin ")}
    assert (ran.code, plugins["plugin recipes"]["status"]) == (0, "ok")
    assert "prowess-recipes 1.2.0" in plugins["plugin recipes"]["detail"]
    for name, words in BROKEN.items():
        check = plugins[f"plugin {name}"]
        assert (check["status"], words in check["detail"]) == ("warning", True)
        assert "prowess-broken" in check["hint"]


def test_no_plugins_is_said_so(prowess, tmp_path):
    assert prowess(tmp_path / "none", "plugins", "--json").json == []
    assert "No plugins installed" in prowess(tmp_path / "none", "plugins").out


@pytest.mark.parametrize("path", ["pyproject.toml", "recipe_pack/__init__.py"])
def test_the_page_on_plugins_shows_the_sample(path):
    blocks = re.findall(r"```(?:python|toml)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert (HERE / "sample" / path).read_text() in blocks


def test_an_assertion_type_that_raises_fails_by_its_severity_and_keeps_the_output(prowess, flawed):
    ran = prowess(flawed, "run", "say-nothing", "soft", "--json")
    (verdict,) = ran.json["parts"][0]["verdicts"]
    assert (ran.code, ran.json["output"].strip(), verdict["passed"]) == (0, "All is well.", False)
    assert "The assertion type flawed.check failed: RuntimeError." in verdict["explanation"]

    ran = prowess(flawed, "run", "say-nothing", "strict", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (8, "assertion-failed")
    assert "The assertion type flawed.check failed" in ran.json["error"]["message"]


def test_the_log_says_that_a_handler_returned_no_output(prowess, flawed):
    ran = prowess(flawed, "run", "say-nothing", "soft", "-i", "silent:=true")
    assert ran.code == 8
    assert "The handler of flawed.note returned NoneType, not an Output." in ran.err


def test_the_log_says_that_a_handler_returned_data_that_is_not_json(prowess, flawed):
    ran = prowess(flawed, "run", "say-nothing", "soft", "-i", "odd:=true", "--json")
    assert (ran.code, ran.json["error"]["message"]) == (8, "'soft' of 'say-nothing' failed: TypeError.")
    assert "The handler of flawed.note returned data that is not JSON" in ran.err


def test_a_run_whose_handler_exits_is_one_that_failed(prowess, flawed):
    ran = prowess(flawed, "run", "say-nothing", "soft", "-i", "exit:=true", "--json")
    assert (ran.code, ran.json["error"]["message"]) == (8, "'soft' of 'say-nothing' failed: SystemExit.")


def test_a_plugin_that_takes_long_to_load_is_named(tmp_path, monkeypatch, caplog):
    module = """
import threading
from prowess import Plugin
named = threading.Event()
def plugin():
    return Plugin(name="slow") if named.wait(60) else None
"""
    (tmp_path / "slow_pack.py").write_text(module)
    described = tmp_path / "slow_pack-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-pack\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[prowess.plugins]\nslow = slow_pack:plugin\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "SLOW_SECONDS", 0)
    monkeypatch.setattr(plugins, "installed_plugins", plugins.installed_plugins.__wrapped__)

    def notice(record: logging.LogRecord) -> bool:
        if "slow takes long to load" in record.getMessage():
            importlib.import_module("slow_pack").named.set()
        return True

    caplog.handler.addFilter(notice)
    assert [plugin.name for plugin in plugins.working_plugins()] == ["slow"]
    assert "remove it: pip uninstall slow-pack" in caplog.text
