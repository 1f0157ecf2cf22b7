"""The worker beside us: many runs at once, none of which stops us; cancelled, killed, orphaned and shared."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import pytest

from prowess.errors import RunFailed, Unavailable
from prowess.sandbox.confine.lockdown import probe_confinement
from prowess.sandbox.protocol import SandboxLimits
from prowess.sandbox.script import script_from_template
from prowess.sandbox.wasm.sandbox import MAX_CONCURRENT, WasmSandbox, Worker

pytestmark = pytest.mark.anyio

SPIN = script_from_template("import prowess\nprowess.started()\nwhile True: pass", {})
LONG = SandboxLimits(fuel=10**15, seconds=600)
PATIENCE_SECONDS = 60


@pytest.fixture
async def own(sandbox_home: Path):
    """A sandbox of one test's own, to be broken."""
    opened = WasmSandbox(sandbox_home)
    yield opened
    await opened.close()


def spinning(sandbox: WasmSandbox) -> tuple[asyncio.Task, asyncio.Event]:
    """A run that does not end, and the event that it has begun."""
    begun = asyncio.Event()

    async def started() -> None:
        begun.set()

    return asyncio.create_task(sandbox.run(SPIN, {"started": started}, LONG)), begun


async def test_scripts_wait_for_their_host_at_the_same_time(sandbox):
    barrier = asyncio.Barrier(MAX_CONCURRENT)

    async def meet() -> int:
        return await barrier.wait()

    script = script_from_template("import prowess\nprowess.submit(prowess.meet())", {})
    rans = await asyncio.gather(*(sandbox.run(script, {"meet": meet}) for _ in range(MAX_CONCURRENT)))
    assert sorted(ran.result for ran in rans) == list(range(MAX_CONCURRENT))


async def test_host_functions_run_in_the_context_of_their_run(sandbox):
    whose: ContextVar[str] = ContextVar("whose", default="nobody's")

    async def look() -> str:
        return whose.get()

    async def started_by(name: str) -> str:
        whose.set(name)
        return (
            await sandbox.run(
                script_from_template("import prowess\nprowess.submit(prowess.look())", {}), {"look": look}
            )
        ).result

    names = ["ann", "bob", "cid"]
    assert await asyncio.gather(*(asyncio.create_task(started_by(name)) for name in names)) == names


@pytest.mark.long
async def test_more_scripts_than_there_is_room_for_take_turns(sandbox):
    scripts = [
        script_from_template("import prowess\nprowess.submit({{ n }})", {"n": n}) for n in range(3 * MAX_CONCURRENT)
    ]
    rans = await asyncio.gather(*(sandbox.run(script, {}) for script in scripts))
    assert [ran.result for ran in rans] == list(range(3 * MAX_CONCURRENT))


async def test_the_event_loop_goes_on_while_a_script_computes(sandbox):
    run, begun = spinning(sandbox)
    await begun.wait()
    for _ in range(20):
        await asyncio.sleep(0)
        assert not run.done()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def test_a_cancelled_run_has_ended_and_its_worker_serves_on(sandbox):
    run, begun = spinning(sandbox)
    await begun.wait()
    before = sandbox.pids
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert (await sandbox.run(script_from_template("pass", {}), {})).ended == "done"
    assert sandbox.pids == before


async def test_a_run_that_is_cancelled_again_and_again_does_not_cost_the_others_their_worker(own):
    other, other_begun = spinning(own)
    run, begun = spinning(own)
    await begun.wait()
    await other_begun.wait()
    [worker] = own.pids
    while not run.done():
        run.cancel()
        await asyncio.sleep(0)
    assert run.cancelled()
    assert (own.pids, other.done()) == ([worker], False)
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other


async def test_what_a_cancelled_script_waits_for_is_cancelled_too(sandbox):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def started() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    run = asyncio.create_task(sandbox.run(SPIN, {"started": started}))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    async with asyncio.timeout(30):
        await ended.wait()


