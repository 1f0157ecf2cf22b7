"""Bernstein: misspelt fields fail loudly, names that collide abort, and a plugin's skills carry the plugin's name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prowess.errors import DuplicateSkillError, Invalid
from prowess.interfaces.cli.main import run
from prowess.plugins import installed_plugins

QA = "---\nname: qa\ndescription: Tests what the others ship.\n---\n\nTest everything twice.\n"


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed plugin that brings a skill `qa`; the folder of its skills."""
    site = tmp_path / "site"
    (site / "data_pack" / "skills" / "qa").mkdir(parents=True)
    (site / "data_pack" / "skills" / "qa" / "SKILL.md").write_text(QA)
    (site / "data_pack" / "__init__.py").write_text(
        "from pathlib import Path\nfrom prowess.plugins import Plugin\n"
        "plugin = Plugin(name='my-data-pack', packs=(Path(__file__).parent / 'skills',))\n"
    )
    (site / "data_pack-1.0.dist-info").mkdir()
    (site / "data_pack-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: data-pack\nVersion: 1.0\n")
    (site / "data_pack-1.0.dist-info" / "entry_points.txt").write_text(
        "[prowess.plugins]\nmy-data-pack = data_pack:plugin\n"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "data_pack", raising=False)
    installed_plugins.cache_clear()
    yield site / "data_pack" / "skills"
    installed_plugins.cache_clear()


@pytest.fixture
def strict(place: Any) -> Any:
    """A workspace that is strict by its own file, with the skills that come with Prowess."""
    place.environment["PROWESS_SYSTEM_SKILLS"] = "on"
    (place.workspace / ".prowess").mkdir()
    (place.workspace / ".prowess" / "strict").touch()
    return place


@pytest.mark.anyio
async def test_in_a_strict_workspace_an_extra_or_misspelt_field_fails_with_the_path(strict: Any) -> None:
    async with strict.open() as engine:
        assert (await engine.roles.prompt("qa")).source == "pack"
        assert len(await engine.skills.cards()) > 10
    folder = strict.skill("notes", fields="trigger_keyword: [notes]\n")
    templates = strict.workspace / "templates"
    (templates / "skills" / "pilot").mkdir(parents=True)
    (templates / "skills" / "pilot" / "SKILL.md").write_text(
        QA.replace("qa", "pilot").replace("---\n\n", "colour: 1\n---\n\n")
    )
    async with strict.open() as engine:
        for use in (engine.skills.cards(), engine.skills.get("notes"), engine.match("notes")):
            with pytest.raises(Invalid) as raised:
                await use
            assert str(folder) in raised.value.message
            assert "'trigger_keyword'" in raised.value.message
            assert "Did you mean 'trigger_keywords'?" in raised.value.hint
        with pytest.raises(Invalid, match="colour") as raised:
            await engine.roles.prompt("pilot", templates=templates)
        assert "templates/skills/pilot" in raised.value.message
    strict.environment["PROWESS_STRICT"] = "off"
    async with strict.open() as engine:
        assert (await engine.skills.get("notes")).slug == "notes"


@pytest.mark.anyio
async def test_in_a_strict_workspace_two_sources_with_one_name_abort(strict: Any, plugin: Path) -> None:
    async with strict.open() as engine:
        for use in (engine.skills.cards(), engine.skills.get("qa"), engine.roles.prompt("qa"), engine.index()):
            with pytest.raises(DuplicateSkillError, match="'qa'") as raised:
                await use
            assert str(plugin) in raised.value.message
        assert "Several sources" in (await engine.load("qa"))["error"]


@pytest.mark.anyio
async def test_without_strictness_load_and_role_use_the_same_skill_and_name_the_other(place: Any, plugin: Path) -> None:
    place.environment["PROWESS_SYSTEM_SKILLS"] = "on"
    async with place.open() as engine:
        loaded = await engine.load("qa")
        role = await engine.roles.prompt("qa")
        assert "Test everything twice." in loaded["body"]
        assert "Test everything twice." in role.text
        for note in (loaded["note"], role.note):
            assert f"{str(plugin)!r} is used" in note
        conflicts = [problem.code for fault in await engine.skills.faults() for problem in fault.problems]
        assert conflicts == ["slug-conflict"]


@pytest.mark.anyio
async def test_the_source_of_a_plugins_skill_is_its_name_in_events_and_metrics(place: Any, plugin: Path) -> None:
    async with place.open() as engine:
        await engine.load("qa")
    async with place.open() as engine:
        (event,) = await engine.events.list(names=["skill_loaded"])
        assert event.data["source"] == "plugin:my-data-pack"
        assert b'skill_load_total{name="qa",source="plugin:my-data-pack"} 1.0' in await engine.events.metrics()


def test_the_command_line_names_both_skills_on_standard_error(
    place: Any, plugin: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROWESS_SYSTEM_SKILLS", "on")
    monkeypatch.chdir(place.workspace)
    for command in ("list", "role", "load"):
        monkeypatch.setattr("sys.argv", ["prowess", command, *(["qa"] if command != "list" else [])])
        capfd.readouterr()
        with pytest.raises(SystemExit):
            run()
        told = capfd.readouterr().err
        assert "'qa'" in told
        assert str(plugin) in told
