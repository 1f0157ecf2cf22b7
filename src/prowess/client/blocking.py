"""The client without `await`. `blocking.pyi` has the types; `scripts/sync_stub.py` generates it from `AsyncClient`."""

from __future__ import annotations

from typing import Any

from prowess.blocking import BlockingResource, LoopThread
from prowess.client.client import AsyncClient


class Client(BlockingResource):
    """The same as `AsyncClient`, without `await`. Asynchronous iterators become iterators."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(AsyncClient(*args, **kwargs), LoopThread())
