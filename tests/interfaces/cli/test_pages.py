"""List, search and print pages of the workspace from the command line."""

from __future__ import annotations

import subprocess


def test_pages_are_listed_by_path_and_by_type(prowess, sample):
    slugs = [page["slug"] for page in prowess("pages", "--json").json]
    assert "characters/mara-venn" in slugs
    assert slugs == sorted(slugs)
    places = prowess("pages", "--type", "place").out.splitlines()
    assert [line.split()[0] for line in places[1:]] == [
        "places/bell-tower",
        "places/causeway",
        "places/grey-light",
        "places/saltmere",
    ]


def test_list_is_another_name_for_listing(prowess, sample):
    assert prowess("pages", "list", "--json").json == prowess("pages", "--json").json


def test_words_find_pages_whole_or_by_a_line(prowess, sample):
    assert "characters/tobin-ash" in prowess("pages", "search", "great", "bell").out
    found = prowess("pages", "search", "bell founder", "--limit", "1", "--json").json
    assert (found[0]["slug"], "content" in found[0]) == ("characters/tobin-ash", False)
    whole = prowess("pages", "search", "bell founder", "--limit", "1", "--json", "--content").json
    assert "from bronze" in whole[0]["content"]
    assert prowess("pages", "search", "x", "--content").code == 2
    assert prowess("pages", "search", "zeppelin").out == "No matching page.\n"


def test_a_page_its_links_and_the_tags_are_shown(prowess, sample):
    assert prowess("pages", "show", "Mara Venn").out.startswith("\n# Mara Venn\n")
    assert prowess("pages", "show", "mara", "--json").json["type"] == "character"
    links = prowess("pages", "links", "mara", "--json").json
    assert links["links"][0]["slug"] == "places/grey-light"
    assert "Linked from" in prowess("pages", "links", "mara").out
    assert prowess("pages", "tags", "--json").json[0] == {"tag": "saltmere", "pages": 7}
    assert prowess("pages", "tags").out.splitlines()[1].split() == ["saltmere", "7"]
    unknown = prowess("pages", "show", "mora-venn")
    assert (unknown.code, "characters/mara-venn" in unknown.err) == (4, True)
    assert "`prowess pages`" in prowess("pages", "show", "zzzz").err


def test_the_history_of_a_page_is_that_of_its_repository(prowess, workspace):
    (workspace / "a.md").write_text("x")
    assert prowess("pages", "history", "a", "--json").json == []
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgSign=false")
    for command in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "begin")):
        subprocess.run(["git", *who, *command], check=True, capture_output=True)
    line = prowess("pages", "history", "a").out.splitlines()[1]
    assert line.split()[3:] == ["Ann", "begin"]


def test_what_cannot_be_read_is_named_and_nothing_of_it_obeyed(prowess, workspace):
    assert prowess("pages").out == "No pages here.\n"
    (workspace / "a.md").write_text("# \x1b[31mRed\x1b[0m")
    (workspace / "b.md").symlink_to("/etc/hostname")
    ran = prowess("pages")
    assert "Red" in ran.out
    assert "\x1b" not in ran.out
    assert ran.err.startswith("Skipped b.md: ")


def test_a_type_that_no_page_has_is_told_with_those_that_there_are(prowess, sample):
    known = {page["type"] for page in prowess("pages", "--json").json if page["type"]}
    told = prowess("pages", "list", "--type", "nope").out
    assert "No pages of type 'nope'" in told
    assert all(one in told for one in known)
