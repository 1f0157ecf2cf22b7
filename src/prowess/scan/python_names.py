"""The names of a Python file: scopes, assignments, and the functions that the file defines."""

from __future__ import annotations

import ast
from dataclasses import replace

from prowess.scan.python_text import Call
from prowess.scan.values import NOTHING, Value, either, named

MAX_CONSTANTS = 200
_BUILTINS = frozenset({
    "exec", "eval", "compile", "open", "getattr", "__import__", "globals", "locals", "vars", "chr", "bytes",
    "bytearray", "map", "print", "str", "dict", "list", "reversed", "sorted", "repr", "input", "zip", "enumerate",
})  # fmt: skip


class Names:
    """The value of each name, scope by scope."""

    def __init__(self) -> None:
        self.scopes: list[dict[str, Value]] = [{}]
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.inner: dict[int, dict[str, Value]] = {}
        self.returns: dict[int, Value] = {}
        self.current: list[int] = []
        self.depth = 0

    def bind(self, name: str, value: Value) -> None:
        """Assign a value to a name of the current scope."""
        self.scopes[-1][name] = value

    def store(self, target: ast.expr, value: Value) -> None:
        """Assign a value to a target."""
        if isinstance(target, ast.Name):
            before = self.scopes[-1].get(target.id)
            # A name that is assigned again in a branch or a loop may hold either value; labels only grow.
            self.bind(
                target.id,
                value.labelled(before.labels) if before is not None and self.depth > len(self.current) else value,
            )
        elif isinstance(target, ast.Attribute):
            key = self_key(target)
            if not key and isinstance(target.value, ast.Name) and value.name:
                key = f"{target.value.id}.{target.attr}"  # `helper.run = os.system`
            if key:
                self.scopes[0][key] = value
        elif isinstance(target, ast.Tuple | ast.List):
            for index, element in enumerate(target.elts):
                self.store(element, value.items[index] if index < len(value.items) else Value(labels=value.labels))
        elif isinstance(target, ast.Subscript):
            self.add_item(target.value, value)
        elif isinstance(target, ast.Starred):
            self.store(target.value, value)

    def add_item(self, owner: ast.expr, value: Value) -> None:
        """Record that a value was put into a container."""
        base = owner
        while isinstance(base, ast.Subscript | ast.Call | ast.Attribute):
            base = base.func if isinstance(base, ast.Call) else base.value
        if isinstance(base, ast.Name) and base.id in self.scopes[-1]:
            held = self.scopes[-1][base.id]
            self.bind(base.id, replace(held, labels=held.labels | value.labels, items=(*held.items[:31], value)))

    def look_up(self, name: str) -> Value:
        """Return the value of a name."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name in self.functions:
            return named(f"def:{name}")
        return named(name) if name in _BUILTINS else named(name) if name in ("__builtins__", "os", "sys") else NOTHING

    def call_function(self, name: str, call: Call) -> Value:
        """Follow a call of a function of this file."""
        node = self.functions[name]
        scope = self.inner.setdefault(id(node), {})
        names = [arg.arg for arg in [*node.args.posonlyargs, *node.args.args]]
        if names[:1] in (["self"], ["cls"]):
            names = names[1:]
        pairs = [*zip(names, call.args, strict=False), *((key, value) for key, value in call.keywords.items() if key)]
        for key, value in pairs:
            before = scope.get(key)
            scope[key] = value if before is None or before is NOTHING else either([before, value])
        return self.returns.get(id(node), NOTHING)


def self_key(node: ast.Attribute) -> str:
    """Return the key of an attribute of `self`, or an empty text."""
    return f"self.{node.attr}" if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls") else ""


def each(value: Value) -> Value:
    """Return one item of a value that is iterated over."""
    return either(value.items) if value.items else replace(value, items=())


def plain_name(name: str) -> str:
    """Return a name without the module of the built-in functions, and `os` for the module behind it."""
    for prefix in ("builtins.", "__builtins__."):
        name = name.removeprefix(prefix)
    return "os." + name.partition(".")[2] if name.startswith(("posix.", "nt.")) else name


def collect_constants(tree: ast.Module) -> list[str]:
    """Return the texts in a file that could be written or run somewhere, up to a limit."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 8 <= len(node.value) <= 4000:
            found.append(node.value)
            if len(found) >= MAX_CONSTANTS:
                break
    return found
