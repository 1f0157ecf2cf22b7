"""Where code of skills runs, each opened when it is first used: the WASM sandbox, processes, Deno, commands, requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.settings import Settings

if TYPE_CHECKING:
    from prowess.handlers.function import RuntimeName
    from prowess.outbound.guarded import GuardedOutbound
    from prowess.sandbox.commands.locked import LockedCommands
    from prowess.sandbox.deno.sandbox import DenoSandbox
    from prowess.sandbox.process.sandbox import ProcessSandbox
    from prowess.sandbox.sandbox import Sandbox
    from prowess.sandbox.wasm.sandbox import WasmSandbox


class Sandboxes:
    """All of them, made once; none starts a process before something runs in it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def wasm(self) -> WasmSandbox:
        """CPython in WebAssembly."""
        from prowess.sandbox.wasm.sandbox import WasmSandbox

        return WasmSandbox(self._settings.home)

    @cached_property
    def native(self) -> ProcessSandbox:
        """CPython in a locked process."""
        from prowess.sandbox.process.sandbox import ProcessSandbox

        return ProcessSandbox()

    @cached_property
    def deno(self) -> DenoSandbox:
        """TypeScript and JavaScript."""
        from prowess.sandbox.deno.sandbox import DenoSandbox

        return DenoSandbox()

    @cached_property
    def commands(self) -> LockedCommands:
        """Programs."""
        from prowess.sandbox.commands.locked import LockedCommands

        return LockedCommands()

    @cached_property
    def outbound(self) -> GuardedOutbound:
        """Requests to the world outside."""
        from prowess.outbound.guarded import GuardedOutbound

        return GuardedOutbound()

    @property
    def by_runtime(self) -> Mapping[RuntimeName, Sandbox]:
        """Those that functions run in."""
        return {"wasm": self.wasm, "native": self.native, "deno": self.deno}

    def build(self, progress: Callable[[str], None]) -> None:
        """Build the interpreter of the WASM sandbox where it is missing, which takes a minute or two."""
        from prowess.sandbox.wasm.component import ensure_component

        ensure_component(self._settings.home, progress)

    def provision(self, requirements: tuple[str, ...]) -> Path:
        """The folder of these packages; they are installed where they are not yet."""
        from prowess.sandbox.process.packages import ensure_packages

        return ensure_packages(self._settings.home, requirements, self._settings.environment)

    async def aclose(self) -> None:
        """End every process."""
        opened = vars(self)
        for name in ("wasm", "native", "deno"):
            if name in opened:
                await opened[name].close()
        if "outbound" in opened:
            self.outbound.close()
