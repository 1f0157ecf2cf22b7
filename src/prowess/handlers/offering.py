"""Functions that are offered to what a skill brings: each by its name, with arguments of the types that it says it takes."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pydantic import ConfigDict, ValidationError, validate_call

from prowess.errors import Invalid, ProwessError
from prowess.sandbox.sandbox import HostFunction

Refusals = dict[str, ProwessError]
"""What was refused, by the message that the script was given."""


def offered(owner: object, names: Iterable[str], refusals: Refusals) -> dict[str, HostFunction]:
    """Methods of an owner by their names, with their arguments checked; what they refuse is kept among the refusals."""
    return {name: functools.partial(_checked, owner, name, refusals) for name in names}


async def _checked(owner: object, name: str, refusals: Refusals, /, *args: Any, **kwargs: Any) -> Any:
    try:
        return await _validated(type(owner), name)(owner, *args, **kwargs)
    except ValidationError as error:
        raise Invalid(f"{name}(): {_told(error)}.") from None
    except ProwessError as error:
        refusals[f"{error.message} {error.hint}".strip()] = error
        raise


@functools.cache
def _validated(owner: type, name: str) -> Callable[..., Awaitable[Any]]:
    function: Callable[..., Awaitable[Any]] = getattr(owner, name)
    return validate_call(config=ConfigDict(strict=True))(function)


def _told(error: ValidationError) -> str:
    """What is wrong with the arguments, without what they were."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:3])
