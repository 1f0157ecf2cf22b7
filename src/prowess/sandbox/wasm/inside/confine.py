"""Taking away from this process what running scripts does not need. What the system does not offer is passed over.

Nothing here is what keeps scripts in, which is the engine's work; it is what an error in the engine would meet next. What was
reached is told in the words of `confining.lock`.
"""

from __future__ import annotations

import contextlib
import os
import resource

from prowess.sandbox.confining import landlock, namespaces, privileges, seccomp
from prowess.sandbox.confining.kernel import machine

DATA_BYTES = 4 << 30
"""How much memory all scripts take together, besides the stacks of their threads."""
_NICE, _DESCRIPTORS = 5, 32
_CLOSED = ("calls", "network", "attributes")
"""What the filter of system calls leaves no way to."""


def confine_thread() -> list[str]:
    """Give up files, the network, privileges and most system calls; for the only thread there is, and those that it starts."""
    os.nice(_NICE)
    if not machine():
        return []
    reached = ["network"] if namespaces.leave_network() else []
    reached += privileges.drop()
    reached += landlock.keep_only(read=(), write=(), execute=())
    if seccomp.keep_only(seccomp.filter_for(may_start=False)):
        reached += [word for word in _CLOSED if word not in reached]
    return reached


def confine_process(stacks_bytes: int) -> list[str]:
    """Bound what is left; once every thread has been started, whose stacks take so much."""
    most = {"DATA": DATA_BYTES + stacks_bytes, "FSIZE": 0, "CORE": 0, "NOFILE": _DESCRIPTORS, "NPROC": 0}
    kept = {name for name, limit in most.items() if _set(name, limit)}
    words = {"memory": "DATA", "sizes": "FSIZE"}
    return [word for word, name in words.items() if name in kept]


def _set(name: str, limit: int) -> bool:
    """Whether a limit is kept."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
        return True
    return False
