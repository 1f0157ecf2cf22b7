"""The messages of the sidecar: requests, its own calls while it works, and results.

Messages are JSON, one per line. Each has an `id`; the type and the fields are those of Inklings, with a few more:

    to the sidecar    {"id", "type": "execute", "template_id", "state_blob", "params", "signature", "options"}
                      {"id", "type": "optimize", "template_id", "training_data", "validation_data", "state_blob",
                       "signature", "options", "optimizer", "optimizer_options", "seed", "metric": "exact" | "parent"}
                      {"id", "type": "manifest"}   {"id", "type": "ping"}
                      {"type": "cancel", "target"}   {"type": "shutdown"}
                      {"reply", "value"} or {"reply", "error": {"type", "message"}}, the answer to a call
    from the sidecar  {"hello": {…}}, when it is ready
                      {"id", "ok": true, "result"} or {"id", "ok": false, "error": {"type", "message"}}
                      {"id", "event": "progress", "metric_calls", "llm_calls", "best_score", "best_state"}
                      {"call", "for", "kind": "llm" | "tool" | "metric" | "code", "payload"}, while `for` is running

The results: execute gives `{outputs, notes, usage}`, where the outputs are those of the signature and the notes what the
template adds, such as its reasoning. Optimize gives `{state_blob, dspy, score, complete, stopped, usage}`; cancelling it
gives the same with the best state so far, `complete: false` and `stopped: "cancelled"`, while a cancelled execute gives the
error `Cancelled`. `stopped` is `limit` where a limit of calls is reached, and `failed`, with the `error`, where calls keep
failing. A progress event has `best_state` when there is a new one. An answer to a call with an error has the
parent's type of error, which is also the type of the request's error if the template cannot continue without the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

from prowess.lazy_dataclass import dataclass
from prowess.skill.kinds import JsonObject

PROTOCOL_VERSION = 1

OptimizerName = Literal["bootstrap_few_shot", "mipro_v2", "simba", "gepa"]
OPTIMIZERS: tuple[OptimizerName, ...] = ("bootstrap_few_shot", "mipro_v2", "simba", "gepa")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A template of the sidecar with its signature, options and saved state: everything that a dspy_module is."""

    template_id: str
    signature: str | JsonObject
    """`claims, topic -> contradictions`, or `{instructions, inputs: [{name, type, description, enum}], outputs: […]}`."""
    options: JsonObject = field(default_factory=dict[str, Any])
    state: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The features of the running sidecar."""

    dspy: str
    python: str
    templates: JsonObject
    """By template id: its signature, options and the names of its predictors."""
    optimizers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeRequest:
    """An optimization. Rows of data have the inputs and outputs of the signature; none of them may be held out."""

    program: Program
    optimizer: OptimizerName
    training: Sequence[JsonObject]
    validation: Sequence[JsonObject] = ()
    options: JsonObject = field(default_factory=dict[str, Any])
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimized:
    """The result of an optimization. One that was cancelled has the best state so far, or None."""

    state: JsonObject | None
    dspy: str
    score: float | None = None
    """On the validation rows."""
    complete: bool = True


class Callbacks(Protocol):
    """Answers what a template asks for while it works. An error that is raised here is the template's to handle."""

    async def llm(self, payload: JsonObject) -> JsonObject:
        """Ask a model: `{messages: [{role, text}], temperature, max_tokens}` → `{text, usage: {…}, complete}`."""
        ...

    async def tool(self, payload: JsonObject) -> Any:
        """Call a tool: `{name, arguments}`."""
        ...

    async def metric(self, payload: JsonObject) -> JsonObject:
        """Score outputs: `{inputs, expected, outputs}` → `{score, feedback}`."""
        ...

    async def code(self, payload: JsonObject) -> JsonObject:
        """Run code in the sandbox: `{code, variables}` → `{output}` or `{final}`."""
        ...


class Sidecar(Protocol):
    """The sidecar: started by the first request, stopped when idle, and started again after a crash.

    Every method raises `Unavailable` if it cannot be started, and `SidecarFailed` if it ends while it works.
    """

    def for_organization(self, organization: str) -> Sidecar:
        """Return the sidecar whose process only this organization uses. Closing it closes those of all."""
        ...

    async def version(self) -> str:
        """Return its version of DSPy."""
        ...

    async def manifest(self) -> Manifest:
        """Return what it offers."""
        ...

    async def execute(self, program: Program, params: JsonObject, callbacks: Callbacks) -> JsonObject:
        """Run a program and return its outputs by field."""
        ...

    async def optimize(
        self, request: OptimizeRequest, callbacks: Callbacks, on_progress: Callable[[JsonObject], None]
    ) -> Optimized:
        """Optimize a program. Cancelling returns early from the sidecar's side; the caller keeps what progress reported."""
        ...

    async def close(self) -> None:
        """Stop it."""
        ...
