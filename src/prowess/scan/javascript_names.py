"""The names of a JavaScript file: imports, variables, patterns, and properties of known objects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prowess.scan.behaviour import Behaviour
from prowess.scan.decoding import decode_escapes
from prowess.scan.javascript_calls import module_name
from prowess.scan.shell import line_of
from prowess.scan.values import NOTHING, UNKNOWN, Value, named

_GLOBALS = frozenset({"globalThis", "global", "window", "self"})
_KNOWN = frozenset(
    {"eval", "Function", "fetch", "require", "process", "Buffer", "atob", "btoa", "Deno", "Bun", "String", "JSON", "WebSocket", "XMLHttpRequest",
     "axios", "fs", "os", "path", "child_process", "https", "http", "Object", "setTimeout", "setInterval", "Promise", "decodeURIComponent", "unescape", "navigator", "Reflect", "module"}
)  # fmt: skip


class Names:
    """The value of each name. One scope for the whole file: names rarely clash, and labels only grow."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour: Behaviour = behaviour
        self.names: dict[str, Value] = {}
        self.functions: dict[str, Any] = {}
        self.returns: dict[str, Value] = {}
        self.constants: list[str] = []
        self.current: list[str] = []

    def look_up(self, name: str) -> Value:
        """Return the value of a name."""
        if name in self.names:
            return self.names[name]
        if name in self.functions:
            return named(f"def:{name}")
        return named(name) if name in _KNOWN else named("globalThis") if name in _GLOBALS else NOTHING

    def attribute(self, owner: Value, key: str, line: int) -> Value:
        """Return a property of a value."""
        if owner.name == "globalThis":
            return self.look_up(key) if key not in _GLOBALS else owner
        if owner.name == "process" and key == "env":
            return replace(self.behaviour.environment(), name="process.env")
        if owner.name == "process.env":
            return self.behaviour.variable(key, line)
        if owner.name.startswith("{"):
            keys = owner.name[1:-1].split(",")
            return (
                owner.items[keys.index(key)]
                if key in keys and keys.index(key) < len(owner.items)
                else Value(labels=owner.labels)
            )
        if owner.name.startswith("<"):
            return owner
        return Value(
            name=f"{owner.name}.{key}" if owner.name else f"?.{key}",
            labels=owner.labels,
            texts=owner.texts if not owner.name else (UNKNOWN,),
            items=owner.items,
        )

    def bind(self, pattern: Any, value: Value) -> None:
        """Give a value to a name or to each name of a pattern."""
        if pattern.type in ("identifier", "shorthand_property_identifier_pattern"):
            name = text_of(pattern)
            before = self.names.get(name)
            self.names[name] = value.labelled(before.labels) if before is not None and self.current else value
            return
        if pattern.type in ("required_parameter", "optional_parameter"):
            inner = pattern.child_by_field_name("pattern")
            if inner is not None:
                self.bind(inner, value)
            return
        for child in pattern.named_children:
            self._bind_part(child, value)

    def _bind_part(self, child: Any, value: Value) -> None:
        if child.type == "shorthand_property_identifier_pattern":
            self.names[text_of(child)] = self.attribute(value, text_of(child), line_of(child))
        elif child.type == "pair_pattern":
            key, target = child.child_by_field_name("key"), child.child_by_field_name("value")
            if key is not None and target is not None:
                self.bind(target, self.attribute(value, text_of(key), line_of(child)))
        elif child.type in ("identifier", "object_pattern", "array_pattern", "assignment_pattern"):
            self.bind(
                child.named_children[0] if child.type == "assignment_pattern" else child, Value(labels=value.labels)
            )

    def bind_import(self, node: Any) -> Value:
        """Bind the names of an import."""
        source = node.child_by_field_name("source")
        module = module_name(text_of(source)[1:-1]) if source is not None else ""
        for clause in [child for child in node.named_children if child.type == "import_clause"]:
            for part in clause.named_children:
                self._import_part(part, module)
        return NOTHING

    def _import_part(self, part: Any, module: str) -> None:
        if part.type == "identifier":
            self.names[text_of(part)] = named(module)
        elif part.type == "namespace_import" and part.named_children:
            self.names[text_of(part.named_children[-1])] = named(module)
        elif part.type == "named_imports":
            for child in part.named_children:
                names = [text_of(child) for child in child.named_children]
                if names:
                    self.names[names[-1]] = named(f"{module}.{names[0]}")


def text_of(node: Any) -> str:
    """Return the source text of a node; of a name without its escapes."""
    text: str = node.text.decode("utf-8", "replace")
    return decode_escapes(text) if "\\" in text and node.type.endswith("identifier") else text
