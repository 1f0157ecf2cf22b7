"""`prowess search`: find skills by words and tags."""

from __future__ import annotations

import pytest


def test_search_ranks_what_has_to_do_with_the_words(prowess, office):
    results = prowess("search", "invoice", "--json").json
    assert results[0]["slug"] == "invoice-reader"
    assert "invoice-reader" in prowess("search", "invoice").out


def test_search_shows_also_what_would_not_be_offered(prowess, office):
    found = {result["slug"] for result in prowess("search", "team query days release", "--json").json}
    assert {"vacation-planner", "sql-tuner", "changelog-writer"} <= found


def test_search_without_words_lists_by_slug(prowess, office):
    slugs = [result["slug"] for result in prowess("search", "--json").json]
    assert slugs == sorted(slugs)
    assert len(slugs) == 5
    tagged = prowess("search", "--tag", "writing")
    assert "changelog-writer" in tagged.out
    assert "meeting-minutes" in tagged.out
    assert "sql-tuner" not in tagged.out
    listed = prowess("search", "--tag", "writing", "--explain", "--json").json
    assert {"slug", "digest"} <= listed[0].keys()
    assert listed[0].keys().isdisjoint({"score", "decision", "why", "evidence", "signals"})


def test_search_keeps_to_the_tags(prowess, office):
    assert [result["slug"] for result in prowess("search", "release", "--tag", "git", "--json").json] == [
        "changelog-writer"
    ]
    assert prowess("search", "release", "--tag", "finance", "--json").json == []


def test_nothing_found_is_said(prowess, office):
    ran = prowess("search", "xyzzyplugh")
    assert ran.code == 0
    assert "prowess list" in ran.out


def test_the_words_are_never_syntax(prowess, office):
    for words in ('"', "AND OR NOT", "*", "(", "a:b", "^x~2", "invoice\\", "{[("):
        assert prowess("search", words, "--json").code == 0


def test_explain_adds_the_figures(prowess, office):
    assert "signals" in prowess("search", "invoice", "--explain", "--json").json[0]
    assert "signals:" in prowess("search", "invoice", "--explain").out


@pytest.mark.parametrize("command", [["list"], ["search", "commit"], ["match", "write a commit message"]])
def test_a_tag_filter_that_leaves_nothing_says_so_and_names_the_tags_there_are(prowess, write_skill, command):
    write_skill("one", "---\nname: one\ndescription: Writes a commit message.\ntags: [git, writing]\n---\n\nDo it.\n")
    write_skill("two", "---\nname: two\ndescription: Writes notes.\ntags: [writing]\n---\n\nDo it.\n")
    invented = prowess(*command, "--tag", "astronomy")
    assert invented.code == 0
    assert "No skill has the tag 'astronomy'. Tags here: writing, git." in invented.err
    assert "Did you mean 'writing'?" in prowess(*command, "--tag", "writting").err


@pytest.mark.parametrize("command", [["list"], ["search", "commit"], ["match", "write a commit message"]])
def test_a_tag_is_the_same_in_upper_and_lower_case(prowess, write_skill, command):
    write_skill("one", "---\nname: one\ndescription: Writes a commit message.\ntags: [Git]\n---\n\nDo it.\n")
    write_skill("two", "---\nname: two\ndescription: Writes a commit message, too.\ntags: [notes]\n---\n\nDo it.\n")
    found = prowess(*command, "--tag", "GIT", "--json")
    assert [skill["slug"] for skill in found.json] == ["one"]
    assert "No skill has the tag" not in found.err


def test_skills_are_exported_by_a_tag_in_upper_or_lower_case(prowess, write_skill):
    write_skill("one", "---\nname: one\ndescription: Writes a commit message.\ntags: [Git]\n---\n\nDo it.\n")
    write_skill("two", "---\nname: two\ndescription: Writes notes about a thing.\n---\n\nDo it.\n")
    exported = prowess("export", "--tag", "git", "--to", "out", "--json").json
    assert [skill["slug"] for skill in exported] == ["one"]
