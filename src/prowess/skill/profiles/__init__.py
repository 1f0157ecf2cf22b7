"""Profiles: the rules by which clients and standards judge a skill, one file each, one row in the table."""

from __future__ import annotations

from prowess.skill.profiles.agentskills import AGENTSKILLS
from prowess.skill.profiles.bernstein import BERNSTEIN
from prowess.skill.profiles.claude_api import CLAUDE_API
from prowess.skill.profiles.claude_code import CLAUDE_CODE
from prowess.skill.profiles.codex import CODEX
from prowess.skill.profiles.mcp import MCP
from prowess.skill.profiles.profile import PROFILE_NAMES, Profile, ProfileName
from prowess.skill.profiles.prowess import PROWESS

__all__ = ["PROFILES", "PROFILE_NAMES", "Profile", "ProfileName"]

PROFILES: dict[ProfileName, Profile] = {
    profile.name: profile for profile in (AGENTSKILLS, CLAUDE_API, CLAUDE_CODE, CODEX, MCP, BERNSTEIN, PROWESS)
}
