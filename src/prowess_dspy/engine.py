"""What DSPy needs from outside, each answered by a call to the parent: models, tools, code and scores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import dspy
from dspy import lm15

from prowess_dspy.channel import JsonObject, Session, encode
from prowess_dspy.errors import CallFailed

MODEL = "prowess/parent"
SAMPLING = ("temperature", "max_tokens", "top_p", "top_k", "stop", "seed", "frequency_penalty", "presence_penalty")


class Engine:
    """Answers DSPy's requests to a language model. Each request of the parent has its own."""

    supported_params = frozenset(SAMPLING)

    def __init__(self, session: Session) -> None:
        self._session = session

    def __deepcopy__(self, memo: dict[int, Any]) -> Engine:
        return self  # DSPy copies programs with their language model; the copies belong to the same request

    def complete(self, request: lm15.Request) -> lm15.Response:
        """Return the answer of the parent's model."""
        try:
            answer = self._session.call("llm", llm_payload(request))
        except CallFailed as error:
            kind = lm15.ContextLengthError if "context" in error.type.lower() else lm15.ServerError
            raise kind(f"{error.type}: {error}") from error
        if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
            raise lm15.ServerError("The answer to a model call has no text.")
        usage = answer.get("usage")
        self._session.count_tokens(usage)
        counts = {
            name: amount
            for name in ("input_tokens", "output_tokens")
            if isinstance(amount := (usage or {}).get(name), int) and amount >= 0
        }
        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant(answer["text"]),
            finish_reason="stop" if answer.get("complete", True) else "length",
            usage=lm15.Usage(**counts),
        )


def llm_payload(request: lm15.Request) -> JsonObject:
    """Return a request in the plain form of the protocol."""
    messages = [{"role": message.role, "text": _text(message.parts)} for message in request.messages]
    if request.system:
        system = request.system if isinstance(request.system, str) else _text(request.system)
        messages.insert(0, {"role": "system", "text": system})
    payload: JsonObject = {"messages": messages}
    for name in SAMPLING:
        value = getattr(request.config, name)
        if value is not None and value != ():
            payload[name] = list(value) if isinstance(value, tuple) else value
    if request.config.response_format:
        payload["response_format"] = request.config.response_format
    if request.tools:
        payload["tools"] = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in request.tools
            if isinstance(tool, lm15.FunctionTool)
        ]
    return payload


def _text(parts: Any) -> str:
    return "".join(part.text for part in parts if isinstance(part, lm15.TextPart))


def language_model(session: Session, **sampling: Any) -> dspy.LM:
    """Return a language model for the programs of a request."""
    # A failed call is the parent's to repeat, and caching would hide calls from its limits and traces.
    return dspy.LM(MODEL, engine=Engine(session), cache=False, num_retries=0, **sampling)


def remote_tool(session: Session, name: str, description: str, properties: JsonObject) -> dspy.Tool:
    """Return a tool that the parent runs. An error is returned as text, for the model to read."""

    def run(**arguments: Any) -> Any:
        try:
            return session.call("tool", {"name": name, "arguments": arguments})
        except CallFailed as error:
            return f"Error: {error.type}: {error}"

    return dspy.Tool(run, name=name, desc=description, args=properties, arg_types=dict.fromkeys(properties, Any))


class CodeRunner:
    """DSPy's interpreter of generated code: the parent's sandbox runs it. No code runs in this process."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def tools(self) -> dict[str, Callable[..., Any]]:
        """Return the functions that code may call: none."""
        return {}

    def start(self) -> None:
        """Do nothing: the parent starts its sandbox."""

    def shutdown(self) -> None:
        """Do nothing: the parent ends its sandbox."""

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Return the output of the code, or its `FinalOutput` if it called `SUBMIT`."""
        try:
            result = self._session.call("code", {"code": code, "variables": variables or {}})
        except CallFailed as error:
            raise dspy.CodeExecutionError(f"{error.type}: {error}") from error
        if not isinstance(result, dict):
            raise dspy.CodeExecutionError("The sandbox returned no result.")
        return dspy.FinalOutput(result["final"]) if "final" in result else result.get("output")


class Metric:
    """Scores outputs: by comparing them with those expected, or by asking the parent.

    The same outputs for the same row are scored once. GEPA asks twice, and a score may cost a model call.
    """

    def __init__(self, session: Session, outputs: tuple[str, ...], *, remote: bool) -> None:
        self._session = session
        self._outputs = outputs
        self._remote = remote
        self._known: dict[bytes, tuple[float, str | None]] = {}
        self._lock = threading.Lock()

    def score(
        self, inputs: Mapping[str, Any], expected: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> tuple[float, str | None]:
        """Return a score between 0 and 1, and what was good or bad about the outputs if the metric says it."""
        answer = {name: outputs.get(name) for name in self._outputs}  # without reasoning and the like
        payload = {"inputs": dict(inputs), "expected": dict(expected), "outputs": answer}
        key = encode(payload, sort=True)
        with self._lock:
            if key in self._known:
                return self._known[key]
        result = self._ask(payload) if self._remote else self._compare(expected, answer)
        with self._lock:
            self._known[key] = result
        return result

    def _ask(self, payload: JsonObject) -> tuple[float, str | None]:
        answer = self._session.call("metric", payload)
        score = answer.get("score") if isinstance(answer, dict) else None
        if not isinstance(score, int | float):
            self._session.reject_answer(CallFailed("InvalidScore", "The answer to a metric call has no score."))
        feedback = answer.get("feedback")
        return min(max(float(score), 0.0), 1.0), str(feedback) if feedback else None

    def _compare(self, expected: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[float, str | None]:
        self._session.count("metric")
        wrong = [
            f"{name} should be {expected[name]!r}, not {value!r}."
            for name, value in outputs.items()
            if name in expected and _plain(value) != _plain(expected[name])
        ]
        return (0.0, " ".join(wrong)) if wrong else (1.0, "All outputs are as expected.")


def _plain(value: Any) -> Any:
    return value.strip().casefold() if isinstance(value, str) else value
