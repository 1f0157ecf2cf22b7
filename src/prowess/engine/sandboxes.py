"""The sandboxes of an engine, each made when it is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.settings import Settings

if TYPE_CHECKING:
    from prowess.handlers.function import RuntimeName
    from prowess.net.client import GuardedHttpClient
    from prowess.sandbox.commands.sandbox import LockedCommandSandbox
    from prowess.sandbox.deno.sandbox import DenoSandbox
    from prowess.sandbox.process.sandbox import ProcessSandbox
    from prowess.sandbox.protocol import Sandbox
    from prowess.sandbox.wasm.sandbox import WasmSandbox


class Sandboxes:
    """The sandboxes, the command runner and the HTTP client, made once. No process starts before something runs in it."""

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
    def commands(self) -> LockedCommandSandbox:
        """Runs programs of this machine."""
        from prowess.sandbox.commands.sandbox import LockedCommandSandbox

        return LockedCommandSandbox()

    @cached_property
    def outbound(self) -> GuardedHttpClient:
        """Sends requests to allowed hosts."""
        from prowess.net.client import GuardedHttpClient

        return GuardedHttpClient()

    @property
    def by_runtime(self) -> Mapping[RuntimeName, Sandbox]:
        """The sandboxes that functions run in."""
        return {"wasm": self.wasm, "native": self.native, "deno": self.deno}

    def build(self, progress: Callable[[str], None]) -> None:
        """Build the interpreter of the WASM sandbox if it is missing. This takes a minute or two."""
        from prowess.sandbox.wasm.component import ensure_component

        ensure_component(self._settings.home, progress)

    def provision(self, requirements: tuple[str, ...]) -> Path:
        """Return the folder of these packages; install them if necessary."""
        from prowess.sandbox.process.packages import ensure_packages

        return ensure_packages(self._settings.home, requirements, self._settings.environment)

    async def aclose(self) -> None:
        """End every process."""
        opened = vars(self)
        # A cached property is in `vars` once it was used; nothing is opened just to be closed.
        for name in ("wasm", "native", "deno"):
            if name in opened:
                await opened[name].close()
        if "outbound" in opened:
            self.outbound.close()
