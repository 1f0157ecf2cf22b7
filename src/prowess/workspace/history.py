"""The history of a file, from the git repository that it lies in, if it lies in one.

Whatever that repository's own settings say, nothing of it is run: no hook, no pager, no monitor, no signature check, no
filter, and nothing is fetched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

from prowess.errors import Unavailable

SECONDS = 10.0

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.attributesFile=/dev/null",
    "log.showSignature=false",
    "log.mailmap=false",
    "protocol.allow=never",
)
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_PAGER": "cat",
    "HOME": os.devnull,
    "LC_ALL": "C.UTF-8",
}
_FORMAT = "%H%x00%aI%x00%<(120,trunc)%an%x00%<(300,trunc)%s%x00"
_FIELDS = ("commit", "at", "author", "subject")


def history_of(root: str, path: str, limit: int) -> list[dict[str, Any]]:
    """The commits that changed a file, the last first; none where there is no git, no repository or no commit of it.

    `Unavailable` where git takes too long.
    """
    git = shutil.which("git")
    if git is None:
        return []
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    command = [git, *settings, "--no-pager", "--literal-pathspecs", "-C", root, "log", "--no-ext-diff", "--no-textconv"]
    command += ["--no-show-signature", "--no-color", "--no-decorate", f"--max-count={limit}", f"--format={_FORMAT}"]
    try:
        ran = subprocess.run(  # noqa: S603  (a list of arguments, the path after "--")
            [*command, "--", path],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env={**_ENVIRONMENT, "PATH": os.environ.get("PATH", os.defpath)},
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"git took longer than {SECONDS:.0f} s for the history of {path!r}.", hint="Try again, or ask for less."
        ) from None
    return _commits(ran.stdout.decode("utf-8", "replace")) if ran.returncode == 0 else []


def _commits(text: str) -> list[dict[str, Any]]:
    """Four fields each, every one with a NUL after it."""
    values = [value.strip() for value in text.split("\x00")][:-1]
    return [
        dict(zip(_FIELDS, values[start : start + len(_FIELDS)], strict=True))
        for start in range(0, len(values), len(_FIELDS))
    ]
