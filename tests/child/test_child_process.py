"""Children of this process: started with nothing of ours, spoken to in frames, and killed with all that they started."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import sys

import pytest

from prowess.child import frames
from prowess.child.process import ChildProcess, Children, FrameChannel, python_command

ECHO = "import sys, os\nwhile data := os.read(0, 65536): os.write(1, data)"


def start(code: str, **options) -> ChildProcess:
    return ChildProcess.start(python_command("-c", code), **options)


def read_until_exit(pid: int) -> bool:
    """Whether a process that may not be ours ends within a minute."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], 60)[0])
    finally:
        os.close(watched)


@pytest.mark.parametrize("size", [1, 5, 9, 100])
def test_frames_are_put_together_from_pieces_of_any_size(size):
    sent = [(1, frames.CALL, b"abc"), (2, frames.DONE, b""), (1, frames.RETURN, b"x" * 50)]
    data = b"".join(frames.encode_frame(*frame) for frame in sent)
    buffer, received = frames.FrameBuffer(100), []
    for at in range(0, len(data), size):
        buffer.feed(data[at : at + size])
        while frame := buffer.next():
            received.append(frame)
    assert received == sent


@pytest.mark.parametrize(
    ("size", "run"), [(101, 1), (1, 2)], ids=["a frame that is too large", "a frame of another run"]
)
def test_a_frame_is_refused_by_its_header(size, run):
    buffer = frames.FrameBuffer(100, run=1)
    buffer.feed(frames.HEADER.pack(size, run, frames.CALL))
    with pytest.raises(frames.InvalidFrame):
        buffer.next()


def test_a_child_has_no_environment_and_another_session(monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    child = start("import os, json; print(json.dumps([dict(os.environ), os.getcwd(), os.getsid(0)]))", channel="stdio")
    with child.channel.makefile() as answers:
        line = answers.readline()
    assert "SECRET" not in line
    assert f'"/", {child.pid}]' in line
    assert child.end(grace=60) == 0


def test_ending_a_child_kills_what_it_started():
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True); sys.stdin.read()"
    child = start(code, channel="stdio")
    with child.channel.makefile() as answers:
        grandchild = int(answers.readline())
    child.end()
    assert read_until_exit(grandchild)
    assert not child.alive


def test_what_a_child_left_behind_is_killed_after_it_exited_by_itself():
    code = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    child = start(code, channel="stdio")
    with child.channel.makefile() as answers:
        grandchild = int(answers.readline())
    assert read_until_exit(child.pid)
    assert not child.alive
    child.end()
    assert read_until_exit(grandchild)


def test_a_child_that_exits_within_the_grace_is_not_killed():
    child = start("import sys; sys.stdin.read(); raise SystemExit(3)")
    assert child.end(grace=60) == 3


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_abandons_the_children_of_its_parent():
    children: Children[ChildProcess] = Children()
    child = start("import sys; sys.stdin.read()")
    with children as held:
        held.append(child)
    forked = os.fork()
    if not forked:
        children.end()
        os._exit(0 if not children.snapshot() and not child.alive else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
    assert child.alive
    children.end()
    assert not child.alive


def test_a_channel_delivers_frames_and_the_end():
    received: list[tuple[int, int, bytes]] = []

    async def exchange() -> None:
        child = start(ECHO, channel="stdio")
        ended = asyncio.get_running_loop().create_future()

        def take(*frame) -> None:
            received.append(frame)
            if len(received) == 2:
                child.channel.shutdown(socket.SHUT_WR)

        channel = FrameChannel(child.channel, frames.FrameBuffer(1 << 21), take, ended.set_result)
        channel.attach(asyncio.get_running_loop())
        channel.send(1, frames.RUN, b"x" * (1 << 20))
        channel.send(2, frames.RUN, b"y")
        async with asyncio.timeout(60):
            assert await ended is False
        channel.close()
        child.end()

    asyncio.run(exchange())
    assert received == [(1, frames.RUN, b"x" * (1 << 20)), (2, frames.RUN, b"y")]


def test_a_program_that_is_not_there_is_an_error_of_the_system():
    with pytest.raises(FileNotFoundError):
        ChildProcess.start(["/nonexistent/program"])


def test_a_child_with_its_channel_as_an_argument_has_pipes():
    code = "import socket, sys; line = socket.socket(fileno=int(sys.argv[1])); line.sendall(sys.stdin.buffer.read())"
    child = start(code, channel="argument")
    stdin, _, _ = child.pipes
    stdin.write(b"hello")
    stdin.close()
    child.channel.settimeout(60)
    assert child.channel.recv(100) == b"hello"
    assert child.end(grace=60) == 0


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox of processes is for Linux alone")
