"""The state of this device's syncs: the last location, and the skills on both sides after each sync."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prowess.errors import Invalid, TryLater, Unavailable
from prowess.skill.json_values import json_object
from prowess.storage.secret_file import read_secret, write_secret

KEY_FILE = "sync.key"
_STATE_FILE = "sync.json"
_LOCK_FILE = "sync.lock"
_MIN_KEY_CHARS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSync:
    """A channel as it was here and at the location after the last push or pull."""

    generation: int = 0
    digests: Mapping[str, str] = field(default_factory=dict[str, str])


class DeviceState:
    """The files of a home folder that belong to the sync between devices. Blocking."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._key_path = home / KEY_FILE

    @property
    def device(self) -> str:
        """The name under which this device pushes."""
        return socket.gethostname()[:80] or "a device"

    def key(self) -> str:
        """Return the owner's key; '' if this device has none yet."""
        return read_secret(self._key_path) or ""

    def set_key(self, key: str) -> None:
        """Keep the key of the owner's other devices, replacing an older one."""
        if len(key) < _MIN_KEY_CHARS or not key.isascii() or not key.isprintable() or " " in key:
            raise Invalid(
                f"That is not a sync key: it needs at least {_MIN_KEY_CHARS} letters and digits.",
                hint="Run `prowess sync key` on your other device, and copy all of it.",
            )
        write_secret(self._key_path, key)

    @property
    def location(self) -> str:
        """The location of the last sync; '' before the first."""
        return str(self._read().get("location") or "")

    def last(self, location: str, place: str, channel: str) -> LastSync:
        """Return the last sync of a channel with a location, for the workspace or account at `place`."""
        channels = json_object(self._read().get("channels"))
        row = json_object(channels.get(_channel_key(location, place, channel)))
        digests = {slug: str(digest) for slug, digest in json_object(row.get("skills")).items()}
        generation = row.get("generation")
        return LastSync(generation=generation if isinstance(generation, int) else 0, digests=digests)

    def remember(self, location: str, place: str, channel: str, last: LastSync) -> None:
        """Store the result of a sync."""
        state = self._read()
        row = {"generation": last.generation, "skills": dict(sorted(last.digests.items()))}
        channels = {**json_object(state.get("channels")), _channel_key(location, place, channel): row}
        self._write({**state, "location": location, "channels": channels})

    @contextmanager
    def locked(self) -> Generator[None]:
        """Let one sync of this device run at a time; raise `TryLater` if another one is running."""
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._home / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _cannot_write(self._home, error) from error
        with os.fdopen(descriptor, "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise TryLater("Another sync is running on this device.", hint="Try again when it is done.") from None
            yield

    def _read(self) -> dict[str, Any]:
        try:
            return json_object(json.loads((self._home / _STATE_FILE).read_bytes()))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError):
            # Without a state every difference counts as a change on both sides, so nothing can be overwritten.
            return {}

    def _write(self, state: Mapping[str, Any]) -> None:
        target = self._home / _STATE_FILE
        temporary = target.with_name(f".{_STATE_FILE}-{os.getpid()}")
        try:
            temporary.write_text(json.dumps(state, indent=1))
            temporary.replace(target)
        except OSError as error:
            raise _cannot_write(target, error) from error


def _channel_key(location: str, place: str, channel: str) -> str:
    # With the place: two workspaces of the same name on one device must not take each other's skills for deleted.
    return json.dumps([location, place, channel])


def _cannot_write(path: Path, error: OSError) -> Unavailable:
    return Unavailable(f"Cannot write {str(path)!r}: {error.strerror}.", hint="Check the permissions of PROWESS_HOME.")
