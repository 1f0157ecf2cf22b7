"""Routes of the organization's settings, its roles, the variables that skills may read, and the agent's tools."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field, RootModel
from starlette.responses import Response

from prowess.interfaces.rest.problems import problem_response
from prowess.interfaces.rest.request import Admin, Body, Page, PageShape, Reader, Shape, paginate, respond, shape_of
from prowess.policy.configuration import SettingState
from prowess.policy.grants import EnvGrant
from prowess.policy.organization import OrgPolicy
from prowess.policy.roles import Role
from prowess.session.role_prompt import RolePrompt
from prowess.tools.tool import SpecFormat
from prowess.tools.toolbox import Toolbox

router = APIRouter(tags=["settings"])

SettingName = Annotated[str, Path(max_length=100)]
SkillSlug = Annotated[str, Path(max_length=500)]
Variable = Annotated[str, Path(max_length=200)]


@shape_of(OrgPolicy)
class SettingsShape(Shape):
    """The settings of an organization, each with its value or default. `faults` names those that are unreadable."""


@shape_of(SettingState)
class SettingStateShape(Shape):
    """A setting. `source` says whether the value is the default or was set; `faulty` that the stored one is unreadable."""


class SettingListShape(Shape):
    """All settings, in the order of the policy."""

    items: list[SettingStateShape]


class SettingBody(Body):
    """A new value; null restores the default."""

    value: Any


class SettingsBody(RootModel[dict[str, Any]]):
    """New values by name; null restores a default."""


@shape_of(EnvGrant)
class EnvGrantShape(Shape):
    """An environment variable of a skill, and whether the skill may read it."""


class EnvListShape(Shape):
    """The variables that skills declare or may read."""

    items: list[EnvGrantShape]


@router.get("/settings", response_model=SettingsShape)
async def read_settings(engine: Reader) -> Response:
    """Return all settings of the organization."""
    return respond(asdict(await engine.policy.get()))


@router.get("/settings/details", response_model=SettingListShape)
async def describe_settings(engine: Reader) -> Response:
    """Return every setting with its value, its default, the values that it accepts, and who changed it when."""
    return respond({"items": [asdict(one) for one in await engine.policy.describe()]})


@router.patch("/settings", response_model=SettingsShape)
async def change_settings(body: SettingsBody, engine: Admin) -> Response:
    """Change several settings, or none if one value is not valid; return all of them. They take effect at once."""
    return respond(asdict(await engine.policy.set_all(body.root)))


@router.put("/settings/{name}", response_model=SettingsShape)
async def change_setting(name: SettingName, body: SettingBody, engine: Admin) -> Response:
    """Change one setting, and return all of them. It takes effect at once."""
    return respond(asdict(await engine.policy.set(name, body.value)))


@router.delete("/settings/{name}", response_model=SettingsShape)
async def reset_setting(name: SettingName, engine: Admin) -> Response:
    """Restore the default of one setting, and return all of them."""
    return respond(asdict(await engine.policy.set(name, None)))


@router.get("/env", response_model=EnvListShape)
async def list_env(
    engine: Reader, skill: Annotated[str, Query(max_length=500, description="Only variables of this skill.")] = ""
) -> Response:
    """Return the variables that a skill declares and may read; without a skill, those of every skill with a permission."""
    return respond({"items": await engine.env.list(skill)})


@router.put("/env/{slug}/{name}", response_model=EnvGrantShape)
async def allow_env(slug: SkillSlug, name: Variable, engine: Admin) -> Response:
    """Let the current content of a skill read a variable of the server that it declares."""
    return respond(await engine.env.allow(slug, name))


@router.delete("/env/{slug}/{name}", status_code=204, response_class=Response)
async def forbid_env(slug: SkillSlug, name: Variable, engine: Admin) -> Response:
    """Stop allowing a skill to read a variable."""
    await engine.env.forbid(slug, name)
    return Response(status_code=204)


roles_router = APIRouter(tags=["roles"])

RoleName = Annotated[str, Path(max_length=64)]
Conversation = Annotated[str, Field(max_length=200, description="The conversation that the agent works in.")]


@shape_of(Role)
class RoleShape(Shape):
    """The rights of a role: its tools and actions, and the tags of the skills that it may use (none for all)."""


@shape_of(RolePrompt, without=("location", "task", "config"))
class RolePromptShape(Shape):
    """The prompt of a role: of its skill pack, or one sentence if it has none."""

    source: str


class ToolsShape(Shape):
    """The tools that the agent has now, each as a model API wants it."""

    tools: list[dict[str, Any]]


class ToolCallBody(Body):
    """The arguments of a tool."""

    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])
    conversation: Conversation = ""


@roles_router.get("/roles", response_model=PageShape[RoleShape])
async def list_roles(engine: Reader, page: Page) -> Response:
    """Return the roles of the organization: its own, and those that come with Prowess."""
    return respond(paginate(await engine.roles.list(), page, lambda role: role.name))


@roles_router.get("/roles/{name}", response_model=RoleShape)
async def get_role(name: RoleName, engine: Reader) -> Response:
    """Return one role."""
    return respond(await engine.roles.get(name))


@roles_router.get("/roles/{name}/prompt", response_model=RolePromptShape)
async def read_role_prompt(name: RoleName, engine: Reader) -> Response:
    """Return the prompt of a role, below the index of the skills that are available."""
    found = await engine.roles.prompt(name)
    # The location is a path on the server.
    return respond({field: getattr(found, field) for field in RolePromptShape.model_fields})


@roles_router.get("/tools", response_model=ToolsShape, tags=["tools"])
async def list_tools(
    engine: Reader,
    format: SpecFormat = "json-schema",
    conversation: Annotated[str, Query(max_length=200, description="The conversation that the agent works in.")] = "",
) -> Response:
    """Return the tools that an agent of the caller has in a conversation."""
    return respond({"tools": await Toolbox(engine, conversation=conversation).specs(format)})


@roles_router.post("/tools/{name}", response_model=dict[str, Any], tags=["tools"])
async def call_tool(name: Annotated[str, Path(max_length=200)], body: ToolCallBody, engine: Reader) -> Response:
    """Call a tool as an agent of the caller, and return its answer. An error has its status and the answer in `answer`."""
    answer = await Toolbox(engine, conversation=body.conversation).call(name, body.arguments)
    if answer.error is not None:
        return problem_response(answer.error, {"answer": answer.data})
    return respond(answer.data)
