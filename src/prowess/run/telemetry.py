"""OpenTelemetry spans of runs and model requests, after the conventions for generative AI.

Spans hold what ran, how long it took, the model, the tokens and the cost; never prompts or answers.
"""

from __future__ import annotations

import sys
from asyncio import CancelledError
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, cast

from prowess.errors import ProwessError, Unavailable
from prowess.llm.model import Model, Reply, Request, Usage
from prowess.redaction import Redactor
from prowess.run.call import Call, DryRunEnded, Notes, Output, status_of
from prowess.run.handler import RunArtifact

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

_SCOPE: Final = "prowess"
_INSTALL: Final = "Run `pip install 'prowess[telemetry]'`."
_PROVIDERS: Final = {"google": "gcp.gemini"}
"""Providers whose names differ in the conventions."""
_LONGEST_NAME: Final = 200
_LONGEST_READ: Final = 10_000
"""Longer texts are not names of models, and are not reported."""


class RunSpan(Protocol):
    """The span of a run."""

    def ended(self, status: str, notes: Notes) -> None:
        """Record how the call ended."""
        ...


class RequestSpan(Protocol):
    """The span of a request."""

    def answered(self, reply: Reply) -> None:
        """Record the usage."""
        ...


class Telemetry(Protocol):
    """Opens spans. A span that is left by an exception records it, and lets it pass."""

    def run_span(self, call: Call) -> AbstractContextManager[RunSpan]:
        """Return the span of one call."""
        ...

    def request_span(self, model: Model, request: Request) -> AbstractContextManager[RequestSpan]:
        """Return the span of one model request, inside that of its call."""
        ...

    def close(self) -> None:
        """Send the remaining spans, and stop. Blocks until they are sent."""
        ...


