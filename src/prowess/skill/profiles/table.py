"""The table of profiles. A new profile is its file and a row here."""

from __future__ import annotations

from prowess.skill.profiles.agentskills import AGENTSKILLS
from prowess.skill.profiles.bernstein import BERNSTEIN
from prowess.skill.profiles.claude_api import CLAUDE_API
from prowess.skill.profiles.claude_code import CLAUDE_CODE
from prowess.skill.profiles.codex import CODEX
from prowess.skill.profiles.mcp import MCP
from prowess.skill.profiles.profile import Profile, ProfileName
from prowess.skill.profiles.prowess import PROWESS

PROFILES: dict[ProfileName, Profile] = {
    profile.name: profile for profile in (AGENTSKILLS, CLAUDE_API, CLAUDE_CODE, CODEX, MCP, BERNSTEIN, PROWESS)
}
