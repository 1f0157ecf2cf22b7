"""The rows of the matrix for MCP tools: the permission that each one takes, and arguments with which it works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .rows import REGISTRY_SKILL


@dataclass(frozen=True, kw_only=True)
class ToolRow:
    """One MCP tool: the permission it takes, and arguments with which it works for an agent of the owner.

    `{skill}` stands for the slug of a skill of the organization, `{packed}` for one with several files, `{new}` for a free one.
    """

    needs: str = "skills.read"
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names_skill(self) -> bool:
        """True if an argument names a skill that must exist."""
        return any(word in str(self.arguments) for word in ("{skill}", "{packed}"))


TOOLS: dict[str, ToolRow] = {
    "search_skills": ToolRow(arguments={"query": "invoices"}),
    "enable_skill": ToolRow(arguments={"skill": "{skill}"}),
    "list_enabled_skills": ToolRow(),
    "disable_skill": ToolRow(arguments={"skill": "{skill}"}),
    "list_skills": ToolRow(),
    "load_skill": ToolRow(arguments={"skill": "{skill}"}),
    "read_skill_resource": ToolRow(arguments={"skill": "{packed}", "path": "references/guide.md"}),
    "run_skill": ToolRow(needs="skills.run", arguments={"skill": "{skill}"}),
    "run_skill_script": ToolRow(needs="skills.run", arguments={"skill": "{packed}", "script": "scripts/total.py"}),
    "search_skills_registry": ToolRow(arguments={"query": "triage"}),
    "fetch_registry_skill": ToolRow(arguments={"source": REGISTRY_SKILL}),
    "skill_create": ToolRow(
        needs="skills.write",
        arguments={"skill": "{new}", "title": "New", "description": "Adds numbers.", "instructions": "Add them."},
    ),
    "skill_update": ToolRow(needs="skills.write", arguments={"skill": "{skill}", "description": "Adds more numbers."}),
    "skill_delete": ToolRow(needs="skills.write", arguments={"skill": "{skill}"}),
    "compose_skill": ToolRow(needs="skills.write", arguments={"request": " "}),
    "skill_reload": ToolRow(),
    "list_connectors": ToolRow(),
    "search_connector_tools": ToolRow(arguments={"query": "notes"}),
    "execute_connector_tool": ToolRow(needs="skills.run", arguments={"connector": "notes", "tool": "echo"}),
    "request_connector_access": ToolRow(arguments={"connector": "notes", "reason": "to take notes"}),
}
