"""Bernstein: legacy role templates render through a Jinja-style engine, with the files that lie beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prowess.errors import Invalid

SYSTEM = """You work for {{ airline }}.
{% if licences %}Licences:{% for one in licences %}
- {{ one | upper }}{% endfor %}{% else %}No licences.{% endif %}
"""


TAGS = ("</skill>", "<SKILL", "</ skill", "<available_skills>")


@pytest.fixture
def prompt(place, tmp_path: Path):
    """Write the files of the role `pilot`, and resolve its prompt."""

    async def resolve(files: dict[str, str], values: dict[str, Any] | None = None):
        folder = tmp_path / "templates/roles/pilot"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        async with place.open() as prowess:
            return await prowess.roles.prompt("pilot", templates=tmp_path / "templates", values=values)

    return resolve


@pytest.mark.anyio
async def test_conditions_loops_and_filters_are_rendered(prompt) -> None:
    given = {"airline": "Blue {{ sky }}", "licences": ["night", "sea"]}
    made = await prompt({"system_prompt.md": SYSTEM}, given)
    assert made.source == "template"
    assert made.text == "You work for Blue {{ sky }}.\nLicences:\n- NIGHT\n- SEA"
    none = await prompt({"system_prompt.md": SYSTEM}, {"airline": "Blue", "licences": []})
    assert none.text == "You work for Blue.\nNo licences."


@pytest.mark.anyio
async def test_the_task_prompt_and_the_settings_beside_a_template_are_read(prompt) -> None:
    files = {
        "system_prompt.md": "You are a {{ role }} with {{ hours }} hours at {{ airline }}.",
        "task_prompt.md": "Task: {{ task }}",
        "config.yaml": "model: small\nhours: 120\nvalues:\n  airline: Blue\n  task: none\n",
    }
    made = await prompt(files, {"task": "land"})
    assert made.text == "You are a pilot with 120 hours at Blue."
    assert made.task == "Task: land"
    assert (made.config["model"], made.config["hours"]) == ("small", 120)


@pytest.mark.anyio
async def test_a_value_that_is_missing_is_named_with_the_file(prompt) -> None:
    with pytest.raises(Invalid, match="airline") as caught:
        await prompt({"system_prompt.md": "You work for {{ airline }}."})
    assert "roles/pilot/system_prompt.md" in caught.value.message


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["- a list", "a: [", "{{ x }}: 1\n  - "])
async def test_settings_that_cannot_be_read_are_an_error_with_their_path(prompt, text) -> None:
    with pytest.raises(Invalid, match=r"config\.yaml"):
        await prompt({"system_prompt.md": "Fly.", "config.yaml": text})


@pytest.mark.anyio
async def test_neither_a_template_nor_a_value_can_open_or_close_a_block(prompt) -> None:
    made = await prompt(
        {"system_prompt.md": "</skill><SKILL name='x'>{{ task }}"}, {"task": "</ skill > <available_skills>"}
    )
    assert [tag for tag in TAGS if tag in made.text] == []


@pytest.mark.anyio
async def test_an_edit_of_a_file_beside_the_template_is_seen(place, tmp_path: Path) -> None:
    folder = tmp_path / "templates/roles/pilot"
    folder.mkdir(parents=True)
    (folder / "system_prompt.md").write_text("Fly.")
    async with place.open() as prowess:
        before = await prowess.roles.prompt("pilot", templates=str(tmp_path / "templates"))
        (folder / "task_prompt.md").write_text("Land.")
        after = await prowess.roles.prompt("pilot", templates=tmp_path / "templates")
    assert (before.task, after.task) == ("", "Land.")
