"""The embedder that the settings name."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.errors import Invalid
from prowess.match.lexicon import static
from prowess.settings import Settings

if TYPE_CHECKING:
    from prowess.match.vectors.embedder import Embedder

STATIC = "static"


def embedder_of(settings: Settings) -> Embedder:
    """The embedder of these settings, opened once."""
    return _opened(settings.embedder, settings.embedder_url, settings.embedder_key, str(settings.home))


@lru_cache(maxsize=8)
def _opened(named: str, url: str, key: str, home: str) -> Embedder:
    kind, _, which = named.partition(":")
    if named in ("", STATIC):
        return static()
    if kind == "onnx" and which:
        from prowess.match.vectors.onnx import OnnxEmbedder

        return OnnxEmbedder.at(Path(os.path.expanduser(which)))  # noqa: PTH111  (no such user is no error here)
    if kind == "fastembed" and which:
        from prowess.match.vectors.onnx import OnnxEmbedder

        return OnnxEmbedder.downloaded(which, cache=Path(home) / "cache" / "models")
    if kind == "endpoint" and which and url:
        from prowess.match.vectors.endpoint import EndpointEmbedder

        return EndpointEmbedder(url, which, api_key=key)
    raise Invalid(
        f"PROWESS_EMBEDDER is {named[:80]!r}.",
        hint="Give static, onnx:FOLDER, fastembed:NAME, or endpoint:MODEL with PROWESS_EMBEDDER_URL.",
    )
