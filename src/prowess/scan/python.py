"""Follow Python code: a walk over the syntax tree that tracks names, imports and strings. The code never runs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

from prowess.scan.behaviour import Behaviour
from prowess.scan.finding import Report, ScanLimitError
from prowess.scan.languages import scan_code
from prowess.scan.python_calls import call_handed_over, call_method, call_name, functions_of
from prowess.scan.python_names import Names, collect_constants, each, plain_name, self_key
from prowess.scan.python_text import Call, format_percent, read_attribute
from prowess.scan.syntax_tree import parse_python
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

_MAX_DEPTH = 80
_MAX_ITEMS = 600
"""Items of a comprehension over numbers, which may spell a text."""


def analyse(behaviour: Behaviour, text: str, taint: frozenset[Label] = NO_LABELS) -> None:
    """Scan Python code."""
    tree = parse_python(behaviour.report, text)
    if tree is None:
        # Code blocks in documents are often fragments. Of a file, at least the commands in its strings are found.
        if behaviour.report.depth == 0 and behaviour.report.first_line == 1:
            scan_code(behaviour, text, "text")
        return
    behaviour.constants = collect_constants(tree)
    module = Module(behaviour, taint)
    # The first pass learns what functions take and return; its findings are dropped.
    silent = Report(path=behaviour.report.path, text=text, budget=behaviour.report.budget, depth=behaviour.report.depth)
    module.behaviour = Behaviour(report=silent, files=dict(behaviour.files), constants=behaviour.constants)
    module.run_body(tree.body)
    module.behaviour = behaviour
    module.run_body(tree.body)


class Module(Names):
    """One walk over one file."""

    def __init__(self, behaviour: Behaviour, taint: frozenset[Label]) -> None:
        self.behaviour = behaviour
        self.taint = taint
        super().__init__()

    # Statements

    def run_body(self, body: Sequence[ast.stmt]) -> None:
        """Follow statements in order."""
        for statement in body:
            self._run(statement)

    def _run(self, node: ast.stmt) -> None:
        self.behaviour.report.budget.spend()
        handler = self._statements.get(type(node))
        if handler is not None:
            handler(self, node)
            return
        for name, field in ast.iter_fields(node):
            if isinstance(field, ast.expr):
                self.eval(field)
            elif isinstance(field, list) and name in ("body", "orelse", "finalbody"):
                self._nested_body(cast("list[ast.stmt]", field))
            elif isinstance(field, list):
                self._run_parts(cast("list[Any]", field))

    def _run_parts(self, parts: list[Any]) -> None:
        for part in parts:
            if isinstance(part, ast.expr):
                self.eval(part)
            elif isinstance(part, ast.ExceptHandler | ast.match_case):
                self._nested_body(part.body)

    def _nested_body(self, body: Sequence[ast.stmt]) -> None:
        self._enter()
        try:
            self.run_body([statement for statement in body if isinstance(statement, ast.stmt)])
        finally:
            self.depth -= 1

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise ScanLimitError

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            self.bind(bound, named(alias.name if alias.asname else bound))

    def _import_from(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                for name in functions_of(node.module or ""):
                    self.bind(name, named(f"{node.module}.{name}"))
            self.bind(alias.asname or alias.name, named(f"{node.module or ''}.{alias.name}"))

    def _assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.store(target, value)

    def _assign_typed(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.store(node.target, self.eval(node.value))

    def _assign_more(self, node: ast.AugAssign) -> None:
        before, more = self.eval(node.target), self.eval(node.value)
        if before.items or more.items:
            value = listed([*before.items, *(more.items or [more])]).labelled(before.labels)
        else:
            value = (
                concat([before, more]) if isinstance(node.op, ast.Add) else Value(labels=join_labels([before, more]))
            )
        self.store(node.target, value)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        self.store(node.target, each(self.eval(node.iter)))
        self._nested_body(node.body)
        self._nested_body(node.orelse)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            value = self.eval(item.context_expr)
            if item.optional_vars is not None:
                self.store(item.optional_vars, value)
        self._nested_body(node.body)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.eval(decorator)
        self.functions[node.name] = node
        scope = self.inner.setdefault(id(node), {})
        for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            scope.setdefault(arg.arg, NOTHING)
        self._enter()
        self.scopes.append(scope)
        self.current.append(id(node))
        try:
            self.run_body(node.body)
        finally:
            self.depth -= 1
            self.current.pop()
            self.scopes.pop()

    def _return(self, node: ast.Return) -> None:
        if node.value is not None and self.current:
            value = self.eval(node.value)
            before = self.returns.get(self.current[-1])
            self.returns[self.current[-1]] = (
                either([value, before])
                if before is not None and before.texts != (UNKNOWN,)
                else value.labelled(before.labels if before else ())
            )

    # Expressions

    def eval(self, node: ast.expr) -> Value:
        """Return what is known about an expression."""
        self.behaviour.report.budget.spend()
        self._enter()
        try:
            handler = self._expressions.get(type(node))
            if handler is not None:
                return handler(self, node)
            parts = [self.eval(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
            return Value(labels=join_labels(parts))
        finally:
            self.depth -= 1

    def _constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, str):
            value = constant(node.value)
            return value.labelled(self.taint) if UNKNOWN in node.value else value
        if isinstance(node.value, bytes):
            return constant(node.value.decode("latin-1"))
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            return constant(str(node.value)[:40]) if abs(node.value) < 1 << 64 else NOTHING
        return NOTHING

    def _name(self, node: ast.Name) -> Value:
        return self.look_up(node.id)

    def _attribute(self, node: ast.Attribute) -> Value:
        key = self_key(node)
        if key and key in self.scopes[0]:
            return self.scopes[0][key]
        return read_attribute(self.behaviour, self.eval(node.value), node.attr)

    def _text(self, node: ast.JoinedStr) -> Value:
        parts = [self.eval(part.value if isinstance(part, ast.FormattedValue) else part) for part in node.values]
        return concat(parts) if parts else constant("")

    def _operation(self, node: ast.BinOp) -> Value:
        left, right = self.eval(node.left), self.eval(node.right)
        if isinstance(node.op, ast.Add):
            if left.items and right.items:
                return listed([*left.items, *right.items])
            return concat([left, right])
        if isinstance(node.op, ast.Div) and (left.name == "<path>" or right.name == "<path>"):
            return replace(concat([left, right], "/"), name="<path>")
        labels = join_labels([left, right])
        if isinstance(node.op, ast.Mod) and left.is_known and not left.text.isdigit():
            return format_percent(left, right, labels)
        if isinstance(node.op, ast.BitXor):
            return Value(labels=labels | {Label("decoded", "combined bytes")})
        return Value(labels=labels)

    def _choice(self, node: ast.BoolOp) -> Value:
        return either([self.eval(value) for value in node.values])

    def _if(self, node: ast.IfExp) -> Value:
        self.eval(node.test)
        return either([self.eval(node.body), self.eval(node.orelse)])

    def _list(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        return (
            listed([self.eval(item) for item in node.elts[:_MAX_ITEMS]])
            if len(node.elts) <= 32
            else self._long_list(node)
        )

    def _long_list(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        items = tuple(self.eval(item) for item in node.elts[:_MAX_ITEMS])
        return Value(items=items, labels=join_labels(items))

    def _dict(self, node: ast.Dict) -> Value:
        values = [self.eval(value) for value in node.values]
        keys = [self.eval(key) for key in node.keys if key is not None]
        return replace(listed(values), texts=either([*values, *keys]).texts, labels=join_labels([*values, *keys]))

    def _subscript(self, node: ast.Subscript) -> Value:
        owner, key = self.eval(node.value), self.eval(node.slice)
        if isinstance(node.slice, ast.Slice):
            return self._slice(owner, node.slice)
        if owner.name == "os.environ":
            return self.behaviour.variable(key.text, node.lineno)
        if owner.name in ("sys.modules", "globals()", "locals()", "vars()") or owner.name.endswith("__dict__"):
            prefix = owner.name.removesuffix("__dict__").rstrip(".") if owner.name.endswith("__dict__") else ""
            return named(plain_name(f"{prefix}.{key.text}" if prefix else key.text))
        if isinstance(node.value, ast.Attribute) and node.value.attr == "__globals__":
            return named(f"os.{key.text}" if key.text in functions_of("os") else key.text)
        if (item := owner.item(key.text)) is not None:
            return item
        name = either(owner.items).name  # one of several functions
        return Value(labels=owner.labels | key.labels, texts=owner.texts if owner.items else (UNKNOWN,), name=name)

    def _slice(self, owner: Value, node: ast.Slice) -> Value:
        step = node.step
        backwards = isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)
        if backwards and owner.is_known:
            return Value(texts=(owner.text[::-1],), labels=owner.labels | {Label("decoded", "reversed text")})
        return replace(owner, texts=(UNKNOWN,))

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Value:
        generator = node.generators[0]
        source = self.eval(generator.iter)
        for other in node.generators[1:]:
            self.store(other.target, each(self.eval(other.iter)))
        items = source.items or (
            tuple(constant(char) for char in source.text[:_MAX_ITEMS]) if _is_spelled(source) else ()
        )
        results: list[Value] = []
        for item in items or (each(source),):
            self.store(generator.target, item)
            results.append(self.eval(node.elt))
        return Value(items=tuple(results[:_MAX_ITEMS]), labels=join_labels(results), texts=either(results[:32]).texts)

    def _dict_comprehension(self, node: ast.DictComp) -> Value:
        for generator in node.generators:
            self.store(generator.target, each(self.eval(generator.iter)))
        return Value(labels=join_labels([self.eval(node.key), self.eval(node.value)]))

    def _lambda(self, node: ast.Lambda) -> Value:
        self._call_lambda(node, [NOTHING] * len(node.args.args))
        return NOTHING

    def _await(self, node: ast.Await) -> Value:
        return self.eval(node.value)

    def _walrus(self, node: ast.NamedExpr) -> Value:
        value = self.eval(node.value)
        self.store(node.target, value)
        return value

    def _call(self, node: ast.Call) -> Value:
        args = [self.eval(argument.value if isinstance(argument, ast.Starred) else argument) for argument in node.args]
        keywords = {one.arg or "": self.eval(one.value) for one in node.keywords}
        call = Call(behaviour=self.behaviour, line=node.lineno, args=args, keywords=keywords)
        call_handed_over(call)
        function = node.func
        if isinstance(function, ast.Lambda):
            return self._call_lambda(function, args)
        if isinstance(function, ast.Attribute):
            return self._call_attribute(function, call)
        return self._call_value(self.eval(function), call)

    def _call_attribute(self, node: ast.Attribute, call: Call) -> Value:
        owner = self.eval(node.value)
        if node.attr in ("append", "extend", "insert", "update", "add", "setdefault"):
            self.add_item(node.value, either(call.args))
        held = self.scopes[0].get(f"{node.value.id}.{node.attr}") if isinstance(node.value, ast.Name) else None
        if held is not None and held.name:
            return self._call_value(held, call)
        key = self_key(node)
        if key and node.attr in self.functions:
            return self.call_function(node.attr, call)
        full = plain_name(f"{owner.name}.{node.attr}") if owner.name else ""
        return call_method(call, owner, node.attr, full)

    def _call_value(self, function: Value, call: Call) -> Value:
        name = plain_name(function.name)
        if name.startswith("def:"):
            return self.call_function(name[4:], call)
        if name in self.functions:
            return self.call_function(name, call)
        result = call_name(call, name)
        return result if result is not None else Value(labels=join_labels([function, *call.everything]))

    def _call_lambda(self, node: ast.Lambda, args: list[Value]) -> Value:
        self.scopes.append({arg.arg: value for arg, value in zip(node.args.args, args, strict=False)})
        try:
            return self.eval(node.body)
        finally:
            self.scopes.pop()

    _statements: ClassVar[dict[type[ast.stmt], Callable[[Module, Any], None]]] = {
        ast.Import: _import,
        ast.ImportFrom: _import_from,
        ast.Assign: _assign,
        ast.AnnAssign: _assign_typed,
        ast.AugAssign: _assign_more,
        ast.For: _for,
        ast.AsyncFor: _for,
        ast.With: _with,
        ast.AsyncWith: _with,
        ast.FunctionDef: _function,
        ast.AsyncFunctionDef: _function,
        ast.Return: _return,
    }

    _expressions: ClassVar[dict[type[ast.expr], Callable[[Module, Any], Value]]] = {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.JoinedStr: _text,
        ast.BinOp: _operation,
        ast.BoolOp: _choice,
        ast.IfExp: _if,
        ast.List: _list,
        ast.Tuple: _list,
        ast.Set: _list,
        ast.Dict: _dict,
        ast.Subscript: _subscript,
        ast.ListComp: _comprehension,
        ast.GeneratorExp: _comprehension,
        ast.SetComp: _comprehension,
        ast.DictComp: _dict_comprehension,
        ast.Lambda: _lambda,
        ast.Await: _await,
        ast.NamedExpr: _walrus,
        ast.Call: _call,
    }


def _is_spelled(value: Value) -> bool:
    return value.is_known and 0 < len(value.text) <= _MAX_ITEMS and not value.name
