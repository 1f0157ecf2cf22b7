"""The process that forks others for native runs, seen from outside: started when needed, asked by any thread."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any

from prowess.errors import RunFailed, Unavailable
from prowess.sandbox.confining.lock import NEEDED
from prowess.sandbox.programs import command

START_SECONDS, FORK_SECONDS = 60.0, 30.0
BUBBLEWRAP = "bubblewrap"
_WRAPPED = "--unshare-all --new-session --clearenv --cap-drop ALL --ro-bind / / --dev /dev --chdir / --"
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/usr/share/zoneinfo")
_MESSAGE_BYTES = 1 << 16
_HINT = (
    "Native runs need Linux 5.13 or later with Landlock and seccomp, on x86_64 or aarch64. `prowess doctor` says more."
)


class Zygote:
    """A process that is ready to fork others. It ends with this process."""

    def __init__(self, process: subprocess.Popen[bytes], asked: socket.socket, confined: tuple[str, ...]) -> None:
        self._process = process
        self._asked = asked
        self._turn = threading.Lock()
        self._spare: tuple[bytes, socket.socket] | None = None
        self.confined = confined
        """By what each process that it forks is confined."""

    @classmethod
    def start(cls) -> Zygote:
        """One that is ready; `Unavailable` where what it forks could not be confined."""
        if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
            raise Unavailable("Nothing can be run natively here: processes cannot be confined.", hint=_HINT)
        wrapping = shutil.which("bwrap")
        started = (_started([wrapping, *_WRAPPED.split()], (BUBBLEWRAP,)) if wrapping else None) or _started([], ())
        if started is None:
            raise Unavailable("Native runs cannot be started here.", hint=_HINT)
        missing = [word for word in NEEDED if word not in started.confined]
        if missing:
            started.end()
            raise Unavailable(f"Nothing can be run natively here: no limit on {' and '.join(missing)}.", hint=_HINT)
        return started

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def take(self, confinement: dict[str, Any]) -> socket.socket:
        """The line to a process that nobody has used, over which it will be told that the process has started."""
        asked = json.dumps(confinement).encode()
        with self._turn:
            spare, self._spare = self._spare, None
        if spare and spare[0] == asked:
            return spare[1]
        if spare:
            spare[1].close()
        return self._fork(asked)

    def prepare(self, confinement: dict[str, Any]) -> None:
        """Have a process waiting for the next that is to be confined in the same way."""
        asked = json.dumps(confinement).encode()
        with self._turn, contextlib.suppress(RunFailed):
            if self._spare is None and self.alive:
                self._spare = (asked, self._fork(asked))

    def _fork(self, asked: bytes) -> socket.socket:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._asked, [asked], [theirs.fileno()])
        except OSError as error:
            ours.close()
            raise RunFailed("The process that native runs start from broke.", hint="Try again.") from error
        return ours

    def end(self) -> None:
        """End it, and with it all that it forked."""
        self._process.kill()
        self._process.wait()
        self._close()

    def forget(self) -> None:
        """Let go of it without ending it, in a process that was forked from the one that it belongs to."""
        self._process.returncode = 0
        self._close()

    def _close(self) -> None:
        self._asked.close()
        if self._spare:
            self._spare[1].close()
            self._spare = None


def readable() -> list[str]:
    """What every native run may read: the standard library, and the libraries and time zones of the system."""
    paths = sysconfig.get_paths()
    found = [paths["stdlib"], paths["platstdlib"], f"{sys.base_prefix}/lib", *_LIBRARIES]
    return [path for path in dict.fromkeys(found) if Path(path).exists()]


def _started(wrapping: list[str], confined: tuple[str, ...]) -> Zygote | None:
    """A process that has said what it reaches; nothing where it ended before."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with theirs:
            process = subprocess.Popen(  # noqa: S603  (our own program)
                [*wrapping, *command("zygote", package="process.inside", read=readable())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
    except OSError as error:
        ours.close()
        raise Unavailable(f"Native runs cannot be started: {error.strerror}.") from error
    ours.settimeout(START_SECONDS)
    try:
        said = ours.recv(_MESSAGE_BYTES)
        ours.settimeout(FORK_SECONDS)
        reached: list[str] = json.loads(said)
    except (OSError, ValueError):
        process.kill()
        process.wait()
        ours.close()
        return None
    return Zygote(process, ours, (*confined, *reached))
