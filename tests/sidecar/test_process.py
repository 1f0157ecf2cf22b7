"""The sidecar's process: shared, confined, stopped when idle, and started again after a crash."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from pathlib import Path

import pytest

from prowess.errors import AnswerUnusable, Invalid, SidecarFailed, TooLarge, Unavailable
from prowess.sandbox.confine.kernel import machine
from prowess.sidecar import connection, process
from prowess.sidecar.environment import SidecarEnvironment
from prowess.sidecar.process import ProcessSidecar
from prowess.sidecar.protocol import Program
from prowess.threads import offload

pytestmark = pytest.mark.anyio


def named(template: str) -> Program:
    return Program(template_id=template, signature="a -> b", options={"n": 1})


def await_exit(pid: int) -> bool:
    """Return True if a process that is not our child ends within a minute."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], 60)[0])
    finally:
        os.close(watched)


async def test_nothing_is_started_before_the_first_request_and_one_process_serves_all(start, callbacks) -> None:
    sidecar = start()
    assert sidecar.pid is None
    outputs = await asyncio.gather(*(sidecar.execute(named("echo"), {"a": n}, callbacks) for n in range(20)))
    assert outputs == [{"a": n, "signature": "a -> b", "options": {"n": 1}} for n in range(20)]
    pid = sidecar.pid
    assert (await sidecar.manifest()).dspy == "3.4.1"
    assert sidecar.pid == pid


async def test_calls_of_a_program_are_answered_and_a_refusal_is_an_answer_too(start, callbacks) -> None:
    sidecar = start()
    asked = await sidecar.execute(named("ask"), {"kind": "llm", "payload": {"messages": []}}, callbacks)
    assert asked["reply"] == {"value": {"text": "hello", "asked": {"messages": []}}}
    refused = await sidecar.execute(named("ask"), {"kind": "tool", "payload": {}}, callbacks)
    assert refused["reply"] == {"error": {"type": "refused", "message": "Not this tool. Use another."}}
    unknown = await sidecar.execute(named("ask"), {"kind": "shell", "payload": {}}, callbacks)
    assert unknown["reply"]["error"]["type"] == "invalid"


async def test_a_bug_in_a_callback_ends_the_request_and_not_the_process(start, callbacks) -> None:
    sidecar = start()
    with pytest.raises(ZeroDivisionError):
        await sidecar.execute(named("ask"), {"kind": "code", "payload": {}}, callbacks)
    assert await sidecar.execute(named("echo"), {}, callbacks)


@pytest.mark.parametrize(
    ("told", "error"),
    [
        *(("InvalidOptions", Invalid), ("UnknownTemplate", Invalid), ("InvalidState", Unavailable)),
        *(("InvalidOutput", AnswerUnusable), ("TemplateFailed", SidecarFailed)),
    ],
)
async def test_errors_of_the_program_have_their_type(start, callbacks, told, error) -> None:
    with pytest.raises(error, match="as asked"):
        await start().execute(named(told), {}, callbacks)


async def test_a_crash_fails_all_requests_and_the_next_one_starts_the_process_again(start, callbacks) -> None:
    sidecar = start()
    asked = asyncio.Event()

    class Waiting(type(callbacks)):
        async def llm(self, _payload):
            asked.set()
            await asyncio.Event().wait()

    hanging = asyncio.create_task(sidecar.execute(named("hang"), {}, Waiting()))
    await asked.wait()
    with pytest.raises(SidecarFailed, match=r"exited with 3.*it broke") as crashed:
        await sidecar.execute(named("crash"), {}, callbacks)
    assert crashed.value.code == "sidecar-failed"
    with pytest.raises(SidecarFailed):
        await hanging
    assert await sidecar.execute(named("echo"), {"a": 1}, callbacks)


