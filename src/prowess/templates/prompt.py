"""A prompt of a registry: a template with an id, a version and the schemas of what goes in and what comes out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from prowess.skill.kinds import JsonObject, PromptTemplate

Syntax = Literal["jinja", "mustache"]
SYNTAXES: tuple[Syntax, ...] = ("jinja", "mustache")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One version of one prompt. `version` is '' for one that has none; `origin` says where it was found."""

    id: str
    version: str = ""
    template: str
    syntax: Syntax = "mustache"
    vars_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    description: str = ""
    origin: str = ""

    @property
    def label(self) -> str:
        """What it is called together with its version."""
        return f"{self.id}@{self.version}" if self.version else self.id

    def as_json(self) -> dict[str, Any]:
        """The prompt as a prompt file has it, and where it was found."""
        told = asdict(self)
        return {"prompt_id": told.pop("id"), **told}


def prompt_of(artifact: PromptTemplate, origin: str = "") -> Prompt:
    """The prompt that an artifact of a skill is; older versions of one carry theirs in their name."""
    name = artifact.name
    if artifact.version:
        name = name.removesuffix(f"@{artifact.version}")
    return Prompt(
        id=name,
        version=artifact.version or "",
        template=artifact.content,
        syntax=artifact.syntax,
        vars_schema=artifact.vars_schema,
        output_schema=artifact.output_schema,
        description=str(artifact.metadata.get("description") or ""),
        origin=origin,
    )
