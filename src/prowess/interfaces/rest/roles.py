"""Routes of roles and of the agent's tools."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.responses import Response

from prowess.interfaces.rest.problems import problem_response
from prowess.interfaces.rest.request import Body, Page, PageShape, Reader, Shape, paginate, respond, shape_of
from prowess.policy.roles import Role
from prowess.session.role_prompt import RolePrompt
from prowess.tools.tool import SpecFormat
from prowess.tools.toolbox import Toolbox

router = APIRouter(tags=["roles"])

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


class CallBody(Body):
    """The arguments of a tool."""

    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])
    conversation: Conversation = ""


@router.get("/roles", response_model=PageShape[RoleShape])
async def list_roles(engine: Reader, page: Page) -> Response:
    """Return the roles of the organization: its own, and those that come with Prowess."""
    return respond(paginate(await engine.roles.list(), page, lambda role: role.name))


@router.get("/roles/{name}", response_model=RoleShape)
async def get_role(name: RoleName, engine: Reader) -> Response:
    """Return one role."""
    return respond(await engine.roles.get(name))


@router.get("/roles/{name}/prompt", response_model=RolePromptShape)
async def read_role_prompt(name: RoleName, engine: Reader) -> Response:
    """Return the prompt of a role, below the index of the skills that are available."""
    found = await engine.roles.prompt(name)
    # The location is a path on the server.
    return respond({field: getattr(found, field) for field in RolePromptShape.model_fields})


@router.get("/tools", response_model=ToolsShape, tags=["tools"])
async def list_tools(
    engine: Reader,
    format: SpecFormat = "json-schema",
    conversation: Annotated[str, Query(max_length=200, description="The conversation that the agent works in.")] = "",
) -> Response:
    """Return the tools that an agent of the caller has in a conversation."""
    return respond({"tools": await Toolbox(engine, conversation=conversation).specs(format)})


@router.post("/tools/{name}", response_model=dict[str, Any], tags=["tools"])
async def call_tool(name: Annotated[str, Path(max_length=200)], body: CallBody, engine: Reader) -> Response:
    """Call a tool as an agent of the caller, and return its answer. An error has its status and the answer in `answer`."""
    answer = await Toolbox(engine, conversation=body.conversation).call(name, body.arguments)
    if answer.error is not None:
        return problem_response(answer.error, {"answer": answer.data})
    return respond(answer.data)
