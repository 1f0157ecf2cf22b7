"""`prowess --server URL`: the commands print what they print on the server's own machine."""

from __future__ import annotations

import getpass
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from prowess.interfaces.cli import main
from prowess.interfaces.cli.main import run
from prowess.interfaces.cli.server import LOCAL_COMMANDS, SERVER_COMMANDS
from prowess.policy.actor import Actor, agent_of

TOKEN = "a-token-of-the-tests-that-is-long-enough"
MEMBER = "a-token-of-a-member-that-is-long-enough"
BOT = "a-token-of-an-agent-that-is-long-enough-too"
SIDECAR = """
title: Greeter
version: 1.0.0
artifacts:
  - path: prompts/greet.j2
    kind: prompt_template
    name: greet
"""


@dataclass(frozen=True)
class Ran:
    """The output and the exit code of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def here(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: Any) -> Run:
    """Return a function that runs a command on this machine, in the workspace of the server."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(place.workspace)
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)

    def call(*args: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["prowess", *map(str, args)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        captured = capfd.readouterr()
        return Ran(code=int(ended.value.code or 0), out=captured.out, err=captured.err)

    return call


@pytest.fixture
def there(here: Run, place: Any, monkeypatch: pytest.MonkeyPatch) -> Generator[Run]:
    """Return a function that runs a command against a server of the same workspace."""
    person = Actor(name=getpass.getuser(), channel="http")
    member = Actor(name="bob", organization="acme", user="bob", permissions=frozenset({"skills.read"}), channel="http")
    place.tokens = {TOKEN: person, BOT: agent_of(person, name="bot"), MEMBER: member}
    monkeypatch.setenv("PROWESS_TOKEN", TOKEN)
    with place.server() as url:
        yield lambda *args: here("--server", url, *args)


def without_places(text: str) -> Any:
    """Return JSON without the places of files, which belong to one machine."""

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: clean(part) for name, part in value.items() if name not in ("location", "place", "rules")}
        return [clean(part) for part in value] if isinstance(value, list) else value

    return clean(json.loads(text))


COMMANDS = [
    "list",
    "list --tag writing",
    "list release",
    "list --scope org",
    "list --tag wrtng",
    "show triage --artifact instructions",
    "match write release notes for these commits",
    "match --explain sort bug reports",
    "match --explain qwertz",
    "match qwertz",
    "search release",
    "search --tag notes",
    "search --explain bug",
    "search qwertz",
    "why sort these bug reports",
    "why --explain sort these bug reports",
    "policy",
    "policy roles",
    "sessions",
    "sessions show default",
    "prompt",
    "prompt --policies Be-brief. --session nothing",
    "load triage",
    "load nothing",
    "load triage --reference nothing.md",
    "approvals",
    "approvals --all",
    "approvals show 0000",
    "events --name skills_state_changed",
    "enable triage",
    "enable nothing",
    "disable nothing",
    "history nothing",
    "index",
    "index sort these bug reports --budget 100",
    "traces",
    "traces show nothing",
    "stats",
    "stats --by day --since 7d",
    "audit",
    "audit verify",
    "audit triage",
    "audit nothing",
    "show nothing",
    "org list",
]


@pytest.mark.few(8)
@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_prints_the_same_for_a_server(here: Run, there: Run, line: str):
    here("enable", "triage")
    here(*line.split())  # the first run computes what later ones remember
    expected, got = here(*line.split()), there(*line.split())
    assert got.out == expected.out
    assert (got.code, got.err) == (expected.code, expected.err)


JSON_COMMANDS = [
    "list --json",
    "show triage --json",
    "show triage --artifact instructions --json",
    "match --json --explain write release notes",
    "search --json release",
    "why --json sort these bug reports",
    "policy --json",
    "policy roles --json",
    "sessions --json",
    "sessions show default --json",
    "prompt --json",
    "load triage --json",
    "enable triage --json",
    "approvals --all --json",
    "traces --json",
    "stats --json",
    "audit --json",
    "audit verify --json",
    "audit triage --json",
    "index --json",
]


@pytest.mark.few(4)
@pytest.mark.parametrize("line", JSON_COMMANDS)
def test_json_is_the_same_for_a_server(here: Run, there: Run, line: str):
    here("enable", "triage")
    here(*line.split())
    expected, got = here(*line.split()), there(*line.split())
    assert (got.code, got.err) == (expected.code, expected.err)
    assert without_places(got.out) == without_places(expected.out)


def test_skills_are_imported_changed_deleted_restored_and_exported(there: Run, tmp_path: Path):
    folder = tmp_path / "away" / "greet"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: Greet people.\n---\n# Greet\n\nSay hello.\n")
    assert "1 imported into the org scope" in there("import", folder).out
    assert there("import", folder).code == 6 or "unchanged" in there("import", folder).out

    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: Greet people.\n---\n# Greet\n\nSay goodbye.\n")
    assert there("import", folder, "--replace").code == 0
    assert "Say goodbye." in there("diff", "greet").out
    assert len(json.loads(there("history", "greet", "--json").out)) == 2
    assert there("rollback", "greet", "1").code == 0
    assert there("export", "greet", "--to", tmp_path / "out").code == 0
    assert "Say hello." in (tmp_path / "out" / "greet" / "SKILL.md").read_text()
    assert "Deleted greet" in there("delete", "greet").out
    assert there("show", "greet").code == 4


def test_a_batch_has_a_line_for_each_query_also_for_those_that_a_server_refuses(here: Run, there: Run, tmp_path: Path):
    batch = tmp_path / "batch.jsonl"
    batch.write_text(
        "".join(json.dumps({"id": text[:1], "text": text}) + "\n" for text in ("bugs", " ", "x" * 100_001))
    )
    on_server, on_machine = there("match", "--batch", batch), here("match", "--batch", batch)
    answers = [json.loads(line) for line in on_server.out.splitlines()]
    assert [answer["id"] for answer in answers] == ["b", " ", "x"]
    assert answers[:2] == [json.loads(line) for line in on_machine.out.splitlines()][:2]
    assert (on_server.code, answers[2]["line"]) == (1, 3)


def test_a_file_of_a_skill_that_may_not_be_loaded_is_refused_and_a_missing_one_not_found(
    here: Run, there: Run, place: Any
):
    folder = place.skill("triage") / "references"
    folder.mkdir()
    (folder / "guide.md").write_text("# Guide\n")
    here("switch", "off", "triage")
    for command in (here, there):
        codes = [command("load", "triage", "--reference", name).code for name in ("guide.md", "none.md")]
        assert codes == [5, 4]


def test_settings_are_changed_and_skills_switched(here: Run, there: Run):
    assert "Set approval_days to 3" in there("policy", "set", "approval_days", "3").out
    assert json.loads(here("policy", "--json").out)["approval_days"] == 3
    assert "Switched off: triage" in there("switch", "off", "triage").out
    assert "off" in here("list").out
    assert there("switch", "on", "triage").code == 0


def test_a_skill_is_enabled_and_disabled_in_a_conversation(here: Run, there: Run):
    assert "Enabled triage." in there("enable", "triage", "--session", "review").out
    assert "triage" in here("sessions", "show", "review").out
    assert "Do it." in there("prompt", "--session", "review").out
    assert "Disabled triage." in there("disable", "triage", "--session", "review").out
    assert "budget" in there("sessions", "open", "review", "--budget", "5", "--json").out
    refused = there("enable", "triage", "--session", "review")
    assert refused.code == 5
    assert "characters" in refused.err
    assert there("sessions", "close", "review").code == 0


def test_a_request_is_shown_approved_and_denied(here: Run, there: Run, place: Any):
    bot = place.workspace / "bot-token"
    bot.write_text(BOT)
    there("policy", "set", "skill_enablement_policy", "prompt-user")
    ids = []
    for slug in ("triage", "release-notes"):
        asked = there("--token-file", bot, "enable", slug, "--session", "chat", "--json")
        assert asked.code == 5
        ids.append(json.loads(asked.err)["error"]["approval_id"])
    assert here("approvals").out == there("approvals").out
    for option in ((), ("--files",), ("--json",)):
        assert there("approvals", "show", ids[0], *option).out == here("approvals", "show", ids[0], *option).out
    assert "Approved: enable triage" in there("approvals", "approve", ids[0][:8], "--note", "read").out
    assert "Denied: enable release-notes" in there("approvals", "deny", ids[1]).out
    assert there("approvals", "approve", ids[1]).code == 6
    assert there("approvals", "revoke", ids[0]).code == 0
    assert there("--token-file", bot, "approvals", "approve", ids[0]).code == 5


def test_only_a_person_approves_without_a_terminal(there: Run, monkeypatch: pytest.MonkeyPatch, place: Any):
    monkeypatch.delenv("PROWESS_TOKEN")
    home = Path(place.environment["PROWESS_HOME"])
    home.mkdir(exist_ok=True)
    (home / "server-token").write_text(TOKEN)
    (home / "server-token").chmod(0o600)
    assert there("list").code == 0
    refused = there("approvals", "approve", "0000")
    assert refused.code == 5
    assert "Only a person can approve a request" in refused.err


def test_a_skill_runs_on_the_server_and_its_output_comes_here(here: Run, place: Any, monkeypatch: pytest.MonkeyPatch):
    folder = place.skill("greeter")
    for path, text in {"agents/prowess.yaml": SIDECAR, "prompts/greet.j2": "Greet {{ name }}."}.items():
        (folder / path).parent.mkdir()
        (folder / path).write_text(text)
    script = place.workspace / "answers.json"
    script.write_text(json.dumps(["Hello Ann."]))
    place.environment["PROWESS_MODEL"] = f"scripted:{script}"
    monkeypatch.setenv("PROWESS_TOKEN", TOKEN)
    with place.server() as url:
        planned = here("--server", url, "run", "greeter", "-i", "name=Ann", "--dry-run")
        assert (planned.code, "Greet Ann." in planned.out) == (0, True)
        ran = here("--server", url, "run", "greeter", "-i", "name=Ann")
        assert (ran.code, ran.out) == (0, "Hello Ann.\n")
        assert "trace" in ran.err
        listed = json.loads(here("--server", url, "traces", "--json").out)
        shown = here("--server", url, "traces", "show", listed[0]["id"])
        assert "Hello Ann." in shown.out
        assert "greeter" in here("--server", url, "stats").out
        assert here("--server", url, "run", "nothing").code == 4


def test_an_empty_server_says_how_to_add_skills_to_it(
    here: Run, there: Run, place: Any, monkeypatch: pytest.MonkeyPatch
):
    shutil.rmtree(place.workspace / "skills")
    listed = there("list").out
    assert listed.startswith("No skills on this server yet.")
    [line] = [line for line in listed.splitlines() if line.endswith("import PATH")]
    options = line.removesuffix("import PATH").split()[1:]
    assert here(*options, "list").out == listed
    assert "prowess init" not in listed
    assert there("match", "make slides").out.startswith("No skills on this server yet.")
    monkeypatch.setenv("PROWESS_SERVER", options[1])
    assert "\n  prowess import PATH\n" in here("list").out


def test_the_log_of_an_organization_is_not_read_from_a_server(there: Run):
    for command in (["audit"], ["audit", "verify"], ["audit", "export"]):
        ran = there(*command, "--org", "acme")
        assert (ran.code, "`prowess audit --org` cannot run against a server." in ran.err) == (2, True)


def test_a_local_command_does_not_import_the_client(place: Any):
    program = "import sys; from prowess.interfaces.cli.main import cli; cli.main(['list'], standalone_mode=False)\n"
    program += "print([name for name in sys.modules if name.startswith(('prowess.client', 'httpx2'))], file=sys.stderr)"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=place.workspace, capture_output=True, text=True, check=True
    )
    assert ran.stderr.strip().endswith("[]")


