"""The handlers, one row for each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prowess.handlers.cli_command import CliCommandHandler
from prowess.handlers.code_template import CodeTemplateHandler
from prowess.handlers.command_runner import CommandRunner, ReadFiles
from prowess.handlers.dspy_module import DspyModuleHandler
from prowess.handlers.function import FunctionHandler, RuntimeName
from prowess.handlers.host_functions import HostModule
from prowess.handlers.http_call import HttpCallHandler
from prowess.handlers.json_generation import JsonGenerationHandler
from prowess.handlers.prompt_template import PromptTemplateHandler
from prowess.handlers.requirements import GrantLookup, InstallPackages
from prowess.handlers.review import ReviewHandler
from prowess.handlers.script import ScriptHandler
from prowess.handlers.text import ReadFile, text_handlers
from prowess.net.request import HttpClient
from prowess.prompts.registry import Registry
from prowess.prompts.renderer import Renderer
from prowess.run.assertions.evaluation import AssertionRunner
from prowess.run.checkpoints import Checkpoints
from prowess.run.handler import Handler
from prowess.run.model_client import ModelClient
from prowess.sandbox.commands.command import CommandSandbox
from prowess.sandbox.protocol import Sandbox
from prowess.sidecar.protocol import Sidecar
from prowess.skill.kinds import Kind


def build_handlers(
    *,
    models: ModelClient,
    renderer: Renderer,
    registry: Registry,
    sandboxes: Mapping[RuntimeName, Sandbox],
    commands: CommandSandbox,
    outbound: HttpClient,
    grants_of: GrantLookup,
    provision: InstallPackages,
    host: HostModule,
    checkpoints: Checkpoints,
    read_file: ReadFile,
    files: ReadFiles,
    assertions: AssertionRunner,
    sidecar: Sidecar | None,
    brought: Iterable[Handler] = (),
) -> dict[Kind, Handler]:
    """Return the handlers by kind. A plugin's handler cannot replace one of ours; without a sidecar it may run dspy_modules."""
    command_runs = CommandRunner(commands, files, grants_of)
    own: tuple[Handler, ...] = (
        *text_handlers(read_file),
        PromptTemplateHandler(models, renderer),
        JsonGenerationHandler(models, renderer, registry),
        ReviewHandler(models, registry),
        CodeTemplateHandler(sandboxes["wasm"], host, checkpoints=checkpoints),
        FunctionHandler(sandboxes=sandboxes, outbound=outbound, grants_of=grants_of, provision=provision, host=host),
        HttpCallHandler(outbound, grants_of),
        CliCommandHandler(command_runs),
        ScriptHandler(command_runs, provision),
    )
    if sidecar is not None:
        dspy = DspyModuleHandler(sidecar, models=models, host=host, sandbox=sandboxes["wasm"], assertions=assertions)
        own = (*own, dspy)
    # Of two handlers of a kind the last one wins, so ours come last.
    return {handler.kind: handler for handler in (*brought, *own)}
