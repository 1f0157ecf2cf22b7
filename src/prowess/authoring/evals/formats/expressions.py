"""Understand the simple Python expressions of waza's `code` graders as checks. Nothing is ever executed.

Understood are lengths (`len(output) > 10`), texts (`"x" in output.lower()`, `any(w in output for w in ["a", "b"])`) and
patterns (`re.search("x", output)`), also with `not`, `and`, and `or` between texts.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from dataclasses import replace

from prowess.authoring.evals.case import Check
from prowess.authoring.evals.formats.entries import contains, pattern

MAX_EXPRESSION_CHARS = 500


def read_expression(text: str) -> list[Check]:
    """Return the checks that an expression stands for; empty if it is anything else."""
    if len(text) > MAX_EXPRESSION_CHARS:
        return []
    try:
        with warnings.catch_warnings():
            # Patterns in plain strings, such as "\\d", are common.
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return _read(tree.body) or []


def _read(node: ast.expr) -> list[Check] | None:
    match node:
        case ast.BoolOp(op=ast.And(), values=parts):
            found = [_read(part) for part in parts]
            return None if None in found else [check for part in found if part for check in part]
        case ast.BoolOp(values=parts):
            return _any_of([_read(part) for part in parts])
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _opposite(_read(inner))
        case ast.Compare(left=ast.Constant(value=str(text)), ops=[ast.In() | ast.NotIn() as sign], comparators=[where]):
            ignore_case = _output(where)
            if ignore_case is None or not text:
                return None
            return [contains([text], ignore_case=ignore_case, negate=isinstance(sign, ast.NotIn))]
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="len"), args=[what]),
            ops=[sign],
            comparators=[ast.Constant(value=int(count))],
        ) if _output(what) is not None:
            return _length(sign, count)
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="re"), attr="search"),
            args=[ast.Constant(value=str(regex)), what],
            keywords=[],
        ) if _output(what) is False:
            return [pattern(regex)]
        case ast.Call(func=ast.Name(id="any" | "all" as mode), args=[ast.GeneratorExp() | ast.ListComp() as loop]):
            return _loop(loop, mode)
        case _:
            return None


def _any_of(parts: Sequence[list[Check] | None]) -> list[Check] | None:
    """Return one check for texts of which one must occur; other alternatives are not understood."""
    found = [part[0] for part in parts if part and len(part) == 1 and part[0].type == "contains" and not part[0].negate]
    cases = {check.settings["ignore_case"] for check in found}
    if len(found) < len(parts) or len(cases) != 1 or any(len(check.settings["values"]) > 1 for check in found):
        return None
    return [contains([check.settings["values"][0] for check in found], mode="any", ignore_case=cases.pop())]


def _opposite(checks: list[Check] | None) -> list[Check] | None:
    if checks is None or len(checks) != 1:
        return None
    return [replace(checks[0], negate=not checks[0].negate)]


def _length(sign: ast.cmpop, count: int) -> list[Check] | None:
    match sign:
        case ast.Gt():
            limits = {"min": count + 1}
        case ast.GtE():
            limits = {"min": count}
        case ast.Lt():
            limits = {"max": count - 1}
        case ast.LtE():
            limits = {"max": count}
        case _:
            return None
    return [Check(type="length", settings={"type": "length", "check": "char_range", **limits})]


def _loop(node: ast.GeneratorExp | ast.ListComp, mode: str) -> list[Check] | None:
    """Return the check for `word in output for word in [...]`."""
    match node.elt, node.generators:
        case (
            ast.Compare(left=ast.Name(id=word), ops=[ast.In()], comparators=[where]),
            [ast.comprehension(target=ast.Name(id=name), iter=ast.List() | ast.Tuple() as listed, ifs=[])],
        ) if word == name:
            texts = [elt.value for elt in listed.elts if isinstance(elt, ast.Constant) and isinstance(elt.value, str)]
            ignore_case = _output(where)
            is_plain = ignore_case is not None and texts and all(texts) and len(texts) == len(listed.elts)
            return [contains(texts, mode=mode, ignore_case=bool(ignore_case))] if is_plain else None
        case _:
            return None


def _output(node: ast.expr) -> bool | None:
    """Return False for `output`, True for `output.lower()`, and None for anything else."""
    match node:
        case ast.Name(id="output"):
            return False
        case ast.Call(func=ast.Attribute(value=ast.Name(id="output"), attr="lower"), args=[]):
            return True
        case _:
            return None
