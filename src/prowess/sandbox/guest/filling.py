"""Values in the place of the marks that stand for them in a script.

A value takes its place in the syntax tree, after the script has been parsed, so no value is ever read as code.
"""

from __future__ import annotations

import ast
import json
import re
import types
from typing import Any, cast


def compiled(source: str, marks: dict[str, Any], name: str) -> types.CodeType:
    """The script as it can be run, with every mark replaced."""
    script = Filling(marks, name).visit(ast.parse(source, name)) if marks else source
    return compile(script, name, "exec", dont_inherit=True)


class Filling(ast.NodeTransformer):
    """Puts values where marks stand: as a literal for a mark that is an expression, as text for one within a string."""

    def __init__(self, marks: dict[str, Any], name: str) -> None:
        self._marks = marks
        self._name = name
        self._pattern = re.compile("|".join(map(re.escape, marks)))
        self._bytes = re.compile(self._pattern.pattern.encode())

    def visit(self, node: ast.AST) -> Any:
        """Replace below the node; a mark in any other place, such as within a name, is a syntax error."""
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
        message = "an input can stand for a whole value or within a text, not here"
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
