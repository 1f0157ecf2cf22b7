"""The sidecar as a process for each organization: started by the first request, stopped when idle, started again after a crash."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Final, Self, cast

from prowess.errors import AnswerUnusable, Invalid, ProwessError, SidecarFailed, Unavailable
from prowess.sidecar.connection import Connection, Ended
from prowess.sidecar.environment import SidecarProgram
from prowess.sidecar.protocol import PROTOCOL_VERSION, Callbacks, Manifest, Optimized, OptimizeRequest, Program
from prowess.skill.json_values import json_list, json_object
from prowess.skill.kinds import JsonObject
from prowess.threads import offload

IDLE_SECONDS: Final = 300.0
MAX_STARTS: Final = 4
"""How often it is started within `START_WINDOW_SECONDS`. One that crashes again and again is not started forever."""
START_WINDOW_SECONDS: Final = 60.0
MAX_PROCESSES: Final = 8
"""How many organizations have a process at a time. One takes about 100 MB."""
MAX_CALLS: Final = 32
"""How many calls of one request are answered at a time."""
MAX_WAITING: Final = 1_000
"""How many messages about one request may wait for the event loop of its caller. They are kept in memory."""

OnProgress = Callable[[JsonObject], None]


class ProcessSidecar:
    """The sidecar in a process that all event loops share. Nothing is started before the first request.

    Each organization has its own process: one that computes without end, takes all memory or crashes harms only the
    organization that caused it. `find_program` returns the command; it may block, and install the program first.
    """

    def __init__(self, find_program: Callable[[], SidecarProgram], *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._find_program = find_program
        self._idle_seconds = idle_seconds
        self._organization = ""
        self._origin: ProcessSidecar | None = None
        self._holder = _Holder()
        # The holder, not `self.close`: a reference to `self` would keep this object alive.
        weakref.finalize(self, self._holder.end)

    def for_organization(self, organization: str) -> Self:
        """Return the sidecar whose process only this organization uses."""
        own = copy.copy(self)
        # The processes end with the origin, so it has to live as long as this.
        vars(own).update(_organization=organization, _origin=self._origin or self)
        return own

    @property
    def pid(self) -> int | None:
        """The process id, or None if it is not running."""
        current = self._holder.find(self._organization)
        return current.pid if current and current.is_alive else None

    @property
    def confined(self) -> tuple[str, ...]:
        """How the process is confined; empty if it is not running."""
        current = self._holder.find(self._organization)
        return current.confined if current and current.is_alive else ()

    async def version(self) -> str:
        """Return its version of DSPy."""
        _, hello = await self._connect()
        return str(hello.get("dspy", ""))

    async def manifest(self) -> Manifest:
        """Return what it offers."""
        result = await self._request({"type": "manifest"})
        return Manifest(
            dspy=str(result.get("dspy", "")),
            python=str(result.get("python", "")),
            templates=json_object(result.get("templates")),
            optimizers=tuple(map(str, json_list(result.get("optimizers")))),
        )

    async def execute(self, program: Program, params: JsonObject, callbacks: Callbacks) -> JsonObject:
        """Run a program and return its outputs by field."""
        message = {"type": "execute", **_program_fields(program), "params": params}
        result = await self._request(message, callbacks)
        if not isinstance(result.get("outputs"), dict):
            raise SidecarFailed("The program in the DSPy sidecar returned no outputs.")
        return result["outputs"]

    async def optimize(self, request: OptimizeRequest, callbacks: Callbacks, on_progress: OnProgress) -> Optimized:
        """Optimize a program."""
        message = {
            "type": "optimize",
            **_program_fields(request.program),
            "optimizer": request.optimizer,
            "training_data": list(request.training),
            "validation_data": list(request.validation),
            "optimizer_options": request.options,
            "seed": request.seed,
            "metric": "parent",
        }
        result = await self._request(message, callbacks, on_progress)
        score: Any = result.get("score")
        return Optimized(
            state=json_object(result.get("state_blob")) or None,
            dspy=str(result.get("dspy", "")),
            score=float(score) if isinstance(score, float | int) else None,
            complete=bool(result.get("complete", True)),
        )

    async def close(self) -> None:
        """Stop the processes of all organizations; a later request starts another one."""
        await offload(self._holder.end)

    async def _connect(self) -> tuple[Connection, JsonObject]:
        """Return the connection and what the sidecar said when it was ready; start it if necessary."""
        connection = self._holder.find(self._organization)
        if connection is None or not connection.is_alive:
            connection = await offload(self._holder.start, self._organization, self._find_program, self._idle_seconds)
        if not connection.hello.done():
            # Shielded: other requests wait for the same future.
            await asyncio.shield(asyncio.wrap_future(connection.hello))
        hello = connection.hello.result()
        _check_protocol(hello)
        return connection, hello

    async def _request(
        self, message: JsonObject, callbacks: Callbacks | None = None, on_progress: OnProgress | None = None
    ) -> JsonObject:
        while True:
            connection, _ = await self._connect()
            exchange = _Exchange(connection, callbacks, on_progress)
            try:
                number = connection.open(message, exchange)
            except Ended:
                continue  # it became idle at this moment
            return await exchange.ended(number)


def _program_fields(program: Program) -> JsonObject:
    return {
        "template_id": program.template_id,
        "signature": program.signature or None,
        "options": program.options,
        "state_blob": program.state,
    }


def _check_protocol(hello: JsonObject) -> None:
    spoken = hello.get("protocol", PROTOCOL_VERSION)
    if spoken != PROTOCOL_VERSION:
        raise Unavailable(
            f"The DSPy sidecar speaks version {spoken} of the protocol; this Prowess speaks {PROTOCOL_VERSION}.",
            hint="Rebuild the binary that PROWESS_SIDECAR names, or unset it.",
        )


class _Holder:
    """The connections of this process by organization, for any number of threads. In a fork of the process there are none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._starts: dict[str, list[float]] = {}
        self._connections: dict[str, Connection] = {}

    def find(self, organization: str) -> Connection | None:
        """Return the last connection of an organization, which may have ended."""
        return self._connections.get(organization)

    def start(self, organization: str, find_program: Callable[[], SidecarProgram], idle_seconds: float) -> Connection:
        """Return a connection that accepts requests; start the process if there is none. Blocking."""
        if os.getpid() != self._owner:
            # The lock may have been held by a thread that does not exist in the fork.
            self._lock, self._owner, self._starts, self._connections = threading.Lock(), os.getpid(), {}, {}
        with self._lock:
            current = self._connections.get(organization)
            if current is None or not current.is_alive:
                program = find_program()
                self._make_room()
                self._count_start(organization)
                current = self._connections[organization] = Connection(program, idle_seconds=idle_seconds)
            return current

    def end(self) -> None:
        """End all processes."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            if connection.is_alive:
                connection.close()

    def _make_room(self) -> None:
        """Forget what has ended, and end the process that is idle for longest if there are too many."""
        self._connections = {name: one for name, one in self._connections.items() if one.is_alive}
        while len(self._connections) >= MAX_PROCESSES:
            idle = {name: since for name, one in self._connections.items() if (since := one.idle_since) is not None}
            if not idle:
                raise Unavailable(
                    f"{MAX_PROCESSES} organizations are using the DSPy sidecar, and more are not allowed at a time.",
                    hint="Try again later.",
                )
            name = min(idle, key=idle.__getitem__)
            # Its requests of this moment, if any, start it again; that is no crash.
            self._starts.pop(name, None)
            self._connections.pop(name).close()

    def _count_start(self, organization: str) -> None:
        now = monotonic()
        recent = {name: [at for at in times if now - at < START_WINDOW_SECONDS] for name, times in self._starts.items()}
        self._starts = {name: times for name, times in recent.items() if times}
        times = self._starts.setdefault(organization, [])
        if len(times) >= MAX_STARTS:
            raise Unavailable(
                f"The DSPy sidecar was started {MAX_STARTS} times within a minute and ended each time.",
                hint="Try again in a minute. `prowess doctor` checks it.",
            )
        times.append(now)


def _read_error(error: JsonObject) -> ProwessError:
    """Return the error that the sidecar reports."""
    kind, message = str(error.get("type", "Error"))[:100], str(error.get("message", ""))[:2000]
    if kind == "InvalidState":
        # A fallback runs: the state may have been made with another version of DSPy.
        return Unavailable(
            f"The saved state does not load: {message}", hint="Optimize the skill again, or remove the state."
        )
    if kind == "InvalidOutput":
        return AnswerUnusable(
            f"The model's answer does not have the fields of the signature: {message}",
            hint="Use a stronger model, or a simpler signature.",
        )
    if kind.startswith(("Invalid", "Unknown")):
        return Invalid(message, hint="Run `prowess sidecar templates` to see the templates and their options.")
    return SidecarFailed(f"The program failed in the DSPy sidecar: {kind}: {message}")


class _Exchange:
    """One request, in the event loop of its caller. Calls are answered in the context (`contextvars`) of the caller."""

    def __init__(self, connection: Connection, callbacks: Callbacks | None, on_progress: OnProgress | None) -> None:
        self._connection = connection
        self._callbacks = callbacks
        self._on_progress = on_progress
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._result: asyncio.Future[JsonObject] = self._loop.create_future()
        self._answering: set[asyncio.Task[None]] = set()
        # One counter per thread, so that neither has to lock.
        self._received = self._handled = 0

    def receive(self, message: JsonObject) -> None:
        """Hand a message to the event loop; raise `ValueError` if too many wait there already."""
        if self._received - self._handled >= MAX_WAITING:
            raise ValueError("too many messages")
        # The loop may have been closed since, together with its caller.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._handle, message)
            self._received += 1

    def fail(self, error: SidecarFailed) -> None:
        """Hand the end of the process to the event loop."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._raise, error)

    async def ended(self, number: int) -> JsonObject:
        """Wait for the result. A cancellation stops the request in the sidecar."""
        try:
            return await self._result
        finally:
            # Does nothing after an answer. Otherwise the caller was cancelled, or a callback ended the request.
            self._connection.cancel(number)
            for task in self._answering:
                task.cancel()

    def _handle(self, message: JsonObject) -> None:
        self._handled += 1
        if self._result.done():
            return
        if "call" in message:
            self._begin_answer(message)
        elif message.get("event") == "progress":
            if self._on_progress is not None:
                self._context.run(self._on_progress, message)
        elif message.get("ok") is True and isinstance(message.get("result"), dict):
            self._result.set_result(message["result"])
        else:
            error: Any = message.get("error")
            self._raise(_read_error(json_object(error)))

    def _begin_answer(self, message: JsonObject) -> None:
        if len(self._answering) >= MAX_CALLS:
            self._raise(SidecarFailed(f"The program made more than {MAX_CALLS} calls at a time."))
            return
        task = self._loop.create_task(self._answer(message), context=self._context.copy())
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, message: JsonObject) -> None:
        """Answer a call. A `ProwessError` is an answer that the program can handle; anything else ends the request."""
        number = message["call"]
        try:
            self._connection.send({"reply": number, "value": await self._get_value(message)})
        except ProwessError as error:
            text = f"{error.message} {error.hint}".strip()
            self._connection.send({"reply": number, "error": {"type": error.code, "message": text}})
        except Exception as error:  # noqa: BLE001  (raised where the request is awaited)
            self._raise(error)

    async def _get_value(self, message: JsonObject) -> Any:
        callbacks = self._callbacks
        payload: Any = message.get("payload")
        if callbacks is None or not isinstance(payload, dict):
            raise Invalid("The sidecar made an unexpected call.")
        answers: dict[str, Callable[[JsonObject], Any]] = {
            "llm": callbacks.llm,
            "tool": callbacks.tool,
            "metric": callbacks.metric,
            "code": callbacks.code,
        }
        answer = answers.get(str(message.get("kind")))
        if answer is None:
            raise Invalid(f"The sidecar made an unknown call {str(message.get('kind'))[:40]!r}.")
        return await answer(cast("JsonObject", payload))

    def _raise(self, error: BaseException) -> None:
        if not self._result.done():
            self._result.set_exception(error)
