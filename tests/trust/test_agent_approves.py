"""An agent never approves: not in Python, not over MCP by answering its own question, not with a shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import ElicitResult, Implementation

from prowess.errors import ApprovalRequired, Refused
from prowess.open import Prowess
from prowess.policy.actor import PERMISSIONS, Actor

pytestmark = pytest.mark.anyio

TEXT = "---\nname: tidy\ndescription: Tidies up.\n---\n\nTidy up.\n"
PROWESS = [sys.executable, "-m", "prowess"]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a skill that nobody has accepted."""
    monkeypatch.delenv("PROWESS_TRUSTED_FOLDERS")
    folder = tmp_path / "workspace/.agents/skills/tidy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(TEXT)
    return tmp_path / "workspace"


async def test_an_agent_that_is_given_every_permission_still_approves_and_trusts_nothing(workspace: Path) -> None:
    agent = Actor(name="agent", kind="agent", permissions=PERMISSIONS)
    async with Prowess.open(workspace, actor=agent) as prowess:
        session = await prowess.sessions.create()
        with pytest.raises(ApprovalRequired) as asked:
            await prowess.enable("tidy", session=session)
        with pytest.raises(Refused):
            await prowess.approvals.resolve(asked.value.approval_id, approved=True, proof="typed at a terminal")
        with pytest.raises(Refused):
            await prowess.trust.accept(await prowess.trust.preview("tidy"), proof="typed at a terminal")
        with pytest.raises(Refused):
            await prowess.trust.add_folder(workspace)
        with pytest.raises(ApprovalRequired):
            await prowess.enable("tidy", session=session)


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("options", "name", "enabled"),
    [
        ((), "agent", False),
        (("--approvals-by", "claude-code"), "agent", False),
        (("--agent", "claude-code"), "claude-code", False),
        (("--approvals-by", "Claude-Code"), "claude-code", True),
    ],
)
async def test_an_answer_over_stdio_counts_only_from_a_client_that_the_operator_named(
    workspace: Path, home: Path, mode: str, options: tuple[str, ...], name: str, enabled: bool
) -> None:
    questions: list[str] = []

    async def answer(_context, params):
        questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": True})

    environment = {"HOME": str(home), "PROWESS_HOME": str(home / ".prowess"), "PROWESS_SYSTEM_SKILLS": "off"}
    server = StdioServerParameters(
        command=PROWESS[0], args=[*PROWESS[1:], "mcp", "--wait", "0", "-w", str(workspace), *options], env=environment
    )
    info = Implementation(name=name, version="1")
    async with Client(server, mode=mode, elicitation_callback=answer, client_info=info) as client:
        told = await client.call_tool("enable_skill", {"skill_slug": "tidy"})
    assert (bool(told.is_error), len(questions)) == (not enabled, int(enabled))
    async with Prowess.open(workspace) as prowess:
        answers = [row for row in await prowess.audit.rows() if row.outcome in ("approved", "refused")]
    proofs = [(row.detail["channel"], row.detail["proof"]) for row in answers]
    assert proofs == ([("mcp:claude-code", "form in claude-code, allowed by the operator")] if enabled else [])


def test_an_agent_with_a_shell_cannot_answer_or_trust(workspace: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [*PROWESS, *words, "-w", str(workspace)]
        return subprocess.run(command, input="y\ny\n", capture_output=True, text=True, check=False)

    asked = run("enable", "tidy")
    assert asked.returncode == 5
    assert "approvals approve" not in asked.stderr
    for words in (("approvals", "approve", "00000000"), ("trust",), ("trust", "tidy"), ("approvals", "token")):
        refused = run(*words)
        assert (refused.returncode, "Only a person can" in refused.stderr) == (5, True)
    assert run("enable", "tidy").returncode == 5