class NoTelemetry:
    """Records nothing; it is its own span."""

    def run_span(self, call: Call) -> AbstractContextManager[RunSpan]:  # noqa: ARG002
        """Return no span."""
        return self

    def request_span(self, model: Model, request: Request) -> AbstractContextManager[RequestSpan]:  # noqa: ARG002
        """Return no span."""
        return self

    def close(self) -> None:
        """Do nothing."""

    def ended(self, status: str, notes: Notes) -> None:
        """Do nothing."""

    def answered(self, reply: Reply) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class SpanTelemetry:
    """Sends spans to a tracer. `shut_down` ends a tracer provider of ours; the application's own stays open.

    Servers choose the names of models too, so the names are redacted and cut.
    """

    def __init__(self, tracer: Tracer, redactor: Redactor, shut_down: Callable[[], None] | None = None) -> None:
        self._tracer = tracer
        self._redactor = redactor
        self._shut_down = shut_down

    @contextmanager
    def run_span(self, call: Call) -> Generator[RunSpan]:
        """Return a span `invoke_workflow SKILL/ARTIFACT`."""
        name = f"{call.skill.slug}/{call.artifact.name}"
        attributes = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": name,
            "gen_ai.skill.name": call.skill.slug,
            "prowess.skill": call.skill.slug,
            "prowess.artifact": call.artifact.name,
            "prowess.kind": call.artifact.kind,
            "prowess.trace": call.id,
        }
        if call.run.session:
            attributes["gen_ai.conversation.id"] = call.run.session
        with self._span(f"invoke_workflow {name}", attributes, kind="INTERNAL") as span:
            yield _RunSpan(span, self._redactor)

    @contextmanager
    def request_span(self, model: Model, request: Request) -> Generator[RequestSpan]:
        """Return a span `chat MODEL`."""
        provider, name = _provider_and_name(_safe_name(model.name, self._redactor))
        attributes: dict[str, str | int | float] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": name,
            "gen_ai.output.type": "text" if request.schema is None else "json",
        }
        if request.temperature is not None:
            attributes["gen_ai.request.temperature"] = request.temperature
        if request.max_tokens is not None:
            attributes["gen_ai.request.max_tokens"] = request.max_tokens
        with self._span(f"chat {name}", attributes, kind="CLIENT") as span:
            yield _RequestSpan(span, self._redactor)

    def close(self) -> None:
        """Send the remaining spans of our own tracer provider, and end it."""
        shut_down, self._shut_down = self._shut_down, None
        if shut_down is not None:
            shut_down()

    @contextmanager
    def _span(self, name: str, attributes: Mapping[str, str | int | float], *, kind: str) -> Generator[Span]:
        from opentelemetry.trace import SpanKind

        with self._tracer.start_as_current_span(
            name,
            kind=SpanKind[kind],
            attributes=attributes,
            record_exception=False,  # the message of an error may quote the prompt
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                _mark_failed(span, _error_type(error))
                raise


class _RunSpan:
    def __init__(self, span: Span, redactor: Redactor) -> None:
        self._span = span
        self._redactor = redactor

    def ended(self, status: str, notes: Notes) -> None:
        """Record how the call ended."""
        self._span.set_attribute("prowess.status", status)
        # Not known when the span was opened: the model is chosen during the run.
        if notes.model:
            _, name = _provider_and_name(_safe_name(notes.model, self._redactor))
            self._span.set_attribute("gen_ai.request.model", name)
        if notes.usage.requests:
            self._span.set_attribute("gen_ai.usage.input_tokens", notes.usage.input_tokens)
            self._span.set_attribute("gen_ai.usage.output_tokens", notes.usage.output_tokens)
        if notes.cost is not None:
            self._span.set_attribute("prowess.cost_usd", notes.cost)
        if status != "ok":
            _mark_failed(self._span, status)


class _RequestSpan:
    def __init__(self, span: Span, redactor: Redactor) -> None:
        self._span = span
        self._redactor = redactor

    def answered(self, reply: Reply) -> None:
        """Record the usage."""
        if reply.model:
            self._span.set_attribute("gen_ai.response.model", _safe_name(reply.model, self._redactor))
        if reply.usage != Usage():
            self._span.set_attribute("gen_ai.usage.input_tokens", reply.usage.input_tokens)
            self._span.set_attribute("gen_ai.usage.output_tokens", reply.usage.output_tokens)


def with_telemetry(run: RunArtifact, telemetry: Telemetry) -> RunArtifact:
    """Open a span around each call, and say in it how the call ended."""
    if isinstance(telemetry, NoTelemetry):
        return run

    async def traced(call: Call) -> Output:
        ended: ProwessError | DryRunEnded | None = None
        output: Output | None = None
        with telemetry.run_span(call) as span:
            try:
                output = await run(call)
            except (ProwessError, DryRunEnded) as error:
                ended = error
            span.ended(status_of(ended), call.notes)
        # Raised only now: a span that is left by an exception would describe it a second time, without the status.
        if output is None:
            raise cast("Exception", ended)
        return output

    return traced


def open_telemetry(environment: Mapping[str, str], redactor: Redactor, *, on: bool) -> Telemetry:
    """Return telemetry that uses the application's tracer provider, or else the exporter in `OTEL_TRACES_EXPORTER` (`otlp`).

    Raise `Unavailable` if the library or the exporter is not installed.
    """
    if not on:
        return NoTelemetry()
    try:
        trace: Any = import_module("opentelemetry.trace")
        sdk: Any = import_module("opentelemetry.sdk.trace")
    except ImportError as error:
        raise Unavailable("OpenTelemetry is not installed.", hint=_INSTALL) from error
    provider = trace.get_tracer_provider()
    # OpenTelemetry returns a proxy until the application sets its own provider.
    if not isinstance(provider, trace.ProxyTracerProvider):
        return SpanTelemetry(provider.get_tracer(_SCOPE), redactor)
    which = environment.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    if which == "none":
        return NoTelemetry()
    exporter = _exporter(which)
    export: Any = import_module("opentelemetry.sdk.trace.export")
    own = sdk.TracerProvider()
    # In batches, from a thread of OpenTelemetry, so that no run waits for the exporter.
    own.add_span_processor(export.BatchSpanProcessor(exporter))
    return SpanTelemetry(own.get_tracer(_SCOPE), redactor, own.shutdown)


def _exporter(which: str) -> Any:
    """Return the exporter that a package registered under this name; the console's writes to stderr."""
    from importlib.metadata import entry_points

    # Only the package with both exporters registers `otlp`; each of the two registers its own name.
    names = (which, "otlp_proto_http", "otlp_proto_grpc") if which == "otlp" else (which,)
    points = entry_points(group="opentelemetry_traces_exporter")
    found = next((point for name in names for point in points.select(name=name)), None)
    if found is None:
        raise Unavailable(
            f"No installed package provides the exporter {which[:40]!r}.",
            hint="For `otlp`, run `pip install opentelemetry-exporter-otlp-proto-http`, or set OTEL_TRACES_EXPORTER.",
        )
    # Standard output belongs to results, and to the protocol of an MCP server.
    return found.load()(out=sys.stderr) if which == "console" else found.load()()


# A server chooses the name in its answer, which may be any text of any length.
def _safe_name(name: str, redactor: Redactor) -> str:
    return redactor.text(name)[:_LONGEST_NAME] if len(name) <= _LONGEST_READ else "unknown"


def _provider_and_name(model: str) -> tuple[str, str]:
    provider, _, name = model.partition(":")
    return (_PROVIDERS.get(provider, provider), name) if name else ("unknown", model)


def _mark_failed(span: Span, word: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", word)
    span.set_status(StatusCode.ERROR)


def _error_type(error: BaseException) -> str:
    if isinstance(error, ProwessError):
        return error.code
    return "cancelled" if isinstance(error, CancelledError) else type(error).__name__
