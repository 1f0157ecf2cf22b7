"""Registries in folders: what is read, what is left alone, and what an unchanged folder costs."""

from __future__ import annotations

import os

import pytest

from prowess.skill.limits import Limits


def codes(entry):
    return [problem.code for problem in entry.problems if problem.severity == "error"]


def by_id(shelf, kind="prompt"):
    return {entry.id: entry for entry in shelf.entries(kind, "")}


def test_files_of_every_ending_are_found_in_folders_below_too(put, folder_shelf, prompt_document):
    put("prompts/a.json", prompt_document("a"))
    put("prompts/b.yaml", "prompt_id: b\nversion: '1.0.0'\ntemplate: Hello\n")
    put("prompts/team/c@1.0.0.mustache", "{{x}}")
    put("prompts/team/deep/d@1.0.0.j2", "{{ x }}")
    assert set(by_id(folder_shelf())) == {"a", "b", "c", "d"}


def test_other_and_hidden_files_are_passed_by(put, folder_shelf):
    for path in ("prompts/README.md", "prompts/x.txt", "prompts/.hidden.json", "prompts/.git/config.json"):
        put(path, "{")
    assert folder_shelf().entries("prompt", "") == []


def test_a_missing_folder_is_an_empty_shelf(folder_shelf):
    assert folder_shelf().entries("rubric", "") == []


def test_a_link_is_an_entry_that_says_so_and_is_not_followed(put, folder_shelf, tmp_path, prompt_document):
    outside = put("secret.json", prompt_document("secret"))
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/link.json").symlink_to(outside)
    (tmp_path / "prompts/folder").symlink_to(tmp_path)
    found = by_id(folder_shelf())
    assert set(found) == {"link"}
    assert codes(found["link"]) == ["registry-unreadable"]


def test_a_registry_that_is_a_link_itself_is_not_followed(put, folder_shelf, tmp_path, prompt_document):
    put("elsewhere/a.json", prompt_document("a"))
    (tmp_path / "prompts").symlink_to(tmp_path / "elsewhere")
    (entry,) = folder_shelf().entries("prompt", "")
    assert (entry.value, codes(entry)) == (None, ["registry-unreadable"])


def test_a_pipe_is_not_waited_for(folder_shelf, tmp_path):
    (tmp_path / "prompts").mkdir()
    os.mkfifo(tmp_path / "prompts/pipe.json")
    assert codes(by_id(folder_shelf())["pipe"]) == ["registry-unreadable"]


def test_a_bad_file_does_not_keep_the_others_from_being_found(put, folder_shelf, prompt_document):
    put("prompts/a.json", prompt_document("a"))
    put("prompts/b.json", b"\xff\xfe{")
    found = by_id(folder_shelf())
    assert found["a"].value is not None
    assert codes(found["b"]) == ["json-unreadable"]


def test_a_file_with_a_name_that_is_no_text_is_told(folder_shelf, tmp_path):
    (tmp_path / "prompts").mkdir()
    with open(os.fsencode(tmp_path) + b"/prompts/\xff.json", "wb") as file:
        file.write(b'{"template": "x"}')
    (entry,) = folder_shelf().entries("prompt", "")
    entry.location.encode()
    assert codes(entry) == ["registry-id"]


def test_a_file_over_the_limit_is_not_read(put, folder_shelf):
    put("prompts/a.json", b" " * 200)
    shelf = folder_shelf(limits=Limits(file_bytes=100))
    assert codes(by_id(shelf)["a"]) == ["file-too-large"]


@pytest.mark.parametrize("limits", [Limits(files=2), Limits(skill_bytes=200)])
def test_more_than_is_read_is_told_and_what_came_before_stays(put, folder_shelf, prompt_document, limits):
    for name in "abcd":
        put(f"prompts/{name}.json", prompt_document(name))
    found = by_id(folder_shelf(limits=limits))
    assert {name for name, entry in found.items() if entry.value} == {"a", "b"}
    assert codes(found["prompts"]) == ["registry-unreadable"]


def test_of_two_files_with_one_version_the_first_counts_and_the_other_says_so(put, folder_shelf, prompt_document):
    put("prompts/a.json", prompt_document())
    put("prompts/b.json", prompt_document(template="Another."))
    first, second = folder_shelf().entries("prompt", "")
    assert first.value.template == "Outline {{topic}}."
    assert (second.value, codes(second)) == (None, ["registry-duplicate"])


def test_an_unchanged_file_is_not_read_again_and_a_changed_one_is(put, folder_shelf, prompt_document):
    put("prompts/a.json", prompt_document("a"))
    put("prompts/b.json", prompt_document("b"))
    shelf = folder_shelf()
    before = by_id(shelf)
    put("prompts/b.json", prompt_document("b", template="Quite another text."))
    after = by_id(shelf)
    assert after["a"] is before["a"]
    assert after["b"].value.template == "Quite another text."


def test_a_file_that_has_just_been_written_is_read_again_since_its_stamp_may_not_tell(
    put, folder_shelf, prompt_document
):
    put("prompts/a.json", prompt_document("a"))
    shelf = folder_shelf(clock=lambda: 0)
    assert by_id(shelf)["a"] is not by_id(shelf)["a"]


def test_a_file_that_is_removed_is_gone_and_a_new_one_is_there(put, folder_shelf, prompt_document):
    gone = put("prompts/a.json", prompt_document("a"))
    shelf = folder_shelf()
    assert set(by_id(shelf)) == {"a"}
    gone.unlink()
    put("prompts/b.json", prompt_document("b"))
    assert set(by_id(shelf)) == {"b"}
