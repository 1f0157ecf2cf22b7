"""Import, change and export skills from the command line."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from prowess.engine.matcher import open_embedder, snapshot_folder
from prowess.engine.places import Places
from prowess.match.snapshot import Snapshot
from prowess.settings import read_settings
from prowess.storage.files import freshness


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_every_form_in_a_folder_is_imported_at_once(prowess, sample):
    ran = prowess("import", "../more", "--json")
    assert ran.code == 0, ran.err
    assert {(item["slug"], item["form"]) for item in ran.json} == {
        ("sre.on-call-handover", "agentcy"),
        ("timeline-checker", "inklings"),
        ("word-count", "devai"),
        ("review-minutes", "agentlayerrules"),
    }
    assert all(item["changed"] and item["error"] is None for item in ran.json)
    slugs = [card["slug"] for card in prowess("list", "--json").json]
    assert "timeline-checker" in slugs
    assert "sre.on-call-handover" in slugs


@pytest.fixture
def many(tmp_path):
    """A folder of forty skills."""
    for number in range(40):
        folder = tmp_path / "many" / f"skill-{number}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            f"---\nname: skill-{number}\ndescription: Handles part {number}.\n---\nDo it.\n"
        )
    return tmp_path / "many"


def test_after_an_import_of_many_skills_the_next_match_finds_them_without_opening_a_database(
    prowess, workspace, many, monkeypatch
):
    now = time.time_ns
    # An hour later by the clock, so that the databases count as settled.
    monkeypatch.setattr(freshness.time, "time_ns", lambda: now() + 3_600_000_000_000)
    assert prowess("import", many).code == 0

    settings = read_settings(workspace=workspace)
    saved = Snapshot(snapshot_folder(settings)).load(open_embedder(settings))
    assert saved is not None
    assert set(saved.index.known()) == {f"skill-{number}" for number in range(40)}
    assert Places(settings).holds(saved.record)


def test_after_an_import_of_many_skills_their_vectors_are_there(prowess, workspace, many):
    assert prowess("import", many).code == 0
    checks = {check["name"]: check["detail"] for check in prowess("doctor", "--json").json["checks"]}
    assert checks["match vectors"] == "40 of 40 skills"


def test_an_import_names_the_skills_that_no_message_finds(prowess, tmp_path, workspace):
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "SKILL.md").write_text("# Plain\n\nSort the letters.\n")
    assert "1 skill has no description, so `prowess match` does not find it: plain.\n" in prowess("import", folder).out


def test_an_import_counts_the_warnings_and_names_the_command_that_lists_them(prowess, tmp_path, workspace):
    folder = tmp_path / "my skills"
    for name in ("good", "odd"):
        (folder / name).mkdir(parents=True)
    (folder / "good" / "SKILL.md").write_text("---\nname: good\ndescription: Files letters.\n---\nFile them.\n")
    (folder / "odd" / "SKILL.md").write_text("---\ndescription: Note: sorts letters.\n---\nSort them.\n")

    ran = prowess("import", folder)
    assert ran.code == 0
    assert "✓ good  imported (agentskills)\n" in ran.out
    assert "✓ odd  imported (agentskills), 2 warnings\n" in ran.out
    listing = f"prowess validate '{folder}'"
    assert f"2 warnings about 1 skill. To list them, run: {listing}\n" in ran.out
    assert prowess(*shlex.split(listing)[1:]).out.count("warning:") == 2

    found = {
        item["slug"]: [problem["code"] for problem in item["problems"]]
        for item in prowess("import", folder, "--json").json
    }
    assert found == {"good": [], "odd": ["name-missing", "unquoted-colon"]}


def test_importing_twice_changes_nothing(prowess, sample):
    prowess("import", "../more")
    again = prowess("import", "../more", "--json")
    assert again.code == 0
    assert not any(item["changed"] for item in again.json)
    assert len(prowess("history", "word-count", "--json").json) == 1


def test_a_skill_with_a_pattern_that_re2_refuses_is_not_kept(prowess, sample, tmp_path):
    package = json.loads((sample.parent / "more/timeline-checker.json").read_text())
    file = tmp_path / "sly.json"
    file.write_text(json.dumps(package | {"intent_patterns": [r"(check) the \1"]}))
    ran = prowess("import", file, "--json")
    assert ran.code == 3
    assert "is not valid RE2" in ran.out + ran.err
    assert "timeline-checker" not in [card["slug"] for card in prowess("list", "--json").json]

    file.write_text(json.dumps(package | {"intent_patterns": ["(check+)+ the (.*)*x$"]}))
    assert prowess("import", file).code == 0
    assert "timeline-checker" in [card["slug"] for card in prowess("list", "--json").json]


@pytest.mark.parametrize("slug", ["timeline-checker", "word-count", "sre.on-call-handover", "review-minutes"])
def test_what_was_imported_comes_out_byte_for_byte(prowess, sample, tmp_path, slug):
    prowess("import", "../more")
    done = prowess("export", slug, "--to", tmp_path / "out", "--json").json
    written = Path(done["path"])
    exported = files_below(written) if written.is_dir() else {written.name: written.read_bytes()}
    source = sample.parent / "more"
    originals = {**files_below(source), **files_below(source / "word-count"), **files_below(source / "review-minutes")}
    assert exported
    assert all(originals[path] == content for path, content in exported.items())


def test_a_package_goes_through_the_native_form_and_back_without_loss(prowess, sample, tmp_path):
    prowess("import", "../more/timeline-checker.json")
    prowess("export", "timeline-checker", "--form", "native", "--to", tmp_path / "native")
    assert (tmp_path / "native/timeline-checker/SKILL.md").exists()
    other = tmp_path / "other"
    other.mkdir()
    prowess("-w", other, "import", tmp_path / "native")
    done = prowess("-w", other, "export", "timeline-checker", "--form", "inklings", "--to", tmp_path / "back", "--json")
    assert done.code == 0, done.err
    assert done.json["left_out"] == []
    before = json.loads((sample.parent / "more/timeline-checker.json").read_text())
    assert json.loads(Path(done.json["path"]).read_text()) == before


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "profile", ["agentskills", "claude-api", "claude-code", "codex", "mcp", "bernstein", "prowess"]
)
def test_every_sample_can_be_exported_to_every_profile(prowess, sample, tmp_path, profile):
    prowess("import", "../more")
    for card in prowess("list", "--json").json:
        done = prowess("export", card["slug"], "--profile", profile, "--to", tmp_path / "out", "--json")
        assert done.code == 0, done.err
    checked = prowess("validate", tmp_path / "out", "--profile", profile, "--json")
    assert checked.code == 0, checked.out
    assert len(checked.lines) == 7


def test_what_a_profile_has_no_place_for_is_reported(prowess, sample, tmp_path):
    done = prowess("export", "commit-messages", "--profile", "agentskills", "--to", tmp_path / "out", "--json").json
    assert any("argument-hint" in problem["message"] for problem in done["left_out"])


@pytest.mark.parametrize(("form", "suffix"), [("skill", ".skill"), ("zip", ".zip"), ("tar.gz", ".tar.gz")])
def test_a_skill_travels_as_an_archive(prowess, sample, tmp_path, form, suffix):
    done = prowess("export", "release-notes", "--form", form, "--to", tmp_path / "out", "--json").json
    assert done["path"].endswith("release-notes" + suffix)
    other = tmp_path / "other"
    other.mkdir()
    assert prowess("-w", other, "import", done["path"]).code == 0
    digest = {card["slug"]: card["digest"] for card in prowess("list", "--json").json}["release-notes"]
    assert prowess("-w", other, "list", "--json").json[0]["digest"] == digest


def test_export_never_overwrites_unasked(prowess, sample, tmp_path):
    assert prowess("export", "release-notes", "--to", tmp_path / "out").code == 0
    (tmp_path / "out/release-notes/mine.txt").write_text("mine")
    ran = prowess("export", "release-notes", "--to", tmp_path / "out")
    assert ran.code == 6
    assert "--replace" in ran.err
    assert (tmp_path / "out/release-notes/mine.txt").read_text() == "mine"
    assert prowess("export", "release-notes", "--to", tmp_path / "out", "--replace").code == 0
    assert not (tmp_path / "out/release-notes/mine.txt").exists()


def test_a_changed_skill_needs_replace_and_keeps_its_history(prowess, sample):
    prowess("import", "../more/word-count")
    manifest = sample.parent / "more/word-count/skill.json"
    manifest.write_text(manifest.read_text().replace("Counts the words", "Tells how many words there are"))
    refused = prowess("import", "../more/word-count")
    assert refused.code == 6
    assert "--on-conflict replace" in refused.out
    assert prowess("import", "../more/word-count", "--replace").code == 0
    assert [version["change"] for version in prowess("history", "word-count", "--json").json] == ["create", "update"]
    [change] = prowess("diff", "word-count", "--json").json["changes"]
    assert change["path"] == "skill.json"
    assert "+" in change["text"]
    assert "Tells how many words" in prowess("diff", "word-count", "1", "2").out
    assert prowess("rollback", "word-count", "1", "--note", "better before").code == 0
    versions = prowess("history", "word-count", "--json").json
    assert [version["number"] for version in versions] == [1, 2, 3]
    assert versions[2]["digest"] == versions[0]["digest"]
    assert versions[2]["note"] == "better before"
    assert prowess("diff", "word-count", "1", "--json").json["changes"] == []


def test_a_deleted_skill_is_gone_and_can_be_brought_back(prowess, sample):
    prowess("import", "../more/word-count")
    gone = prowess("delete", "word-count", "--note", "not needed")
    assert gone.code == 0
    assert "prowess rollback word-count 2" in gone.out
    assert prowess("show", "word-count").code == 4
    assert [version["change"] for version in prowess("history", "word-count", "--json").json] == ["create", "delete"]
    assert prowess("rollback", "word-count", "2").code == 0
    assert prowess("show", "word-count", "--json").json["form"] == "devai"


def test_a_deleted_skill_that_hid_another_can_be_brought_back(prowess, sample):
    prowess("import", "../more/word-count", "--scope", "account")
    prowess("import", "../more/word-count")
    gone = prowess("delete", "word-count")
    assert "prowess rollback workspace:word-count 2" in gone.out
    assert prowess("rollback", "workspace:word-count", "2").code == 0
    assert prowess("show", "word-count", "--json").json["scope"] == "workspace"


def test_the_last_skill_of_a_plain_folder_can_be_brought_back(prowess, workspace):
    skill = workspace / "skills/greet/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: greet\ndescription: Says hello.\n---\n\nSay hello.\n")
    assert "prowess rollback greet 2" in prowess("delete", "greet").out
    assert not skill.exists()

    assert "prowess rollback greet 2" in prowess("show", "greet").err
    assert [version["change"] for version in prowess("history", "greet", "--json").json] == ["create", "delete"]
    assert prowess("rollback", "greet", "2").code == 0
    assert skill.read_text().endswith("Say hello.\n")


def test_a_deleted_skill_folder_can_be_brought_back_too(prowess, sample):
    folder = sample / ".agents/skills/release-notes"
    before = files_below(folder)
    number = prowess("delete", "release-notes", "--json").json["version"]
    assert not folder.exists()
    assert prowess("rollback", "release-notes", str(number)).code == 0
    assert files_below(folder) == before


def test_rollback_restores_the_newest_version_with_other_files_unless_one_is_named(prowess, workspace, write_skill):
    folder = write_skill("greet", "---\nname: greet\ndescription: Greets.\n---\nHello.\n")
    prowess("import", folder, "--as", "hello")
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: Greets.\n---\nGood day.\n")
    prowess("import", folder, "--as", "hello", "--replace")
    assert "Restored version 1 of hello." in prowess("rollback", "hello").out
    assert "Hello." in prowess("show", "hello").out
    prowess("delete", "hello")
    assert prowess("rollback", "hello").code == 0
    assert "Hello." in prowess("show", "hello").out
    write_skill("one")
    prowess("import", workspace / ".agents/skills/one", "--as", "single")
    assert "has no version with other files" in prowess("rollback", "single").err


def test_rollback_to_a_version_that_never_was_is_not_found(prowess, sample):
    prowess("import", "../more/word-count")
    ran = prowess("rollback", "word-count", "9")
    assert ran.code == 4
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("command", [("import", "exported"), ("add", "./exported", "--list"), ("validate", "exported")])
def test_a_folder_with_nothing_but_archives_says_to_pass_the_path_of_one(prowess, write_skill, workspace, command):
    write_skill("tea")
    assert prowess("export", "tea", "--to", "exported", "--form", "zip").code == 0
    missed = prowess(*command)
    assert (missed.code, "exported/tea.zip" in missed.err) == (4, True)


def test_a_bad_archive_is_refused_by_the_name_of_its_entry_and_nothing_is_kept(prowess, workspace):
    with zipfile.ZipFile("evil.skill", "w") as archive:
        archive.writestr("good/SKILL.md", "---\nname: good\ndescription: fine so far\n---\n")
        archive.writestr("good/../../outside.md", "out")
    ran = prowess("import", "evil.skill")
    assert ran.code == 3
    assert "outside.md" in ran.out + ran.err
    assert prowess("list", "--json").json == []
    assert not (workspace.parent / "outside.md").exists()


def test_links_and_special_files_are_refused_by_name(prowess, workspace, tmp_path):
    for name, make in {"link": lambda p: p.symlink_to("/etc/passwd"), "pipe": os.mkfifo}.items():
        folder = tmp_path / f"with-{name}"
        folder.mkdir()
        (folder / "SKILL.md").write_text(f"---\nname: with-{name}\ndescription: has a {name} in it\n---\n")
        make(folder / name)
        ran = prowess("import", folder)
        assert ran.code == 3
        assert name in ran.out
    with tarfile.open("links.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("skill/hard")
        entry.type, entry.linkname = tarfile.LNKTYPE, "/etc/passwd"
        archive.addfile(entry)
    assert "hard" in prowess("import", "links.tar.gz").out
    assert prowess("list", "--json").json == []


def test_one_bad_skill_does_not_stop_the_others(prowess, sample):
    bad = sample.parent / "more" / "broken.json"
    bad.write_text(
        '{"name": "Broken", "description": "x", "artifacts": [{"kind": "dspy_module", "name": "m", "content": "{}"}]}'
    )
    ran = prowess("import", "../more", "--json")
    assert ran.code == 3
    kept = [item["slug"] for item in ran.json if item["error"] is None]
    assert len(kept) == 4
    [error] = [item["error"] for item in ran.json if item["error"]]
    assert any(problem["code"] == "dspy-without-fallback" for problem in error["problems"])


def test_importing_what_is_not_there_says_so(prowess, workspace):
    ran = prowess("import", "nowhere")
    assert ran.code == 4
    (workspace / "empty").mkdir()
    assert prowess("import", "empty").code == 4


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        (".mcp.json", "Run `prowess connector import FILE`."),
        ("mcp.json", "Run `prowess connector import FILE`."),
        ("promptfooconfig.yaml", "run `prowess eval run SKILL`"),
        ("style.mdc", "a file whose name ends with .md, .json, .yaml or .yml."),
        ("prompts", "To import a Markdown file as a skill, pass the path of the file."),
    ],
)
def test_an_import_of_other_files_of_an_agent_says_what_takes_them(prowess, workspace, name, advice):
    path = workspace / name
    if name == "prompts":
        path.mkdir()
        (path / "summarize.md").write_text("Summarize the text.")
    else:
        path.write_text("{}")
    ran = prowess("import", path)
    assert ran.code != 0
    assert advice in ran.out + ran.err


def test_an_import_that_ends_with_an_error_says_how_many_skills_it_saved(prowess, sample):
    ran = prowess("import", "../more/word-count", "../nowhere")
    assert ran.code == 4
    assert ran.err.startswith(
        "1 skill imported. To import the others, run the same command again.\nError: '../nowhere'"
    )
    assert "imported" not in prowess("import", "../more/word-count", "../nowhere").err


def test_a_skill_folder_edited_by_hand_can_be_rolled_back_without_losing_the_edit(prowess, workspace, write_skill):
    folder = write_skill("greet")
    original = (folder / "SKILL.md").read_text()
    assert prowess("rollback", "greet", "1").code == 4
    prowess("history", "greet")
    ran = prowess("doctor")
    assert ran.code == 0, ran.out
    assert (folder / "SKILL.md").read_text() == original


def test_an_export_is_called_as_the_skill_is(prowess, workspace, tmp_path):
    for name in ("alpha", "beta"):
        folder = tmp_path / name / "tool"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: The tool {name}.\n---\n")
        prowess("import", folder)
    for name in ("alpha", "beta"):
        assert Path(prowess("export", name, "--to", "out", "--json").json["path"]).name == name
    assert sorted(path.name for path in Path("out").iterdir()) == ["alpha", "beta"]


def test_a_devai_skill_is_a_folder_whatever_it_came_from(prowess, sample, tmp_path):
    done = prowess("export", "commit-messages", "--form", "devai", "--to", tmp_path / "out", "--json").json
    assert Path(done["path"]) == tmp_path / "out" / "commit-messages"
    assert (tmp_path / "out/commit-messages/skill.json").exists()


def test_replace_never_removes_a_folder_that_is_no_skill(prowess, sample, tmp_path):
    mine = tmp_path / "out/release-notes/mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    ran = prowess("export", "release-notes", "--to", tmp_path / "out", "--replace")
    assert ran.code == 5
    assert mine.read_text() == "mine"


def test_linked_skill_folders_are_imported_from_where_they_are(prowess, workspace, write_skill, tmp_path):
    write_skill("greet")
    linked = workspace / ".claude" / "skills"
    linked.mkdir(parents=True)
    (linked / "greet").symlink_to("../../.agents/skills/greet")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "SKILL.md").write_text("---\nname: outside\ndescription: Lies elsewhere.\n---\n")
    (linked / "outside").symlink_to(outside)
    lines = prowess("validate", ".claude/skills", "--json").lines
    assert [(Path(line["path"]).name, line["ok"]) for line in lines] == [("greet", True), ("outside", False)]
    assert [line["slug"] for line in prowess("validate", ".agents", "--json").lines] == ["greet"]
    ran = prowess("import", ".claude/skills", "--prefix", "mine", "--json")
    assert [item["slug"] for item in ran.json] == ["mine.greet", None]
    assert "points out" in ran.json[1]["error"]["message"]


def test_a_skill_that_ships_with_prowess_is_forked_in_one_step(prowess, workspace, monkeypatch):
    monkeypatch.setenv("PROWESS_SYSTEM_SKILLS", "on")
    made = prowess("fork", "qa")
    assert made.code == 0
    assert made.out.startswith("Copied qa to the workspace. It overrides system:qa (sha256:")
    assert "Fork of system:qa" in prowess("history", "qa").out
    assert prowess("fork", "backend", "--json").json["overrides"][0]["scope"] == "system"
    assert prowess("fork", "qa").code == 6
    assert "Did you mean 'backend'?" in prowess("fork", "backnd").err


@pytest.fixture
def twins(tmp_path):
    """Two folders, each with two skills of the same names but other content."""
    for place in ("one", "two"):
        for name in ("pdf", "xls"):
            folder = tmp_path / place / name
            folder.mkdir(parents=True)
            (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: From {place}.\n---\nDo it.\n")
    return tmp_path


def slugs(prowess):
    return [card["slug"] for card in prowess("list", "--json").json]


def test_conflicts_are_counted_and_listed_on_request(prowess, workspace, twins):
    prowess("import", twins / "one")
    ran = prowess("import", twins / "two")
    assert ran.code == 6
    assert "0 imported into the workspace scope, 2 not imported." in ran.out
    assert "2 skills have slugs that are already taken. --show-conflicts lists them." in ran.out
    assert "two/pdf" not in ran.out
    assert "two/pdf" in prowess("import", twins / "two", "--show-conflicts").out


def test_conflicts_are_skipped_renamed_or_replaced(prowess, workspace, twins):
    prowess("import", twins / "one")
    skipped = prowess("import", twins / "two", "--on-conflict", "skip")
    assert (skipped.code, "2 skipped" in skipped.out, slugs(prowess)) == (0, True, ["pdf", "xls"])
    assert prowess("import", twins / "two", "--on-conflict", "rename").code == 0
    assert slugs(prowess) == ["pdf", "pdf-2", "xls", "xls-2"]
    again = prowess("import", twins / "two", "--on-conflict", "rename", "--json").json
    assert [(one["slug"], one["changed"]) for one in again] == [("pdf-2", False), ("xls-2", False)]
    assert prowess("import", twins / "two", "--on-conflict", "replace").code == 0
    assert prowess("show", "pdf", "--json").json["description"] == "From two."


def test_a_prefix_or_another_slug_avoids_conflicts(prowess, workspace, twins):
    prowess("import", twins / "one")
    assert prowess("import", twins / "two", "--prefix", "acme").code == 0
    assert prowess("import", twins / "two" / "pdf", "--as", "pdf-two").code == 0
    assert slugs(prowess) == ["acme.pdf", "acme.xls", "pdf", "pdf-two", "xls"]
    assert prowess("import", twins / "two", "--as", "both").code == 3
    assert prowess("import", twins / "two", "--prefix", "Not A Slug").code == 3
    assert prowess("import", twins / "two", "--prefix", "a", "--as", "b").code == 2


@pytest.mark.parametrize("address", ["https://github.com/acme/skills", "acme/skills", "git@github.com:acme/skills.git"])
def test_an_address_is_answered_with_the_command_that_installs(prowess, workspace, address):
    ran = prowess("import", address)
    assert ran.code == 3
    assert f"prowess add {address}" in ran.err


def test_several_skills_are_exported_at_once(prowess, sample, tmp_path):
    assert prowess("export", "commit-messages", "release-notes", "--to", tmp_path / "two").code == 0
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["commit-messages", "release-notes"]
    every = prowess("export", "--all", "--to", tmp_path / "all", "--json").json
    assert sorted(Path(one["path"]).name for one in every) == [
        "commit-messages",
        "consistency-checker",
        "release-notes",
    ]
    tagged = prowess("export", "--tag", "analysis", "--to", tmp_path / "tagged", "--json").json
    assert [one["slug"] for one in tagged] == ["consistency-checker"]
    assert prowess("export", "--to", tmp_path / "none").code == 2
    assert prowess("export", "--tag", "nothing", "--to", tmp_path / "none").code == 4
    some = prowess("export", "commit-messages", "nowhere", "--to", tmp_path / "some")
    assert (some.code, "nowhere" in some.err, (tmp_path / "some/commit-messages").is_dir()) == (4, True, True)


@pytest.mark.parametrize("form", [(), ("--form", "zip"), ("--profile", "agentskills")])
def test_skills_of_one_name_do_not_overwrite_each_other_in_an_export(prowess, workspace, tmp_path, form):
    for slug in ("acme.report", "beta.report", "report", "acme.plan"):
        folder = workspace / ".agents/skills" / slug
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            f"---\nslug: {slug}\nname: {slug}\ndescription: The skill {slug}.\n---\n{slug}\n"
        )
    done = prowess("export", "--all", "--to", tmp_path / "out", "--replace", *form, "--json").json
    suffix = ".zip" if "zip" in form else ""
    assert {one["slug"]: str(Path(one["path"]).relative_to(tmp_path / "out")) for one in done} == {
        "acme.plan": f"plan{suffix}",
        "acme.report": f"acme.report/report{suffix}",
        "beta.report": f"beta.report/report{suffix}",
        "report": f"report/report{suffix}",
    }


def test_an_archive_is_written_to_exactly_the_file_that_was_named(prowess, sample, tmp_path):
    target = tmp_path / "out/notes.zip"
    assert prowess("export", "release-notes", "--to", target).code == 0
    assert zipfile.is_zipfile(target)
    assert prowess("export", "release-notes", "--form", "zip", "--to", target).code == 6
    assert prowess("export", "release-notes", "commit-messages", "--form", "zip", "--to", target).code == 2
    assert prowess("export", "release-notes", "--profile", "codex", "--to", tmp_path / "codex.zip").code == 2
    assert prowess("export", "release-notes", "--to", tmp_path / "notes.tgz").code == 0
    assert prowess("import", tmp_path / "notes.tgz", "--as", "notes").code == 0
    (tmp_path / "folder.zip").mkdir()
    assert prowess("export", "release-notes", "--to", tmp_path / "folder.zip").code == 0
    assert (tmp_path / "folder.zip/release-notes/SKILL.md").is_file()


def test_a_form_that_is_a_folder_is_not_written_into_a_folder_with_the_name_of_an_archive(prowess, sample, tmp_path):
    ran = prowess("export", "release-notes", "--form", "inklings", "--to", tmp_path / "notes.zip")
    assert (ran.code, (tmp_path / "notes.zip").exists()) == (2, False)
    assert "--form writes a folder" in ran.err


def test_an_imported_skill_that_is_not_served_is_reported(prowess, workspace, write_skill, tmp_path):
    write_skill("notes")
    assert prowess("export", "notes", "--to", tmp_path / "out").code == 0
    assert prowess("import", tmp_path / "out/notes").err == ""
    (tmp_path / "out/notes/SKILL.md").write_text("---\nname: notes\ndescription: Other notes.\n---\nWrite.\n")
    ran = prowess("import", tmp_path / "out/notes", "--replace")
    assert ran.code == 0
    assert "The slug 'notes' is used by " in ran.err
    assert "the first one is available" in ran.err


def test_several_skills_are_deleted_at_once_after_confirmation(prowess, workspace, write_skill, terminal):
    for name in ("one", "two", "three"):
        write_skill(name)
    assert prowess("delete", "one", "two").code == 0
    assert slugs(prowess) == ["three"]
    refused = prowess("delete", "--all")
    assert (refused.code, "--yes" in refused.err, slugs(prowess)) == (5, True, ["three"])
    assert terminal("delete", "--all", answers=["n\n"]).code == 130
    assert slugs(prowess) == ["three"]
    assert prowess("delete", "--all", "--yes").code == 0
    assert slugs(prowess) == []
    assert prowess("delete", "--all", "--yes").code == 4


@pytest.mark.parametrize("path", [".", ".agents/skills/invoice-reader"])
def test_a_skill_that_is_used_from_its_folder_is_not_imported_again(prowess, office, monkeypatch, path):
    monkeypatch.chdir(office)
    ran = prowess("import", path)
    assert (ran.code, ran.err) == (0, "")
    assert "already read from" in ran.out
    assert "nothing to import" in ran.out
    assert prowess("delete", "invoice-reader", "--stored").code == 4
    assert prowess("import", ".agents/skills/invoice-reader", "--as", "copy").code == 0
    assert prowess("show", "copy").code == 0


def test_a_copy_that_conflicts_with_a_folder_is_deleted_alone(prowess, office, tmp_path):
    folder = office / ".agents/skills/invoice-reader"
    shutil.copytree(folder, tmp_path / "invoice-reader")
    (tmp_path / "invoice-reader/more.md").write_text("More.")
    assert prowess("import", str(tmp_path / "invoice-reader")).code == 0
    assert "`prowess delete invoice-reader --stored`" in prowess("doctor").out

    assert prowess("delete", "invoice-reader", "--stored").out == "Deleted the stored copy of invoice-reader.\n"
    assert "--stored" not in prowess("doctor").out
    assert (folder / "SKILL.md").exists()
    assert prowess("delete", "--all", "--stored").code == 2


def test_what_an_export_changes_is_reported_with_its_file_and_line(prowess, write_skill, tmp_path):
    write_skill("notes", "---\nname: notes\ndescription: Takes notes.\ncolor: blue\n---\n\nTake notes.\n")
    exported = prowess("export", "notes", "--profile", "agentskills", "--to", tmp_path / "out")
    assert "    warning: SKILL.md:4: 'color' was moved to agents/prowess.yaml" in exported.out


def test_a_skill_package_has_no_tests_and_a_zip_has_them(prowess, write_skill, tmp_path):
    write_skill("notes", evals__triggers="[]", references__evals="Keep me.")
    packed = prowess("export", "notes", "--form", "skill", "--to", tmp_path)
    assert "info: evals/ (1 file) was left out: a .skill package has no tests." in packed.out
    assert prowess("export", "notes", "--form", "zip", "--to", tmp_path).out.count("\n") == 1
    names = [set(zipfile.ZipFile(tmp_path / f"notes.{suffix}").namelist()) for suffix in ("skill", "zip")]
    assert names[1] - names[0] == {"notes/evals/triggers"}
