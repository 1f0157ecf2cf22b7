"""Running one task: a script, or a function of one with its arguments, and what is to be said about its end.

It asks its host by one `call` and by nothing else, and needs nothing but the standard library, so that it is the same in
every interpreter that runs what skills bring. It may be run once in an interpreter, which it leaves changed.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import sys
import types
from collections.abc import Callable
from typing import Any, cast

from . import telling
from .bridge import Ask, Call, Printed, Result, asking, module, to_json
from .context import NAMES, Context
from .filling import compiled

NO_MEMORY = '{"error":{"type":"MemoryError","message":"","line":null,"trace":""}}'
SCRIPT, FUNCTION = "__main__", "skill"
"""What the module is called that the text becomes."""


def run_task(asked: dict[str, Any], call: Call, skillkit: types.ModuleType) -> str:
    """Run it to its end; what came of it, as JSON. `skillkit` is what is imported as `prowess.skillkit`."""
    result, printed = Result(), Printed(call)
    try:
        error = _run(asked, asking(call, printed), result, printed, skillkit)
        printed.flush()
    except BaseException:  # noqa: BLE001  (there may be no memory left to say more)
        return NO_MEMORY
    if error:
        return to_json({"error": error})
    return '{"done":true}' if result.json is None else '{"done":true,"result":' + result.json + "}"


def _run(
    asked: dict[str, Any], ask: Ask, result: Result, printed: Printed, skillkit: types.ModuleType
) -> dict[str, Any] | None:
    try:
        main = _module(asked, ask, result, printed, skillkit)
        file = asked["file"]
        exec(compiled(asked["source"], asked["marks"], file), vars(main))  # noqa: S102
        if asked["entry"]:
            _submit(result, *_called(vars(main), asked, ask))
    except telling.Misfit as misfit:
        return misfit.told()
    except SystemExit as end:
        return None if end.code in (None, 0) and not asked["entry"] else telling.told(end, asked)
    except BaseException as raised:  # noqa: BLE001
        return telling.told(raised, asked)
    return None


def _module(
    asked: dict[str, Any], ask: Ask, result: Result, printed: Printed, skillkit: types.ModuleType
) -> types.ModuleType:
    """The module that the text becomes, in an interpreter where everything else is in its place."""
    main = types.ModuleType(FUNCTION if asked["entry"] else SCRIPT)
    sys.modules[main.__name__] = main
    sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = printed  # type: ignore[misc]
    sys.argv = [asked["file"]]
    functions = [name for name in asked["functions"] if not (asked["entry"] and name in NAMES)]
    for name in asked["modules"]:
        made = sys.modules[name] = module(name, functions, ask, result)
        made.skillkit = sys.modules[f"{name}.skillkit"] = skillkit  # type: ignore[attr-defined]
    if asked.get("seed"):
        random.seed(asked["seed"])
    if not asked["entry"]:
        inputs = asked["inputs"]
        vars(main).update({name: inputs[name] for name in asked["variables"]}, inputs=inputs)
    return main


def _called(scope: dict[str, Any], asked: dict[str, Any], ask: Ask) -> tuple[Any, Callable[..., Any]]:
    """What the function returns, and the function."""
    name, args = asked["entry"], asked["inputs"]
    function = scope.get(name)
    if not callable(function):
        raise telling.Misfit("NameError", f"{asked['file']} has no function {name}(args, ctx).")
    context = Context(ask, asked["env"])
    try:
        inspect.signature(function).bind(args, context)
    except TypeError:
        said = f"{name}{inspect.signature(function)} cannot be called as {name}(args, ctx)."
        raise telling.Misfit("TypeError", said, function) from None
    except ValueError:
        pass  # it does not say what it takes
    returned = function(args, context)
    if inspect.iscoroutine(returned):
        returned = asyncio.run(cast("Any", returned))
    return returned, function


def _submit(result: Result, returned: Any, function: Callable[..., Any]) -> None:
    try:
        result.submit(returned)
    except (TypeError, ValueError, RecursionError) as error:
        raise telling.Misfit("TypeError", f"It returned what JSON cannot say: {error}.", function) from None