def test_tokens_are_made_and_revoked(there: Run):
    made = json.loads(there("token", "create", "ci", "--scopes", "skills.read", "--json").out)
    assert made["token"].startswith("prw_")
    assert "ci" in there("token", "list").out
    assert there("token", "revoke", made["id"]).code == 0


def test_a_member_lists_their_own_tokens(there: Run, monkeypatch: pytest.MonkeyPatch):
    assert there("token", "create", "ci", "--scopes", "skills.read").code == 0
    monkeypatch.setenv("PROWESS_TOKEN", MEMBER)
    ran = there("token", "list", "--json")
    assert (ran.code, ran.out) == (0, "[]\n")
    assert there("token", "list", "--user", "ann").code == 4


def test_a_member_shows_and_revokes_their_own_tokens(there: Run, monkeypatch: pytest.MonkeyPatch):
    assert there("org", "create", "acme").code == 0
    assert there("user", "add", "bob", "--org", "acme").code == 0
    monkeypatch.setenv("PROWESS_TOKEN", MEMBER)
    made = json.loads(there("token", "create", "ci", "--scopes", "skills.read", "--json").out)
    shown = json.loads(there("user", "show", "bob", "--json").out)
    assert [token["id"] for token in shown["tokens"]] == [made["id"]]
    assert there("token", "revoke", made["id"][:8]).code == 0


