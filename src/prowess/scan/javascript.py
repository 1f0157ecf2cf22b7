"""Follow JavaScript and TypeScript code: a walk over the syntax tree of tree-sitter's grammar. The code never runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

from prowess.scan.behaviour import Behaviour
from prowess.scan.decoding import decode_escapes
from prowess.scan.finding import Report, ScanLimitError
from prowess.scan.javascript_calls import Call, call_function
from prowess.scan.javascript_names import Names, text_of
from prowess.scan.shell import line_of
from prowess.scan.syntax_tree import parse
from prowess.scan.values import (
    NO_LABELS,
    NOTHING,
    UNKNOWN,
    Label,
    Value,
    concat,
    constant,
    either,
    join_labels,
    listed,
    named,
)

MAX_CHARS = 400_000
_MAX_DEPTH = 80
_PASSING = frozenset({
    "spread_element", "sequence_expression", "parenthesized_expression", "arguments", "array", "object",
    "template_substitution", "unary_expression",
})  # fmt: skip
_FUNCTIONS = frozenset({
    "arrow_function", "function_expression", "function_declaration", "function", "generator_function",
    "method_definition",
})  # fmt: skip


@lru_cache(maxsize=1)
def load_language() -> Any:
    """Return the grammar, loaded once. TypeScript's reads JavaScript too."""
    import tree_sitter
    import tree_sitter_typescript

    return tree_sitter.Language(tree_sitter_typescript.language_tsx())


def analyse(behaviour: Behaviour, text: str, taint: frozenset[Label] = NO_LABELS) -> None:
    """Scan JavaScript or TypeScript code."""
    code = behaviour.report.cut(text, MAX_CHARS)
    _judge_shape(behaviour.report, text)
    root = parse(behaviour.report, code, load_language())
    script = Script(behaviour, taint)
    # The first walk learns what functions take and return; its findings are dropped.
    silent = Report(path=behaviour.report.path, text=text, budget=behaviour.report.budget, depth=behaviour.report.depth)
    script.behaviour = Behaviour(report=silent, files=behaviour.files)
    script.eval(root)
    script.behaviour = behaviour
    behaviour.constants = script.constants
    script.eval(root)


def _judge_shape(report: Report, text: str) -> None:
    """Report obfuscated code."""
    names = len(re.findall(r"\b_0x[0-9a-f]{3,}\b", text[:MAX_CHARS]))
    escapes = len(re.findall(r"\\x[0-9a-fA-F]{2}", text[:MAX_CHARS]))
    if names > 20 or escapes > 200:
        report.add(
            "warning", "obfuscation", 1, "The code is obfuscated or minified.", hint="Ask for the original source."
        )


