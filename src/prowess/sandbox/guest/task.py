"""Run one task: a script, or a function of one with its arguments, and report how it ended.

It reaches its host through one `call` and nothing else, and needs only the standard library, so that it is the same in every
interpreter that runs code of skills. It may be run once in an interpreter, which it leaves changed.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import linecache
import random
import re
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any, cast

from .bridge import NAMES, Ask, Call, Context, HostError, Printed, Result, asking, module, to_json

NO_MEMORY = '{"error":{"type":"MemoryError","message":"","line":null,"trace":""}}'
SCRIPT, FUNCTION = "__main__", "skill"
"""The name of the module that the source becomes."""


def run_task(task: dict[str, Any], call: Call, skillkit: types.ModuleType) -> str:
    """Run a task, and return the outcome as JSON. `skillkit` is what is imported as `prowess.skillkit`."""
    result, printed = Result(), Printed(call)
    try:
        error = _run(task, asking(call, printed), result, printed, skillkit)
        printed.flush()
    except BaseException:  # noqa: BLE001  (there may be no memory left to say more)
        return NO_MEMORY
    if error:
        return to_json({"error": error})
    return '{"done":true}' if result.json is None else '{"done":true,"result":' + result.json + "}"


def _run(
    task: dict[str, Any], ask: Ask, result: Result, printed: Printed, skillkit: types.ModuleType
) -> dict[str, Any] | None:
    try:
        main = _module(task, ask, result, printed, skillkit)
        file = task["file"]
        exec(compile_script(task["source"], task["marks"], file), vars(main))  # noqa: S102
        if task["entry"]:
            _submit(result, *_called(vars(main), task, ask))
    except FunctionMismatch as mismatch:
        return mismatch.describe()
    except SystemExit as end:
        return None if end.code in (None, 0) and not task["entry"] else describe_error(end, task)
    except BaseException as raised:  # noqa: BLE001
        return describe_error(raised, task)
    return None


def _module(
    task: dict[str, Any], ask: Ask, result: Result, printed: Printed, skillkit: types.ModuleType
) -> types.ModuleType:
    """Return the module that the source becomes, with streams, host modules and inputs in place."""
    main = types.ModuleType(FUNCTION if task["entry"] else SCRIPT)
    sys.modules[main.__name__] = main
    sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = printed  # type: ignore[misc]
    sys.argv = [task["file"]]
    functions = [name for name in task["functions"] if not (task["entry"] and name in NAMES)]
    for name in task["modules"]:
        host_module = sys.modules[name] = module(name, functions, ask, result)
        host_module.skillkit = sys.modules[f"{name}.skillkit"] = skillkit  # type: ignore[attr-defined]
    if task.get("seed"):
        random.seed(task["seed"])
    if not task["entry"]:
        inputs = task["inputs"]
        vars(main).update({name: inputs[name] for name in task["variables"]}, inputs=inputs)
    return main


def _called(scope: dict[str, Any], task: dict[str, Any], ask: Ask) -> tuple[Any, Callable[..., Any]]:
    """Call the function, and return its value and the function."""
    name, args = task["entry"], task["inputs"]
    function = scope.get(name)
    if not callable(function):
        raise FunctionMismatch("NameError", f"{task['file']} has no function {name}(args, ctx).")
    context = Context(ask, task["env"])
    try:
        inspect.signature(function).bind(args, context)
    except TypeError:
        requirement = f"{name}{inspect.signature(function)} must accept the arguments (args, ctx)."
        raise FunctionMismatch("TypeError", requirement, function) from None
    except ValueError:
        pass  # a builtin without a signature
    returned = function(args, context)
    if inspect.iscoroutine(returned):
        returned = asyncio.run(cast("Any", returned))
    return returned, function


def _submit(result: Result, returned: Any, function: Callable[..., Any]) -> None:
    try:
        result.submit(returned)
    except (TypeError, ValueError, RecursionError) as error:
        raise FunctionMismatch("TypeError", f"It returned a value that is not JSON: {error}.", function) from None


def compile_script(source: str, marks: dict[str, Any], name: str) -> types.CodeType:
    """Compile a script with every mark replaced by its value."""
    script = InputSubstitution(marks, name).visit(ast.parse(source, name)) if marks else source
    return compile(script, name, "exec", dont_inherit=True)


class InputSubstitution(ast.NodeTransformer):
    """Replaces marks in the syntax tree: by a literal where a mark is an expression, by text within a string.

    This happens after parsing, so no value is ever read as code.
    """

    def __init__(self, marks: dict[str, Any], name: str) -> None:
        self._marks = marks
        self._name = name
        self._pattern = re.compile("|".join(map(re.escape, marks)))
        self._bytes = re.compile(self._pattern.pattern.encode())

    def visit(self, node: ast.AST) -> Any:
        """Replace marks below a node; a mark anywhere else, such as within a name, is a syntax error."""
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.Name) and node.id in self._marks and isinstance(node.ctx, ast.Load):
            literal = _literal(self._marks[node.id])
            for part in ast.walk(literal):
                ast.copy_location(part, node)
            return literal
        for _, value in ast.iter_fields(node):
            texts = cast("list[Any]", value) if isinstance(value, list) else [value]
            if any(isinstance(text, str) and self._pattern.search(text) for text in texts):
                raise self._misplaced(node)
        return self.generic_visit(node)

    def _constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            filled: str | bytes = self._pattern.sub(lambda mark: _text(self._marks[mark[0]]), node.value)
        elif isinstance(node.value, bytes):
            filled = self._bytes.sub(lambda mark: _text(self._marks[mark[0].decode()]).encode(), node.value)
        else:
            return node
        return ast.copy_location(ast.Constant(filled), node)

    def _misplaced(self, node: ast.AST) -> SyntaxError:
        message = "an input can only replace a whole value or a part of a string"
        return SyntaxError(message, (self._name, getattr(node, "lineno", None), None, None))


def _literal(value: Any) -> ast.expr:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        return ast.Dict([ast.Constant(key) for key in items], [_literal(item) for item in items.values()])
    if isinstance(value, list):
        return ast.List([_literal(item) for item in cast("list[Any]", value)], ast.Load())
    return ast.Constant(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


MESSAGE_CHARS, TRACE_CHARS, TRACE_FRAMES = 4_000, 8_000, 20


class FunctionMismatch(Exception):
    """A function that cannot be called, or whose value is not JSON; reported at the line where it begins."""

    def __init__(self, type: str, message: str, function: Callable[..., Any] | None = None) -> None:
        super().__init__(message)
        self._type = type
        self._code = getattr(function, "__code__", None)

    def describe(self) -> dict[str, Any]:
        """Return what is reported."""
        line = self._code.co_firstlineno if isinstance(self._code, types.CodeType) else None
        return {"type": self._type, "message": str(self)[:MESSAGE_CHARS], "line": line, "trace": "", "host": False}


def describe_error(error: BaseException, task: dict[str, Any]) -> dict[str, Any]:
    """Return what is reported about an error of the script: type, message, and the lines of its own file."""
    file, displayed = task["file"], task["shown"]
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != file:
        trace = trace.tb_next
    traceback.clear_frames(trace)  # their locals may hold all memory, and the report needs some
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename == file]
    if isinstance(error, SyntaxError) and error.filename == file:
        lines.append(error.lineno)
    linecache.cache[file] = (len(displayed), None, [line + "\n" for line in displayed.splitlines()], file)
    return {
        "type": type(error).__name__,
        "message": _message(error)[:MESSAGE_CHARS],
        "line": lines[-1] if lines else None,
        "trace": _trace(error, trace)[-TRACE_CHARS:],
        "host": isinstance(error, HostError),
    }


def _message(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return error.msg or ""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001  (a script's own class may do anything)
        return ""


def _trace(error: BaseException, trace: types.TracebackType | None) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, trace, limit=TRACE_FRAMES))
    except BaseException:  # noqa: BLE001
        return ""
