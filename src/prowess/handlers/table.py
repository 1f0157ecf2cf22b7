"""The handlers there are, one row for each kind."""

from __future__ import annotations

from collections.abc import Iterable

from prowess.handlers.code_template import CodeTemplateHandler
from prowess.handlers.host_module import HostModule
from prowess.handlers.json_generation import JsonGenerationHandler
from prowess.handlers.prompt_template import PromptTemplateHandler
from prowess.handlers.review import ReviewHandler
from prowess.handlers.text import ReadFile, text_handlers
from prowess.run.asking import Asker
from prowess.run.handler import Handler
from prowess.sandbox.sandbox import Sandbox
from prowess.skill.kinds import Kind
from prowess.templates.registry import Registry
from prowess.templates.rendering import Renderer


def handlers_of(
    *,
    asker: Asker,
    renderer: Renderer,
    registry: Registry,
    sandbox: Sandbox,
    host: HostModule,
    read_file: ReadFile,
    brought: Iterable[Handler] = (),
) -> dict[Kind, Handler]:
    """By kind. Handlers that plugins have `brought` serve kinds that have none here; no plugin takes the place of ours."""
    own: tuple[Handler, ...] = (
        *text_handlers(read_file),
        PromptTemplateHandler(asker, renderer),
        JsonGenerationHandler(asker, renderer, registry),
        ReviewHandler(asker, registry),
        CodeTemplateHandler(sandbox, host),
    )
    return {handler.kind: handler for handler in (*brought, *own)}
