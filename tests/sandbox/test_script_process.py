"""One process of one run, whatever it says: frames that nobody can have meant end it, and floods leave others their turn."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from prowess.child import frames
from prowess.child import process as speaking
from prowess.sandbox.protocol import DEFAULT_LIMITS
from prowess.sandbox.script_process import ScriptProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are confined on Linux alone")

STARTED = frames.encode_frame(frames.ONLY, frames.STARTED)
DONE = frames.encode_frame(frames.ONLY, frames.DONE, b"{}")
PRINT = frames.encode_frame(frames.ONLY, frames.CALL, b"print\n.")

Said = Callable[..., dict[str, str]]


@pytest.fixture
def said() -> Said:
    """How a run ends whose process says this; `beside` is done at the same time."""

    def ended(first: bytes, *then: bytes, beside: Callable[[], Awaitable[None]] | None = None) -> dict[str, str]:
        return asyncio.run(_ended(first, b"".join(then), beside))

    return ended


async def _ended(first: bytes, then: bytes, beside: Callable[[], Awaitable[None]] | None) -> dict[str, str]:
    with subprocess.Popen(["sleep", "600"]) as process:  # noqa: ASYNC220  (it stands for the other process)
        ours, theirs = socket.socketpair()
        child = ScriptProcess(ours, replace(DEFAULT_LIMITS, seconds=30.0), ())
        result = child.open(frames.ONLY, lambda *_: None, lambda: None)
        other = asyncio.ensure_future(beside()) if beside else None
        descriptor = os.pidfd_open(process.pid)
        socket.send_fds(theirs, [first], [descriptor])
        os.close(descriptor)
        await asyncio.to_thread(_send, theirs, then)
        told = json.loads((await result).partition(b"\n")[0])
        if other:
            other.cancel()
        return told


def _send(line: socket.socket, said: bytes) -> None:
    with line:
        try:
            line.sendall(said)
        except OSError:
            return


def test_a_process_says_once_that_it_has_started(said: Said):
    assert said(STARTED, DONE)["word"] == "done"
    told = said(STARTED, STARTED, DONE)
    assert (told["word"], told["detail"]) == ("crashed", "it sent an invalid message")


def test_nothing_is_taken_before_it_has_started(said: Said):
    assert said(DONE)["detail"] == "it sent an invalid message"
    assert said(PRINT, STARTED, DONE)["detail"] == "it sent an invalid message"


def test_a_flood_of_frames_leaves_others_their_turn(said: Said, monkeypatch):
    monkeypatch.setattr(speaking, "SLICE_SECONDS", 0.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    told = said(STARTED, PRINT * 5_000, DONE, beside=count)
    assert (told["word"], told["stdout"]) == ("done", "." * 5_000)
    assert turns > 4_000


def test_what_comes_in_pieces_is_put_together_however_long_that_takes(said: Said, monkeypatch):
    monkeypatch.setattr(speaking, "_CHUNK", 7)
    assert said(STARTED, PRINT * 50, DONE)["stdout"] == "." * 50
