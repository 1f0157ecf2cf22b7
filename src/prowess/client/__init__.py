"""A client of a Prowess server, with the shape of the engine.

    from prowess.client import Client

    with Client("http://127.0.0.1:7717") as prowess:
        print(prowess.match("are there contradictions in my notes?"))

`AsyncClient` is the same with `await`. It needs the extra `prowess[client]`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prowess.client.blocking import Client
    from prowess.client.client import AsyncClient

__all__ = ["AsyncClient", "Client"]

_HOMES = {"AsyncClient": "client", "Client": "blocking"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'prowess.client' has no attribute {name!r}")
    return getattr(importlib.import_module(f"prowess.client.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