class Remembering(asyncio.SelectorEventLoop):
    """An event loop that knows what was to end a worker later."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[asyncio.TimerHandle] = []

    def call_later(self, delay, callback, *args, context=None):
        handle = super().call_later(delay, callback, *args, context=context)
        if isinstance(getattr(callback, "__self__", None), Worker):
            self.ends.append(handle)
        return handle


def test_a_run_that_was_cancelled_while_it_waited_does_not_cost_its_worker_later(sandbox):
    async def cancelled() -> None:
        begun = asyncio.Event()

        async def started() -> None:
            begun.set()
            await asyncio.Event().wait()

        run = asyncio.create_task(sandbox.run(SPIN, {"started": started}))
        await begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    with asyncio.Runner(loop_factory=Remembering) as runner:
        runner.run(cancelled())
        ends = runner.get_loop().ends
        assert ends
        assert all(handle.cancelled() for handle in ends)


async def test_a_killed_worker_fails_its_runs_and_not_the_next(own):
    runs = [spinning(own) for _ in range(3)]
    for _, begun in runs:
        await begun.wait()
    [worker] = own.pids
    os.kill(worker, signal.SIGKILL)
    for run, _ in runs:
        with pytest.raises(RunFailed):
            await run
    assert (await own.run(script_from_template("pass", {}), {})).ended == "done"
    assert own.pids != [worker]


async def test_a_run_that_its_worker_had_not_begun_when_it_died_is_given_to_another(own):
    await own.run(script_from_template("pass", {}), {})
    [worker] = own.pids
    stop(worker)
    runs = [
        asyncio.create_task(own.run(script_from_template("import prowess\nprowess.submit(1)", {}), {}))
        for _ in range(3)
    ]
    await asyncio.sleep(0)
    os.kill(worker, signal.SIGKILL)
    assert [(await run).result for run in runs] == [1, 1, 1]
    assert len(own.pids) == 1


async def test_a_worker_that_dies_at_rest_is_replaced(own):
    await own.run(script_from_template("pass", {}), {})
    [worker] = own.pids
    with dying(worker):
        os.kill(worker, signal.SIGKILL)
    assert (await own.run(script_from_template("pass", {}), {})).ended == "done"


async def test_a_worker_that_does_not_end_a_script_in_time_is_ended(own, monkeypatch):
    monkeypatch.setattr("prowess.sandbox.script_run.GRACE_SECONDS", 0.2)
    await own.run(script_from_template("pass", {}), {})
    [worker] = own.pids
    stop(worker)
    with pytest.raises(RunFailed):
        await own.run(script_from_template("pass", {}), {}, SandboxLimits(seconds=0.1))
    assert not own.pids


async def test_closing_ends_the_workers_and_a_later_run_starts_one(own):
    await own.run(script_from_template("pass", {}), {})
    [worker] = own.pids
    await own.close()
    assert not _runs(worker)
    assert (await own.run(script_from_template("pass", {}), {})).ended == "done"


async def test_an_interpreter_that_is_no_component_is_unavailable(tmp_path):
    path = tmp_path / "guest.cwasm"
    path.write_bytes(b"nonsense")
    with pytest.raises(Unavailable):
        await Worker.start(path, threads=1, spare_guests=0)


async def test_the_worker_is_confined_as_processes_of_native_runs_are(sandbox):
    await sandbox.run(script_from_template("pass", {}), {})
    assert {word for word in probe_confinement() if word != "processor"} <= set(sandbox.confined)


def test_no_thread_of_the_worker_can_open_or_start_anything(sandbox):
    asyncio.run(sandbox.run(script_from_template("pass", {}), {}))
    if "calls" not in sandbox.confined:
        pytest.skip("system calls cannot be filtered here")
    worker = sandbox.pids[0]
    told = [status.read_text() for status in Path(f"/proc/{worker}/task").glob("*/status")]
    assert len(told) > MAX_CONCURRENT
    for status in told:
        facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert (facts["Seccomp"], facts["NoNewPrivs"], int(facts["CapBnd"], 16)) == ("2", "1", 0)


async def test_a_run_says_by_what_its_worker_was_confined(sandbox):
    ran = await sandbox.run(script_from_template("pass", {}), {})
    assert ran.confined == sandbox.confined != ()


def test_event_loops_in_several_threads_are_served_at_once(sandbox):
    together = threading.Barrier(2)
    results: list[object] = []

    async def meet() -> None:
        await asyncio.to_thread(together.wait, 60)

    def serve(number: int) -> None:
        script = script_from_template("import prowess\nprowess.meet()\nprowess.submit({{ n }})", {"n": number})
        results.append(asyncio.run(sandbox.run(script, {"meet": meet})).result)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 1]


def test_a_worker_serves_the_next_event_loop_when_one_is_closed(sandbox_home):
    own = WasmSandbox(sandbox_home)
    pids = set()
    for number in range(3):
        script = script_from_template("import prowess\nprowess.submit({{ n }})", {"n": number})
        assert asyncio.run(own.run(script, {})).result == number
        pids.update(own.pids)
    asyncio.run(own.close())
    assert len(pids) == 1


FORKED = """
import asyncio, os, sys
from pathlib import Path
from prowess.sandbox.script import script_from_template
from prowess.sandbox.wasm.sandbox import WasmSandbox
sandbox = WasmSandbox(Path(sys.argv[1]))
def run():
    return asyncio.run(sandbox.run(script_from_template("import prowess\\nprowess.submit(1)", {}), {})).result
assert run() == 1
ours = sandbox.pids
if os.fork() == 0:
    good = run() == 1 and sandbox.pids != ours
    asyncio.run(sandbox.close())
    os._exit(0 if good else 1)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
assert run() == 1 and sandbox.pids == ours
"""


def test_a_forked_process_has_a_worker_of_its_own(sandbox_home):
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(sandbox_home)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


ORPHAN = """
import asyncio, sys
from pathlib import Path
from prowess.sandbox.script import script_from_template
from prowess.sandbox.wasm.sandbox import WasmSandbox
async def main():
    sandbox = WasmSandbox(Path(sys.argv[1]))
    async def started():
        print(sandbox.pids[0], flush=True)
    await sandbox.run(script_from_template("import prowess\\nprowess.started()\\nwhile True: pass", {}), {"started": started})
asyncio.run(main())
"""


def test_a_worker_ends_with_its_parent_however_that_ends(sandbox_home):
    program = [sys.executable, "-c", ORPHAN, str(sandbox_home)]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as parent, dying(int(parent.stdout.readline())):
        parent.kill()


def stop(pid: int) -> None:
    """Stop a process of ours, and wait until all its threads stand still: a signal takes a while to reach them."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


@contextmanager
def dying(pid: int) -> Iterator[None]:
    """What is done in it ends a process; it is over when the process is."""
    process = os.pidfd_open(pid)
    try:
        yield
        assert select.select([process], [], [], PATIENCE_SECONDS)[0], "the worker lives on"
    finally:
        os.close(process)


def _runs(pid: int) -> bool:
    """Whether a process is there, and not only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
