"""Errors of the command line: a clear message, an exit code, and no lost data."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROWESS = Path(sys.executable).parent / "prowess"


@pytest.mark.few(1)
@pytest.mark.parametrize("harm", ["garbage", "newer", "server", "nonsense"])
def test_a_database_that_does_not_answer_hides_no_folder(prowess, workspace, write_skill, monkeypatch, harm):
    write_skill("greet")
    database = workspace / ".prowess" / "agents.db"
    if harm in ("garbage", "newer"):
        prowess("import", ".agents/skills/greet", "--as", "copy")
    if harm == "garbage":
        database.write_bytes(b"this is no database" * 100)
    elif harm == "newer":
        import sqlite3

        with sqlite3.connect(database) as connection:
            connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.close()
    else:
        url = "postgresql://me:hunter2@127.0.0.1:1/none" if harm == "server" else "nonsense"
        monkeypatch.setenv("PROWESS_DATABASE_URL", url)
    listed = prowess("list", "--json")
    assert [card["slug"] for card in listed.json] == ["greet"]
    assert " are unavailable: " in listed.err
    assert prowess("show", "greet").code == 0
    doctor = prowess("doctor")
    assert doctor.code == 1
    assert "1 skill available" in doctor.out
    assert "hunter2" not in doctor.out + listed.err


@pytest.mark.parametrize(
    ("harm", "command", "column"),
    [
        ("UPDATE audit SET at = x'ff'", ("audit",), "audit.at"),
        ("UPDATE sessions SET budget_max = 'many'", ("sessions",), "sessions.budget_max"),
        ("UPDATE sessions SET model = x'ff'", ("sessions", "--json"), "sessions.model"),
    ],
)
def test_a_value_that_another_program_wrote_into_the_database_is_named(
    prowess, workspace, write_skill, home, harm, command, column
):
    import sqlite3

    write_skill("greet")
    prowess("enable", "greet")
    assert "values in the database" not in prowess("doctor").out
    with sqlite3.connect(home / ".prowess/agents.db") as connection:
        assert connection.execute(harm).rowcount
    connection.close()
    ran = prowess(*command)
    assert ran.code == 7
    assert f"written by another program: {column} (" in ran.err
    assert column in prowess("doctor").out


@pytest.mark.parametrize("data", ["null", "[1]", "{}"])
def test_an_event_without_its_data_is_named(prowess, write_skill, home, data):
    import sqlite3

    write_skill("greet")
    prowess("enable", "greet")
    with sqlite3.connect(home / ".prowess/agents.db") as connection:
        assert connection.execute("UPDATE events SET data = ?", (data,)).rowcount
    connection.close()
    ran = prowess("events")
    assert (ran.code, ran.err.splitlines()[0]) == (
        7,
        "Error: The data of the event 1 in the database was changed by another program and cannot be read.",
    )


@pytest.mark.parametrize("target", [(), (".agents/skills",)])
def test_a_database_that_cannot_be_read_is_not_a_workspace_without_skills_to_accept(
    prowess, workspace, write_skill, monkeypatch, target
):
    monkeypatch.delenv("PROWESS_TRUSTED_FOLDERS")
    write_skill("greet")
    prowess("import", ".agents/skills/greet", "--as", "copy")
    assert prowess("trust", "show", *target, "--json").json["skills"]
    (workspace / ".prowess/agents.db").write_bytes(b"this is no database" * 100)
    ran = prowess("trust", "show", *target)
    assert ran.code == 7
    assert " is not a database file" in ran.err


def test_a_moved_workspace_keeps_its_history(prowess, workspace, write_skill, monkeypatch):
    write_skill("greet")
    prowess("delete", "greet")
    assert prowess("rollback", "greet", "1").code == 0
    before = prowess("history", "greet", "--json").json
    identity = prowess("show", "greet", "--json").json["id"]
    moved = workspace.with_name("moved")
    workspace.rename(moved)
    monkeypatch.chdir(moved)
    assert prowess("history", "greet", "--json").json == before
    assert prowess("show", "greet", "--json").json["id"] == identity


def test_a_live_folder_stays_live_after_it_was_imported(prowess, workspace, write_skill):
    write_skill("greet")
    prowess("import", ".agents/skills/greet", "--scope", "account")
    write_skill("greet", "---\nname: greet\ndescription: Edited after the import.\n---\nHi.\n")
    [card] = prowess("list", "--json").json
    assert card["description"] == "Edited after the import."


def test_two_claims_on_a_slug_are_told_by_their_folders(prowess, workspace, write_skill):
    folder = write_skill("greet")
    other = workspace / ".claude" / "skills" / "greet"
    shutil.copytree(folder, other)
    assert prowess("doctor").out.endswith("No problems found.\n")
    (other / "SKILL.md").write_text("---\nname: greet\ndescription: Another one.\n---\n")
    doctor = prowess("doctor")
    assert doctor.code == 0
    assert str(other) in doctor.out
    assert "slug-conflict" in doctor.out
    assert "All is well" not in doctor.out


def test_a_skill_that_is_linked_into_another_agents_folder_is_one_skill(prowess, workspace, write_skill):
    write_skill("greet")
    (workspace / ".claude/skills").mkdir(parents=True)
    (workspace / ".claude/skills/greet").symlink_to("../../.agents/skills/greet")
    assert len(prowess("list", "--json").json) == 1
    assert prowess("doctor").out.endswith("No problems found.\n")


def test_links_in_a_circle_hide_no_skill(prowess, workspace, write_skill):
    write_skill("greet")
    (workspace / ".agents/skills/circle").symlink_to("circle")
    assert [skill["slug"] for skill in prowess("list", "--json").json] == ["greet"]
    assert [skill["name"] for skill in prowess("add", ".", "--list", "--json").json["skills"]] == ["greet"]
    assert "circle" in prowess("doctor").out


def test_the_folder_of_a_user_who_does_not_exist_is_taken_as_written(prowess, workspace):
    assert "'~nobody-of-that-name' is not a folder" in prowess("--workspace", "~nobody-of-that-name", "list").err
    assert prowess("new", "greet", "--to", "~nobody-of-that-name").code == 0
    assert (workspace / "~nobody-of-that-name/greet/SKILL.md").is_file()


@pytest.mark.parametrize("line", [["import"], ["validate"], ["trust"], ["eval", "run"], ["export", "greet", "--to"]])
def test_a_path_from_a_variable_without_a_value_is_not_the_current_folder(prowess, workspace, write_skill, line):
    write_skill("greet")
    ran = prowess(*line, "")
    assert ran.code == 2
    assert "It is empty" in ran.err


def test_a_current_folder_that_was_deleted_is_named(tmp_path):
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" list'
    ran = subprocess.run(["sh", "-c", script, PROWESS], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, "The current folder no longer exists." in ran.stderr) == (3, True)


def test_one_wrong_path_among_several_hides_no_verdict(prowess, workspace, write_skill):
    folder = write_skill("greet")
    ran = prowess("validate", folder, "nowhere", folder, "--json")
    assert ran.code == 3
    assert [line["ok"] for line in ran.lines] == [True, False, True]
    assert ran.lines[1]["problems"][0]["code"] == "unreadable"


def test_the_skills_of_one_archive_are_told_apart(prowess, workspace):
    with zipfile.ZipFile("two.zip", "w") as archive:
        for name in ("one", "two"):
            archive.writestr(f"{name}/SKILL.md", f"---\nname: {name}\ndescription: This is {name}.\n---\n")
    paths = [line["path"] for line in prowess("validate", "two.zip", "--json").lines]
    assert paths == ["two.zip/one", "two.zip/two"]


@pytest.mark.parametrize("target", ["/proc/nowhere", "/dev/null/x"])
def test_a_place_that_cannot_be_written_is_named(prowess, sample, target):
    ran = prowess("export", "release-notes", "--to", target)
    assert ran.code in (3, 7)
    assert target.split("/")[1] in ran.err
    assert "Internal error" not in ran.err


def test_a_name_that_is_no_text_is_still_valid_json(prowess, workspace):
    folder = os.fsencode(workspace) + b"/inv\xff"
    os.mkdir(folder)
    with open(folder + b"/SKILL.md", "w") as file:
        file.write("---\nname: x\ndescription: A folder whose name is no text.\n---\n")
    ran = subprocess.run([PROWESS, "validate", ".", "--json"], capture_output=True, check=False)
    assert json.loads(ran.stdout.decode("utf-8"))["slug"] == "x"


def test_a_line_end_in_a_name_cannot_forge_a_line(prowess, workspace):
    folder = workspace / "new\nline"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: x\ndescription: A folder with a line end in its name.\n---\n")
    assert r"new\nline" in prowess("validate", ".").out.splitlines()[0]


def test_many_problems_of_one_kind_are_counted_not_listed(prowess, workspace, write_skill):
    keys = "\n".join(f"key{number}: x" for number in range(40))
    write_skill("odd", f"---\nname: odd\ndescription: Has many keys.\n{keys}\n---\n")
    out = prowess("validate", ".").out
    assert out.count("[unknown-field]") == 11
    assert "and 30 more" in out


def test_a_workspace_database_behind_a_link_is_not_written(prowess, workspace, sample, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (sample / ".prowess").symlink_to(outside)
    ran = prowess("import", "../more")
    assert ran.code == 5
    assert list(outside.iterdir()) == []
    assert prowess("list").code == 0


def test_importing_nothing_leaves_nothing(prowess, workspace):
    prowess("import", ".")
    assert list(workspace.iterdir()) == []


def test_an_unknown_scope_is_a_usage_error(prowess, workspace):
    assert prowess("list", "--scope", "nowhere").code == 2


def test_a_diff_ends_where_the_file_ends(prowess, sample):
    prowess("import", "../more/word-count")
    [added] = [change for change in prowess("diff", "word-count", "--json").json["changes"] if "json" in change["path"]]
    lines = (sample.parent / "more/word-count/skill.json").read_text().count("\n")
    assert f"@@ -0,0 +1,{lines} @@" in added["text"]
    assert "No newline" not in added["text"]


@pytest.mark.long
def test_ctrl_c_stops_an_import_and_keeps_what_was_kept(workspace, tmp_path, home, monkeypatch):
    monkeypatch.setenv("PROWESS_EMBEDDER", "none")
    source = tmp_path / "source"
    for number in range(500):
        folder = source / f"skill-{number}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            f"---\nname: skill-{number}\ndescription: Number {number}.\n---\n{'x ' * 2000}\n"
        )
    database = workspace / ".prowess" / "agents.db"
    running = subprocess.Popen([PROWESS, "import", source], stderr=subprocess.PIPE, text=True)
    while running.poll() is None and not (database.exists() and database.stat().st_size):
        os.sched_yield()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Stopped" in err
    listed = subprocess.run([PROWESS, "list", "--json"], capture_output=True, check=True)
    assert len(json.loads(listed.stdout)) < 500
    again = subprocess.run([PROWESS, "import", source, "--json"], capture_output=True, check=True)
    assert len(json.loads(again.stdout)) == 500


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("rollback", "x", "first"), "'first' is not a whole number."),
        (("run", "x", "--timeout", "soon"), "'soon' is not a number."),
        (("traces", "list", "--limit", "0"), "0 is out of range. Use 1 to 10000."),
        (("eval", "run", "x", "--timeout", "0"), "0.0 is out of range. Use more than 0, at most 3600."),
        (("rollback", "x", "0"), "0 is out of range. Use 1 or more."),
        (("run", "x", "--timeout", "-1"), "-1.0 is out of range. Use more than 0."),
        (("disable", "x"), "No skill is enabled in 'default'."),
    ],
)
def test_a_wrong_value_is_named_in_plain_words(prowess, workspace, command, told):
    assert told in prowess(*command).err


@pytest.mark.parametrize(
    ("line", "listing"),
    [
        ("show", "prowess list"),
        ("env allow", "prowess list"),
        ("jobs cancel", "prowess jobs list"),
        ("pages show", "prowess pages list"),
        ("eval resume", "prowess eval list"),
        ("approvals approve", "prowess approvals"),
    ],
)
def test_a_missing_name_is_answered_with_the_command_that_lists_them(prowess, workspace, line, listing):
    ran = prowess(*line.split())
    assert ran.code == 2
    assert f"`{listing}` lists them." in ran.err
    assert prowess(*listing.split()[1:]).code == 0
    assert "lists them" not in prowess("new").err


@pytest.mark.parametrize(
    ("requirement", "command"),
    [
        ('extras = ["mcp"], directory = "/src/prowess"', "uv tool install '/src/prowess[local,mcp]'"),
        ('specifier = ">=1"', "uv tool install 'prowess[local]'"),
        ('git = "https://example.com/p"', "uv tool install 'prowess[local] @ git+https://example.com/p'"),
        ("", "pip install 'prowess[local]'"),
    ],
)
def test_the_command_for_a_missing_extra_is_that_of_the_tool_that_installed_prowess(
    prowess, workspace, tmp_path, monkeypatch, requirement, command
):
    if requirement:
        receipt = f'[tool]\nrequirements = [{{ name = "prowess", {requirement} }}]\n'
        (tmp_path / "uv-receipt.toml").write_text(receipt)
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert f"run `{command}` and `prowess model fetch" in prowess("compose", "a skill that counts words").err


@pytest.mark.parametrize(("closed", "code"), [("list >&-", 0), ("list 2>&-", 0), ("match <&-", 2)])
def test_a_closed_stream_is_no_bug(prowess, sample, closed, code):
    ran = subprocess.run(["sh", "-c", f"{PROWESS} {closed}"], capture_output=True, text=True, check=False)
    assert (ran.returncode, "bug" in ran.stderr) == (code, False)


def test_a_list_says_that_the_database_cannot_be_reached(prowess, write_skill, monkeypatch):
    write_skill("greet")
    monkeypatch.setenv("PROWESS_DATABASE_URL", "mysql://somewhere/x")
    ran = prowess("list")
    assert ran.code == 0
    assert "greet" in ran.out
    assert "Databases of the type 'mysql' are not supported. Use sqlite:///" in ran.err
    assert "Could not read" not in ran.err


HIDDEN = "a\u202eb\u200b\x9b31m"


def test_hidden_characters_of_a_path_are_written_out(prowess, write_skill):
    write_skill("greet")
    ran = prowess("export", "greet", "--to", HIDDEN)
    assert (ran.code, r"Wrote a\u202eb\u{200B}\x9b31m/greet" in ran.out) == (0, True)


def test_a_usage_error_repeats_no_hidden_characters_of_its_argument(prowess):
    ran = prowess("plugins", HIDDEN)
    assert (ran.code, r"extra argument (a\u{202E}b\u{200B}31m)" in ran.err) == (2, True)


def test_an_error_as_json_has_hidden_characters_escaped(prowess, workspace, write_skill):
    write_skill("greet")
    (workspace / HIDDEN).write_bytes(b"\xff")
    ran = prowess("run", "greet", "-i", f"q=@{HIDDEN}", "--json")
    assert HIDDEN in json.loads(ran.err)["error"]["message"]
    assert r"a\u202eb\u200b\u009b31m" in ran.err


def test_characters_that_the_encoding_of_a_terminal_lacks_are_question_marks(workspace, write_skill, monkeypatch):
    write_skill("tea", "---\nname: tea\ndescription: Brews 茶.\n---\nBrew.\n")
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    shown = subprocess.run([PROWESS, "validate"], capture_output=True, encoding="latin-1", check=True)
    assert shown.stdout.startswith("? ")
    listed = subprocess.run([PROWESS, "list", "--json"], capture_output=True, encoding="latin-1", check=True)
    assert json.loads(listed.stdout)[0]["description"] == "Brews 茶."
