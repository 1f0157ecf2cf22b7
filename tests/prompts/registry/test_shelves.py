"""What every shelf promises, whether it is memory, folders or a database."""

from __future__ import annotations


def labels(entries):
    return sorted(entry.label for entry in entries)


def test_a_shelf_gives_the_entries_of_one_kind_and_no_others(shelf_of, prompt_document, rubric_document):
    shelf = shelf_of(prompt_document(), prompt_document(version="2.0.0"), rubric_document())
    assert labels(shelf.entries("prompt", "acme")) == ["outline@1.0.0", "outline@2.0.0"]
    assert labels(shelf.entries("rubric", "acme")) == ["style@1.0.0"]


def test_a_shelf_gives_all_versions_of_one_id(shelf_of, prompt_document):
    shelf = shelf_of(prompt_document(), prompt_document(version="2.0.0"), prompt_document("other"))
    assert labels(shelf.entries("prompt", "acme", "outline")) == ["outline@1.0.0", "outline@2.0.0"]
    assert shelf.entries("prompt", "acme", "missing") == []


def test_a_prompt_comes_back_with_all_that_its_document_says(shelf_of, prompt_document):
    schema = {"type": "object", "properties": {"topic": {"type": "string"}}}
    shelf = shelf_of(prompt_document(vars_schema=schema, output_schema={"type": "object"}, description="An outline."))
    (entry,) = shelf.entries("prompt", "acme")
    prompt = entry.value
    assert (prompt.id, prompt.version, prompt.template, prompt.syntax) == (
        *("outline", "1.0.0", "Outline {{topic}}.", "mustache"),
    )
    assert (prompt.vars_schema, prompt.output_schema, prompt.description) == (schema, {"type": "object"}, "An outline.")
    assert entry.problems == ()


def test_a_rubric_comes_back_with_all_that_its_document_says(shelf_of, rubric_document):
    criterion = rubric_document()["criteria"][0]
    criteria = [criterion, {**criterion, "id": "short", "weight": 0.5}]
    shelf = shelf_of(
        rubric_document(scoring_mode="weighted", pass_threshold=0.8, criteria=criteria, description="House.")
    )
    (entry,) = shelf.entries("rubric", "acme")
    rubric = entry.value
    assert (rubric.scoring_mode, rubric.pass_threshold, rubric.description) == ("weighted", 0.8, "House.")
    assert [(one.id, one.weight) for one in rubric.criteria] == [("clear", 1.0), ("short", 0.5)]
    assert rubric.criteria[0].pass_condition == criterion["pass_condition"]