async def test_each_organization_has_a_process_of_its_own_and_a_crash_harms_only_its_own(start, callbacks) -> None:
    sidecar = start()
    acme, globex = sidecar.for_organization("acme"), sidecar.for_organization("globex")
    asked, answer = asyncio.Event(), asyncio.Event()

    class Waiting(type(callbacks)):
        async def llm(self, _payload):
            asked.set()
            await answer.wait()
            return {"text": "late"}

    asking = {"kind": "llm", "payload": {"messages": []}}
    working = asyncio.create_task(globex.execute(named("ask"), asking, Waiting()))
    await asked.wait()
    pid = globex.pid
    for _ in range(process.MAX_STARTS):
        with pytest.raises(SidecarFailed):
            await acme.execute(named("crash"), {}, callbacks)
    with pytest.raises(Unavailable):
        await acme.execute(named("echo"), {}, callbacks)
    answer.set()
    assert (await working)["reply"] == {"value": {"text": "late"}}
    assert await globex.execute(named("echo"), {}, callbacks)
    assert globex.pid == pid
    assert sidecar.for_organization("globex").pid == pid


async def test_the_process_that_is_idle_for_longest_ends_for_another_organization(
    start, callbacks, monkeypatch
) -> None:
    monkeypatch.setattr(process, "MAX_PROCESSES", 2)
    sidecar = start()
    acme, globex, initech = map(sidecar.for_organization, ("acme", "globex", "initech"))
    for one in (acme, globex, initech):
        await one.execute(named("echo"), {}, callbacks)
    assert acme.pid is None
    assert globex.pid
    assert initech.pid
    asked = asyncio.Event()

    class Waiting(type(callbacks)):
        async def llm(self, _payload):
            asked.set()
            await asyncio.Event().wait()

    busy: list[asyncio.Task[object]] = []
    for one in (globex, initech):
        asked.clear()
        busy.append(asyncio.create_task(one.execute(named("hang"), {}, Waiting())))
        await asked.wait()
    with pytest.raises(Unavailable, match="2 organizations are using"):
        await acme.execute(named("echo"), {}, callbacks)
    busy[0].cancel()
    await asyncio.gather(busy[0], return_exceptions=True)
    assert await acme.execute(named("echo"), {}, callbacks)
    assert initech.pid
    busy[1].cancel()


async def test_a_process_that_goes_on_with_cancelled_requests_ends_soon(start, callbacks, monkeypatch) -> None:
    monkeypatch.setattr(connection, "ABANDONED_SECONDS", 0.05)
    sidecar = start()
    asked = asyncio.Event()

    class Waiting(type(callbacks)):
        async def llm(self, _payload):
            asked.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(sidecar.execute(named("hang"), {}, Waiting()))
    await asked.wait()
    pid = sidecar.pid
    running.cancel()
    assert pid is not None
    assert await offload(await_exit, pid)


async def test_a_process_that_crashes_again_and_again_is_not_started_for_ever(start, callbacks, monkeypatch) -> None:
    monkeypatch.setattr(process, "MAX_STARTS", 2)
    sidecar = start()
    for _ in range(2):
        with pytest.raises(SidecarFailed):
            await sidecar.execute(named("crash"), {}, callbacks)
    with pytest.raises(Unavailable, match="2 times"):
        await sidecar.execute(named("echo"), {}, callbacks)


async def test_a_line_that_is_too_long_or_not_json_ends_the_process(start, callbacks, monkeypatch) -> None:
    sidecar = start()
    with pytest.raises(SidecarFailed, match="invalid message"):
        await sidecar.execute(named("shout"), {}, callbacks)
    monkeypatch.setattr(connection, "MAX_LINE_BYTES", 1 << 17)
    with pytest.raises(SidecarFailed, match="too long"):
        await sidecar.execute(named("shout"), {}, callbacks)
    with pytest.raises(TooLarge):
        await sidecar.execute(named("echo"), {"a": "x" * (1 << 18)}, callbacks)


@pytest.mark.parametrize("result", [{}, {"outputs": None}, {"outputs": [1]}, {"outputs": "abc"}])
async def test_an_answer_without_outputs_is_a_failure_of_the_sidecar(start, callbacks, result) -> None:
    with pytest.raises(SidecarFailed, match="no outputs"):
        await start().execute(named("answer"), result, callbacks)


@pytest.mark.parametrize("value", ["1e999", "NaN", "[" * 100 + "]" * 100])
async def test_values_that_cannot_be_stored_fail_their_request_alone(start, callbacks, value) -> None:
    sidecar = start()
    other = asyncio.create_task(sidecar.execute(named("hang"), {}, callbacks))
    with pytest.raises(AnswerUnusable):
        await sidecar.execute(named("raw"), {"outputs": value}, callbacks)
    assert await sidecar.execute(named("echo"), {"a": 1}, callbacks)
    assert not other.done()
    other.cancel()


