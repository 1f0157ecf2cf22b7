"""Pages of a workspace: what they are called, what is read of them, and what is left alone."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid, NotFound
from prowess.workspace import pages as module
from prowess.workspace.pages import PageLimits, read_page
from prowess.workspace.workspace import Workspace


def slugs(found):
    return [page["slug"] for page in found]


def test_a_page_says_about_itself_what_its_frontmatter_says(write, workspace):
    write("a/Mara Venn.md", "She is tall.\n", title="Mara", type="character", tags="[hero, '#old']", slug="mara")
    page = workspace.get_page("mara")
    assert {name: page[name] for name in ("slug", "title", "type", "tags", "path", "content")} == {
        "slug": "mara",
        "title": "Mara",
        "type": "character",
        "tags": ["hero", "old"],
        "path": "a/Mara Venn.md",
        "content": "She is tall.\n",
    }


def test_without_frontmatter_the_path_and_the_heading_say_it(write, workspace):
    write("places/north-gate.md", "# The North Gate\n\nClosed.\n")
    write("notes.md", "Nothing yet.\n")
    assert workspace.get_all_pages() == [
        {"slug": "notes", "title": "notes", "type": "", "tags": [], "path": "notes.md"},
        {
            "slug": "places/north-gate",
            "title": "The North Gate",
            "type": "places",
            "tags": [],
            "path": "places/north-gate.md",
        },
    ]


@pytest.mark.parametrize(
    "name",
    ["people/mara-venn", "people/mara-venn.md", "mara-venn", "Mara Venn", "mara  VENN", "The Keeper", "MARA-VENN"],
)
def test_a_page_is_found_by_every_name_that_it_goes_by(write, workspace, name):
    write("people/mara-venn.md", title="Mara Venn", aliases="The Keeper, Mara")
    assert workspace.get_page(name)["slug"] == "people/mara-venn"


def test_of_two_pages_with_one_slug_the_second_is_called_by_its_path(write, workspace):
    write("a.md", slug="same")
    write("b.md", slug="Same")
    assert [(page["slug"], page["path"]) for page in workspace.get_all_pages()] == [("same", "a.md"), ("b.md", "b.md")]
    assert workspace.get_page("SAME")["path"] == "a.md"


def test_a_page_that_is_not_there_is_told_with_those_much_like_it(write, workspace):
    write("people/mara.md")
    with pytest.raises(NotFound) as failed:
        workspace.get_page("people/mora")
    assert "people/mara" in failed.value.hint


def test_several_pages_come_in_the_order_asked_for(write, workspace):
    write("a.md", "1")
    write("b.md", "2")
    assert [page and page["content"] for page in workspace.get_pages(["b", "nobody", "a"])] == ["2", None, "1"]


def test_pages_of_a_type_and_tags_are_counted(write, workspace):
    write("a.md", type="character", tags="[hero, north]")
    write("characters/b.md", tags="north")
    write("c.md", type="place")
    assert slugs(workspace.get_pages_by_type("Characters")) == ["a", "characters/b"]
    assert workspace.get_pages_by_type("") == []
    assert workspace.get_tags() == [{"tag": "north", "pages": 2}, {"tag": "hero", "pages": 1}]


@pytest.mark.parametrize("name", ["Caf\u00e9", "cafe\u0301", "Two  spaces", "two spaces", "Big  plan", "big plan"])
def test_a_page_is_found_however_its_accents_and_spaces_are_written(write, workspace, name):
    write("cafe\u0301.md", "Coffee.")
    write("Two  spaces.md", "---\ntitle: Big  plan\n---\nText.")
    write("index.md", "[[Caf\u00e9]] and [again](caf\u00e9.md)")
    assert workspace.get_page(name)["content"].strip() in ("Coffee.", "Text.")
    assert workspace.get_references("index")["missing"] == []


def test_hidden_folders_other_files_and_links_are_left_alone(write, workspace, folder, tmp_path):
    write("here.md")
    for path in (".git/x.md", ".agents/skills/x/SKILL.md", "node_modules/x.md", ".hidden.md", "picture.png", "a.txt"):
        write(path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    (folder / "linked").symlink_to(outside)
    (folder / "linked.md").symlink_to(outside / "secret.md")
    assert slugs(workspace.get_all_pages()) == ["here"]
    assert [(one.path, "symbolic link" in one.reason) for one in workspace.skipped] == [("linked.md", True)]
    with pytest.raises(NotFound):
        workspace.get_page("../outside/secret.md")


def test_what_cannot_be_read_is_skipped_and_named(write, folder):
    workspace = Workspace(folder, PageLimits(page_bytes=50, pages=2, total_bytes=1_000))
    write("a.md", "x" * 51)
    os.mkfifo(folder / "b.md")
    write("c.md", "fine")
    write("d.md", "fine")
    write("e.md", "one too many")
    assert slugs(workspace.get_all_pages()) == ["c", "d"]
    told = {one.path: one.reason for one in workspace.skipped}
    assert told.keys() == {"a.md", "b.md", "e.md"}
    assert "50 bytes" in told["a.md"]
    assert "named pipe" in told["b.md"]


def test_no_more_than_the_whole_may_have_is_kept(write, folder):
    workspace = Workspace(folder, PageLimits(total_bytes=150))
    for name in "abc":
        write(f"{name}.md", "x" * 60)
    assert slugs(workspace.get_all_pages()) == ["a", "b"]
    assert [one.path for one in workspace.skipped] == ["c.md"]


def test_a_file_name_that_is_no_text_is_skipped(folder, workspace):
    with open(os.fsencode(folder) + b"/\xff.md", "wb") as file:
        file.write(b"x")
    assert workspace.get_all_pages() == []
    assert [one.reason for one in workspace.skipped] == ["The file name is not valid text."]


def test_a_change_is_seen_at_the_next_call(write, workspace, folder):
    write("a.md", "old words")
    assert workspace.get_page("a")["content"] == "old words"
    write("a.md", "new words")
    write("b.md", "fresh")
    assert workspace.get_page("a")["content"] == "new words"
    assert slugs(workspace.search("fresh")) == ["b"]
    (folder / "b.md").unlink()
    assert workspace.search("fresh") == []


def test_the_folder_is_looked_at_no_more_often_than_once_in_a_while(write, folder):
    moment = [0.0]
    workspace = Workspace(folder, hold_seconds=1.0, clock=lambda: moment[0])
    assert workspace.get_all_pages() == []
    write("a.md")
    moment[0] = 0.9
    assert workspace.get_all_pages() == []
    moment[0] = 1.0
    assert slugs(workspace.get_all_pages()) == ["a"]


def test_unchanged_pages_are_not_read_again(write, workspace, monkeypatch):
    for name in ("a.md", "b.md"):
        os.utime(write(name, "words"))
    read: list[str] = []
    monkeypatch.setattr(module, "is_settled", lambda *_: True)
    monkeypatch.setattr(module, "read_page", lambda path, data: read.append(path) or read_page(path, data))
    workspace.get_all_pages()
    workspace.search("words")
    assert read == ["a.md", "b.md"]
    write("b.md", "other words")
    workspace.get_all_pages()
    assert read == ["a.md", "b.md", "b.md"]


def test_a_folder_that_is_not_there_is_told(folder):
    with pytest.raises(NotFound, match="does not exist"):
        Workspace(folder / "nothing").get_all_pages()


@given(st.binary(max_size=400))
def test_no_bytes_keep_a_page_from_being_read(data):
    page = read_page("a/b.md", data)
    assert page.slug
    json.dumps(page.as_json())


def test_a_search_ranks_titles_before_text_and_rare_words_before_common_ones(write, workspace):
    write("gate.md", "A gate in the wall of the town.", title="North Gate")
    write("wall.md", "The wall is old. The gate is north.", title="The Wall")
    write("town.md", "The town has a wall, a wall, and again a wall.", title="Town")
    assert slugs(workspace.search("north gate")) == ["gate", "wall"]
    assert slugs(workspace.search("walls"))[0] == "wall"
    assert slugs(workspace.search("gate", limit=1)) == ["gate"]
    assert workspace.search("dragon") == []


def test_a_search_for_a_type_gives_the_pages_of_that_type_first(write, workspace):
    write("notes.md", "characters characters characters", title="Characters")
    write("mara.md", "Tall.", type="character")
    write("ivo.md", "Small.", type="character")
    assert slugs(workspace.workspace_search("character")) == ["ivo", "mara", "notes"]


def test_a_result_has_the_line_around_the_word(write, workspace):
    write("a.md", "filler " * 100 + "The Émigré came home. " + "filler " * 100)
    (found,) = workspace.search("emigre")
    assert "The Émigré came home." in found["snippet"]
    assert found["snippet"].startswith("…")
    assert found["snippet"].endswith("…")
    assert found["score"] > 0


def test_a_search_without_words_gives_all_pages_and_one_without_room_none(write, workspace):
    write("b.md")
    write("a.md")
    assert slugs(workspace.search("  ")) == ["a", "b"]
    with pytest.raises(Invalid):
        workspace.search("a", limit=0)


def test_a_query_of_any_length_is_answered_by_its_beginning(write, workspace):
    write("a.md", "needle")
    assert slugs(workspace.search("needle " + "word" * 1_000_000)) == ["a"]
    assert workspace.search("word " * 1_000_000 + "needle") == []
    assert workspace.get_pages_by_type("x" * 1_000_000) == []