def test_a_user_who_cannot_be_bound_on_a_server_is_not_added(there: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROWESS_OIDC_ISSUER", "https://id.example.com")
    assert there("org", "create", "acme").code == 0
    refused = there("user", "add", "ann", "--org", "acme", "--subject", "4711")
    assert (refused.code, "cannot run against a server" in refused.err) == (2, True)
    assert there("user", "list", "--org", "acme", "--json").out == "[]\n"


def test_a_wrong_token_an_unreachable_server_and_a_wrong_url_have_their_exit_codes(
    here: Run, there: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PROWESS_TOKEN", "wrong")
    refused = there("list")
    assert refused.code == 5
    assert "PROWESS_TOKEN" in refused.err
    away = here("--server", "http://127.0.0.1:9", "list")
    assert away.code == 7
    assert "Cannot reach a server at http://127.0.0.1:9" in away.err
    wrong = here("--server", "http://ann:hunter2@127.0.0.1:9", "list")
    assert wrong.code == 3
    assert "hunter2" not in wrong.err


def test_the_token_of_a_file_is_used(there: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PROWESS_TOKEN")
    (tmp_path / "token").write_text(TOKEN + "\n")
    assert there("--token-file", tmp_path / "token", "list").code == 0
    assert there("--token-file", tmp_path / "nothing", "list").code == 3
    assert there("list").code == 5


def test_the_server_comes_from_the_environment_and_local_commands_ignore_it(here: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROWESS_SERVER", "http://127.0.0.1:9")
    assert here("list").code == 7
    assert here("validate", ".").code == 0
    assert "looks on this machine, not on PROWESS_SERVER" in here("eval", "triggers", "nowhere").err
    assert "not those of PROWESS_SERVER" in here("mcp", "--install", "claude-code").err
    refused = here("trust")
    assert refused.code == 2
    assert "unset PROWESS_SERVER" in refused.err


def test_a_command_that_cannot_says_what_to_do_instead(here: Run):
    for line, words in (
        ("doctor", "Leave out --server"),
        ("trust", "on the machine of the server"),
        ("approvals token", "prowess token create"),
    ):
        ran = here("--server", "http://127.0.0.1:9", *line.split())
        assert ran.code == 2
        assert words in ran.err
    lonely = here("--token-file", "x", "list")
    assert lonely.code == 2
    assert "--server" in lonely.err


def test_every_command_is_known_to_run_on_a_server_or_not():
    assert set(main.COMMANDS) >= SERVER_COMMANDS | LOCAL_COMMANDS
    assert not SERVER_COMMANDS & LOCAL_COMMANDS


def test_the_stored_copy_of_a_skill_is_deleted_on_the_server(there: Run, place: Any, tmp_path: Path) -> None:
    copy = tmp_path / "away/triage"
    shutil.copytree(place.workspace / "skills/triage", copy)
    assert there("import", copy, "--scope", "org").code == 0

    assert there("delete", "triage", "--stored").out == "Deleted the stored copy of triage.\n"
    assert (place.workspace / "skills/triage/SKILL.md").exists()
    assert there("delete", "triage", "--stored").code == 4