async def test_more_messages_than_the_caller_can_handle_end_the_process(start, callbacks, monkeypatch) -> None:
    sidecar = start()
    await sidecar.version()
    monkeypatch.setattr(process, "MAX_WAITING", 0)
    with pytest.raises(SidecarFailed, match="invalid message"):
        await sidecar.execute(named("echo"), {}, callbacks)


async def test_parameters_larger_than_the_socket_arrive_whole(start, callbacks) -> None:
    text = "x" * 3_000_000
    assert (await start().execute(named("echo"), {"a": text}, callbacks))["a"] == text


async def test_an_idle_process_is_stopped_and_started_again_by_the_next_request(start, callbacks) -> None:
    sidecar = start(idle_seconds=0.05)
    await sidecar.manifest()
    first = sidecar.pid
    assert first is None or await offload(await_exit, first)
    assert await sidecar.execute(named("echo"), {}, callbacks)


async def test_a_process_that_talks_without_being_asked_is_idle_all_the_same(start, callbacks) -> None:
    sidecar = start(idle_seconds=1.0)
    await sidecar.execute(named("chatter"), {}, callbacks)
    pid = sidecar.pid
    assert pid is None or await offload(await_exit, pid)


async def test_cancelling_cancels_in_the_sidecar_and_leaves_the_process(start, callbacks) -> None:
    sidecar = start()
    asked = asyncio.Event()
    ended = asyncio.Event()

    class Waiting(type(callbacks)):
        async def llm(self, _payload):
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    running = asyncio.create_task(sidecar.execute(named("hang"), {}, Waiting()))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await ended.wait()
    pid = sidecar.pid
    await sidecar.execute(named("echo"), {}, callbacks)
    assert sidecar.pid == pid


def test_event_loops_of_several_threads_share_one_process(program: Path, tmp_path: Path, callbacks) -> None:
    sidecar = ProcessSidecar(SidecarEnvironment(tmp_path, named=sys.executable, program=program).find)
    pids: list[int | None] = []

    def ask() -> None:
        asyncio.run(sidecar.execute(named("ask"), {"kind": "llm", "payload": {}}, callbacks))
        pids.append(sidecar.pid)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(sidecar.execute(named("echo"), {}, callbacks))
    assert len({*pids, sidecar.pid}) == 1
    asyncio.run(sidecar.close())
    assert not [one for one in threading.enumerate() if one.name == "prowess-sidecar"]


def test_the_process_ends_with_the_object_that_started_it(program: Path, tmp_path: Path, callbacks) -> None:
    sidecar = ProcessSidecar(SidecarEnvironment(tmp_path, named=sys.executable, program=program).find)
    asyncio.run(sidecar.manifest())
    pid = sidecar.pid
    assert pid is not None
    del sidecar
    assert await_exit(pid)


@pytest.mark.skipif(not machine(), reason="this system cannot confine processes")
async def test_it_has_no_key_no_network_and_no_file_but_its_own(start, callbacks, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    private = tmp_path / "private.txt"
    private.write_text("x")
    sidecar = start()
    seen = await sidecar.execute(named("environment"), {"path": str(private)}, callbacks)
    environ = await offload(Path(f"/proc/{sidecar.pid}/environ").read_text)
    assert "HOME=" in environ
    assert "sk-secret" not in environ
    assert not [name for name in seen["names"] if "KEY" in name or "PROWESS" in name]
    assert seen["network"] == "denied"
    assert seen["files"] == "PermissionError"
    assert "written" not in seen["written"]
    assert {"network", "files", "calls"} <= set(sidecar.confined)


async def test_a_disk_that_is_full_is_unavailable(start, callbacks, monkeypatch) -> None:
    def fail() -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(connection, "new_folder", fail)
    with pytest.raises(Unavailable, match="No space left"):
        await start().execute(named("echo"), {}, callbacks)


async def test_a_program_that_does_not_start_is_unavailable(tmp_path: Path, callbacks) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "__main__.py").write_text("raise SystemExit('no dspy here')")
    sidecar = ProcessSidecar(SidecarEnvironment(tmp_path, named=sys.executable, program=folder).find)
    with pytest.raises(Unavailable, match=r"exited with 1\. no dspy here"):
        await sidecar.execute(named("echo"), {}, callbacks)
