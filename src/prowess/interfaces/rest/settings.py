"""Routes of the organization's settings, and of the variables that skills may read."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import RootModel
from starlette.responses import Response

from prowess.interfaces.rest.request import Admin, Body, Reader, Shape, respond, shape_of
from prowess.policy.configuration import SettingState
from prowess.policy.grants import EnvGrant
from prowess.policy.organization import OrgPolicy

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
    engine: Reader, skill: Annotated[str, Query(max_length=500, description="Only those of this skill.")] = ""
) -> Response:
    """Return the variables that a skill declares and may read; without a skill, those of every skill with a permission."""
    return respond({"items": await engine.env.list(skill)})


@router.put("/env/{slug}/{name}", response_model=EnvGrantShape)
async def allow_env(slug: SkillSlug, name: Variable, engine: Admin) -> Response:
    """Let the current content of a skill read a variable of the server that it declares."""
    return respond(await engine.env.allow(slug, name))


@router.delete("/env/{slug}/{name}", status_code=204, response_class=Response)
async def forbid_env(slug: SkillSlug, name: Variable, engine: Admin) -> Response:
    """Let no content of a skill read a variable any more."""
    await engine.env.forbid(slug, name)
    return Response(status_code=204)