class Script(Names):
    """One walk over one file."""

    def __init__(self, behaviour: Behaviour, taint: frozenset[Label]) -> None:
        super().__init__(behaviour)
        self.taint = taint
        self._depth = 0

    def eval(self, node: Any) -> Value:
        """Return what is known about a node."""
        self.behaviour.report.budget.spend()
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ScanLimitError
        try:
            handler = self._nodes.get(node.type)
            return handler(self, node) if handler else self._children(node)
        finally:
            self._depth -= 1

    def _children(self, node: Any) -> Value:
        values = [self.eval(child) for child in node.named_children]
        return Value(labels=join_labels(values)) if node.type in _PASSING else NOTHING

    def _only(self, node: Any) -> Value:
        values = [self.eval(child) for child in node.named_children]
        return values[0] if values else NOTHING

    def _last(self, node: Any) -> Value:
        values = [self.eval(child) for child in node.named_children]
        return values[-1] if values else NOTHING

    # Literals

    def _string(self, node: Any) -> Value:
        text = text_of(node)[1:-1]
        text = decode_escapes(text) if "\\" in text else text
        if 8 <= len(text) <= 4000 and len(self.constants) < 200:
            self.constants.append(text)
        value = constant(text)
        return value.labelled(self.taint) if UNKNOWN in text else value

    def _template(self, node: Any) -> Value:
        parts: list[Value] = []
        at = node.start_byte + 1
        for child in node.named_children:
            gap = node.text[at - node.start_byte : child.start_byte - node.start_byte].decode("utf-8", "replace")
            parts += [constant(gap)] if gap else []
            parts.append(
                constant(text_of(child)) if child.type in ("string_fragment", "escape_sequence") else self._only(child)
            )
            at = child.end_byte
        tail = node.text[at - node.start_byte : -1].decode("utf-8", "replace")
        value = concat([*parts, constant(tail)])
        if 8 <= len(value.text) <= 4000 and len(self.constants) < 200:
            self.constants.append(value.text)
        return value

    def _number(self, node: Any) -> Value:
        return constant(text_of(node)[:40])

    def _array(self, node: Any) -> Value:
        items = [self.eval(child) for child in node.named_children[:600]]
        return listed(items) if len(items) <= 32 else Value(items=tuple(items), labels=join_labels(items))

    def _object(self, node: Any) -> Value:
        values: list[Value] = []
        fields: list[tuple[str, Value]] = []
        for child in node.named_children:
            if child.type == "pair":
                key, value = child.child_by_field_name("key"), child.child_by_field_name("value")
                if key is not None and value is not None:
                    fields.append((text_of(key).strip("'\""), self.eval(value)))
            else:
                values.append(
                    self.look_up(text_of(child)) if child.type == "shorthand_property_identifier" else self.eval(child)
                )
                fields.append((text_of(child), values[-1]))
        return replace(listed([value for _, value in fields]), name="{" + ",".join(key for key, _ in fields[:32]) + "}")

    # Names

    def _identifier(self, node: Any) -> Value:
        return self.look_up(text_of(node))

    def _member(self, node: Any) -> Value:
        owner, key = node.child_by_field_name("object"), node.child_by_field_name("property")
        if owner is None or key is None:
            return NOTHING
        return self.attribute(self.eval(owner), text_of(key), line_of(node))

    def _subscript(self, node: Any) -> Value:
        owner, index = node.child_by_field_name("object"), node.child_by_field_name("index")
        if owner is None or index is None:
            return NOTHING
        holder, key = self.eval(owner), self.eval(index)
        if (item := holder.item(key.text)) is not None:
            return item
        if key.is_known and (holder.name or key.text == "constructor"):
            return self.attribute(holder, key.text, line_of(node))
        return Value(labels=holder.labels | key.labels)

    def _declarator(self, node: Any) -> Value:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None and value is not None:
            if value.type in _FUNCTIONS and name.type == "identifier":
                self.functions[text_of(name)] = value
            self.bind(name, self._eval_function(value, text_of(name)) if value.type in _FUNCTIONS else self.eval(value))
        return NOTHING

    def _assignment(self, node: Any) -> Value:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        value = self.eval(right) if right is not None else NOTHING
        if left is not None and left.type == "identifier":
            before = self.names.get(text_of(left), NOTHING)
            self.names[text_of(left)] = (
                concat([before, value]) if node.type == "augmented_assignment_expression" else value
            )
        elif left is not None:
            self.eval(left)
        return value

    # Functions

    def _function(self, node: Any) -> Value:
        name = node.child_by_field_name("name")
        key = text_of(name) if name is not None else f"@{node.start_byte}"
        self.functions[key] = node
        return self._eval_function(node, key)

    def _eval_function(self, node: Any, key: str) -> Value:
        body = node.child_by_field_name("body")
        self.current.append(key)
        try:
            value = self.eval(body) if body is not None else NOTHING
        finally:
            self.current.pop()
        # `() => expression` returns its body.
        if body is not None and body.type != "statement_block":
            self.returns[key] = value
        return named(f"def:{key}")

    def _return(self, node: Any) -> Value:
        value = self._only(node)
        if self.current:
            before = self.returns.get(self.current[-1])
            self.returns[self.current[-1]] = value.labelled(before.labels) if before is not None else value
        return NOTHING

    def bind_parameters(self, node: Any, values: list[Value]) -> None:
        """Give values to the parameters of a function."""
        single = node.child_by_field_name("parameter")
        parameters = (
            [single]
            if single is not None
            else (
                node.child_by_field_name("parameters").named_children
                if node.child_by_field_name("parameters") is not None
                else []
            )
        )
        for parameter, value in zip(parameters, values, strict=False):
            self.bind(parameter, value)

    def _call(self, node: Any) -> Value:
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        constructor = node.child_by_field_name("constructor")
        target = function if function is not None else constructor
        if target is None:
            return NOTHING
        callee = self.eval(target)
        parts: list[Any] = arguments.named_children if arguments is not None and arguments.type == "arguments" else []
        callbacks = [part for part in parts if part.type in _FUNCTIONS]
        values = [NOTHING if part.type in _FUNCTIONS else self.eval(part) for part in parts if part.type != "comment"]
        if arguments is not None and arguments.type == "template_string":
            values = [self.eval(arguments)]
        owner, method = self._split_member(target)
        if callee.name.startswith("def:"):
            result = self._call_own(callee.name[4:], values)
        else:
            result = call_function(
                Call(
                    behaviour=self.behaviour,
                    line=line_of(node),
                    name=callee.name,
                    owner=owner,
                    method=method,
                    args=values,
                    function=callee,
                )
            )
        for callback in callbacks:
            # What a request gives reaches the function that is handed over: `get(url, (res) => …)`, `.then((text) => …)`.
            # `readFile` hands over an error first.
            name = next((value.name for value in (result, owner) if value.name.startswith("<")), "")
            module = owner.name if method == "then" and not name else ""  # `import("fs").then((fs) => …)`
            passed = Value(labels=result.labels | owner.labels, name=name or module)
            error_first = method.startswith(("read", "exec", "lookup")) or callee.name.endswith((".exec", ".readFile"))
            self.bind_parameters(callback, [NOTHING, passed, passed] if error_first else [passed, passed])
            self.eval(callback)
        return result

    def _call_own(self, name: str, values: list[Value]) -> Value:
        node = self.functions.get(name)
        if node is not None:
            self.bind_parameters(node, values)
        return self.returns.get(name, NOTHING)

    def _split_member(self, target: Any) -> tuple[Value, str]:
        owner, key = target.child_by_field_name("object"), target.child_by_field_name("property")
        if target.type != "member_expression" or owner is None or key is None:
            return NOTHING, ""
        # The owner was evaluated with the callee; its value is looked up again without reporting twice.
        if owner.type == "identifier":
            return self.look_up(text_of(owner)), text_of(key)
        behaviour = self.behaviour
        self.behaviour = Behaviour(
            report=Report(path="", text="", budget=behaviour.report.budget, depth=behaviour.report.depth),
            files=behaviour.files,
        )
        try:
            return self.eval(owner), text_of(key)
        finally:
            self.behaviour = behaviour

    def _binary(self, node: Any) -> Value:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if left is None or right is None:
            return NOTHING
        first, second = self.eval(left), self.eval(right)
        sign = text_of(operator) if operator is not None else ""
        if sign == "+":
            return concat([first, second])
        if sign in ("||", "??", "&&"):
            return either([first, second])
        labels = join_labels([first, second])
        return Value(labels=labels | {Label("decoded", "combined bytes")} if sign == "^" else labels)

    def _ternary(self, node: Any) -> Value:
        parts = [node.child_by_field_name(name) for name in ("consequence", "alternative")]
        condition = node.child_by_field_name("condition")
        if condition is not None:
            self.eval(condition)
        return either([self.eval(part) for part in parts if part is not None])

    def _for_in(self, node: Any) -> Value:
        left, right, body = (node.child_by_field_name(name) for name in ("left", "right", "body"))
        value = self.eval(right) if right is not None else NOTHING
        if left is not None:
            self.bind(left, either(value.items) if value.items else value)
        return self.eval(body) if body is not None else NOTHING

    _nodes: ClassVar[dict[str, Callable[[Script, Any], Value]]] = {
        "string": _string,
        "template_string": _template,
        "number": _number,
        "array": _array,
        "object": _object,
        "identifier": _identifier,
        "member_expression": _member,
        "subscript_expression": _subscript,
        "variable_declarator": _declarator,
        "assignment_expression": _assignment,
        "augmented_assignment_expression": _assignment,
        "import_statement": Names.bind_import,
        "sequence_expression": _last,
        "import": lambda _script, _node: named("import"),
        **dict.fromkeys(_FUNCTIONS, _function),
        "return_statement": _return,
        "call_expression": _call,
        "new_expression": _call,
        "binary_expression": _binary,
        "ternary_expression": _ternary,
        "for_in_statement": _for_in,
        **dict.fromkeys(
            (
                "await_expression",
                "parenthesized_expression",
                "as_expression",
                "non_null_expression",
                "satisfies_expression",
            ),
            _only,
        ),
        "comment": lambda _script, _node: NOTHING,
    }
