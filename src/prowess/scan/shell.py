"""Follow shell code: a walk over the syntax tree of tree-sitter's bash grammar that tracks variables, pipes and files.

Nothing runs. Each statement gives a value, its output, so that `curl … | sh`, `eval "$(curl …)"` and `curl -o f …; sh f` lead to the same
finding.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

from prowess.scan.behaviour import Behaviour
from prowess.scan.decoding import decode_escapes, escape_labels
from prowess.scan.finding import ScanLimitError
from prowess.scan.shell_commands import RUNNERS, Handler, run_command
from prowess.scan.shell_files import FILES
from prowess.scan.shell_services import SERVICES
from prowess.scan.shell_system import SYSTEM
from prowess.scan.shell_words import change_text, find_program, judge_variable, spread_braces
from prowess.scan.syntax_tree import parse
from prowess.scan.values import NO_LABELS, NOTHING, UNKNOWN, Label, Value, concat, constant, either, join_labels

MAX_CHARS = 400_000

_MAX_DEPTH = 60

_PROMPT = re.compile(r"(?m)^[ \t]*(?:\$|%|❯|➜|>|PS [^>\n]*>|[\w.-]+@[\w.-]+[:~\w/ -]*[$#])[ \t]+(?=\S)")

# Bash joins the two lines of a word; the grammar sees two words.
_SPLIT_WORD = re.compile(r"(?<=[\w/.-])\\\n(?=[\w/.-])")

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

# Each of these is a list of words, also between quotes.
_LIST = re.compile(rb'"?\$(?:[@*]|\{[@*]\}|\{\w+\[[@*]\]\})"?')

_DEV_TCP = re.compile(r"^/dev/(?:tcp|udp)/([^/]+)/")


@lru_cache(maxsize=1)
def load_language() -> Any:
    """Return the grammar, loaded once."""
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


def analyse(behaviour: Behaviour, text: str, taint: frozenset[Label] = NO_LABELS) -> None:
    """Scan shell code."""
    start = behaviour.report.cut(text, MAX_CHARS).replace("\r\n", "\n")
    code = spread_braces(_SPLIT_WORD.sub("", _PROMPT.sub("", start)))
    Shell(behaviour, taint).run(parse(behaviour.report, code, load_language()), NOTHING)


class Shell:
    """One run over one script."""

    table: ClassVar[dict[str, Handler]] = FILES | RUNNERS | SERVICES | SYSTEM

    def __init__(self, behaviour: Behaviour, taint: frozenset[Label]) -> None:
        self.behaviour = behaviour
        self.taint = taint
        self.variables: dict[str, Value] = {"IFS": constant(" ")}
        self.functions: dict[str, Any] = {}
        self.aliases: dict[str, Value] = {}
        self._depth = 0

    def run(self, node: Any, stdin: Value) -> Value:
        """Follow one statement; return its output."""
        self.behaviour.report.budget.spend()
        if self._depth > _MAX_DEPTH:
            raise ScanLimitError
        self._depth += 1
        try:
            handler = self._statements.get(node.type)
            return handler(self, node, stdin) if handler else self._run_children(node, stdin)
        finally:
            self._depth -= 1

    def _run_children(self, node: Any, stdin: Value) -> Value:
        outputs = [self.run(child, stdin) for child in node.named_children if child.type not in _NOT_STATEMENTS]
        labels = join_labels(outputs)
        texts = [output for output in outputs if output.texts != (UNKNOWN,)]
        return Value(texts=texts[-1].texts if texts else (UNKNOWN,), labels=labels) if outputs else NOTHING

    def _run_pipeline(self, node: Any, stdin: Value) -> Value:
        value = stdin
        for child in node.named_children:
            if child.type != "comment":
                value = self.run(child, value)
        return value

    def _run_redirected(self, node: Any, stdin: Value) -> Value:
        body = node.child_by_field_name("body")
        redirects = [child for child in node.children if child.type.endswith("_redirect")]
        inputs = [self._read_redirect(redirect) for redirect in redirects]
        for redirect, value in zip(redirects, inputs, strict=True):
            number = redirect.child_by_field_name("descriptor")
            if number is not None and value is not None:  # `exec 3< …`
                self.behaviour.files[f"/dev/fd/{number.text.decode()}"] = value
        source = either([stdin, *[value for value in inputs if value is not None]]) if any(inputs) else stdin
        # The grammar hangs what follows `cmd <<EOF` on the same line (a pipe, a redirect) below the heredoc.
        output = self.run(body, source) if body is not None else source
        for redirect in redirects:
            output = self._follow_heredoc_tail(redirect, output)
            self._write_redirect(redirect, output, body)
        return output

    def _read_redirect(self, node: Any) -> Value | None:
        if node.type == "heredoc_redirect":
            body = next((child for child in node.named_children if child.type == "heredoc_body"), None)
            return self._heredoc(body) if body is not None else None
        if node.type == "herestring_redirect":
            return self.resolve(node.named_children[-1]) if node.named_children else None
        if node.children and any(child.type in ("<", "<&") for child in node.children):
            target = node.child_by_field_name("destination")
            if target is None:
                return None
            path = self.resolve(target)
            if path.text.isdigit():  # `<&3`
                return self.behaviour.files.get(f"/dev/fd/{path.text}")
            host = _DEV_TCP.match(path.text)
            if host:
                return self.behaviour.fetch(constant(f"tcp://{host[1]}"), line_of(node)).labelled(
                    [Label("network", host[1])]
                )
            return path if path.name == "stream" else self.behaviour.read(path, line_of(node))
        return None

    def _heredoc(self, body: Any) -> Value:
        inner = [self.resolve(child) for child in body.named_children if child.type != "heredoc_content"]
        return Value(texts=(body.text.decode("utf-8", "replace"),), labels=join_labels(inner))

    def _follow_heredoc_tail(self, node: Any, output: Value) -> Value:
        if node.type != "heredoc_redirect":
            return output
        for child in node.named_children:
            if child.type in ("pipeline", "command", "list", "redirected_statement"):
                output = self.run(child, output)
            elif child.type == "file_redirect":
                self._write_redirect(child, output, None)
        return output

    def _write_redirect(self, node: Any, output: Value, body: Any) -> None:
        signs = {child.type for child in node.children}
        target = node.child_by_field_name("destination")
        if node.type != "file_redirect" or target is None or not signs & {">", ">>", "&>", "&>>", ">|", ">&"}:
            return
        if target.type == "process_substitution":  # `> >(sh)`
            self._run_children(target, output)
            return
        path = self.resolve(target)
        host = _DEV_TCP.match(path.text)
        if host and host[1] not in ("localhost", "127.0.0.1"):
            self._judge_socket(host[1], output, body, line_of(node))
        elif not path.text.startswith(
            ("/dev/null", "/dev/std", "/dev/fd", "/dev/tcp", "/dev/udp")
        ) and path.text not in ("1", "2"):
            self.behaviour.write(path, output, line_of(node), append=bool(signs & {">>", "&>>"}))

    def _judge_socket(self, host: str, output: Value, body: Any, line: int) -> None:
        words: list[str] = body.text.decode("utf-8", "replace").split() if body is not None else []
        if any(re.fullmatch(r"(?:/\S*/)?(?:ba|z|da|k)?sh|exec", word) for word in words[:3]):
            self.behaviour.remote_shell(line)
        self.behaviour.send(constant(f"https://{host}/"), output, line)

    def _run_assignment(self, node: Any, _stdin: Value) -> Value:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None:
            return NOTHING
        resolved = self.resolve(value) if value is not None else constant("")
        key = name.text.decode("utf-8", "replace")
        before = self.variables.get(key)
        if before is not None and any(child.type == "+=" for child in node.children):
            items = (*before.items, *resolved.items)
            resolved = replace(concat([before, resolved], " " if resolved.items else ""), items=items[:_MAX_ITEMS])
        judge_variable(self.behaviour, key, resolved, line_of(node))
        self.variables[key] = resolved
        return NOTHING

    def _run_function(self, node: Any, stdin: Value) -> Value:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.functions[name.text.decode("utf-8", "replace")] = body
            # A fork bomb: a function that pipes itself into itself.
            text = re.sub(r"\s", "", node.text.decode("utf-8", "replace")[:80])
            word = re.escape(name.text.decode("utf-8", "replace"))
            if re.search(rf"\{{{word}\|{word}&", text):
                self.behaviour.report.add(
                    "danger", "destruction", line_of(node), "Starts endless copies of itself (a fork bomb)."
                )
            self.run(body, stdin)
        return NOTHING

    def _run_for(self, node: Any, stdin: Value) -> Value:
        variable = node.child_by_field_name("variable")
        values = self._resolve_all(node.children_by_field_name("value"))
        if variable is not None:
            self.variables[variable.text.decode("utf-8", "replace")] = either(values)
        body = node.child_by_field_name("body")
        return self.run(body, stdin) if body is not None else NOTHING

    def _run_command(self, node: Any, stdin: Value) -> Value:
        name = node.child_by_field_name("name")
        for child in node.children:
            if child.type == "variable_assignment":
                self._run_assignment(child, stdin)
        redirects = [child for child in node.children if child.type.endswith("_redirect")]
        for redirect in redirects:
            value = self._read_redirect(redirect)
            stdin = either([stdin, value]) if value is not None else stdin
        if name is None:
            return NOTHING
        first = name.named_children[0] if name.named_children else name
        words = self._resolve_all([first])
        if first.type in _SPLIT and " " in words[0].text:  # `$program`, whose text has arguments as well
            words = [Value(texts=(text,), labels=words[0].labels) for text in words[0].text.split()] or words
        words[0] = replace(words[0], texts=(find_program(words[0].text), *words[0].texts[1:]))
        arguments = node.children_by_field_name("argument")
        words += self._resolve_all(arguments)
        output = run_command(self, words, stdin, line_of(node))
        for redirect in arguments:
            if redirect.type == "process_substitution" and redirect.text.startswith(b">"):  # `tee >(sh)`
                self._run_children(redirect, stdin)
        for redirect in redirects:
            self._write_redirect(redirect, output, node)
        return output

    def _run_declaration(self, node: Any, stdin: Value) -> Value:
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._run_assignment(child, stdin)
        if node.text.startswith(b"export -p"):
            return self.behaviour.environment()
        return NOTHING

    def _run_unset(self, node: Any, _stdin: Value) -> Value:
        if b"HISTFILE" in node.text:
            self.behaviour.report.add("danger", "deception", line_of(node), "Disables the shell history.")
        return NOTHING

    def call_function(self, name: str, args: list[Value], stdin: Value) -> Value | None:
        """Follow a call of a function of the script; None if there is no such function."""
        body = self.functions.get(name)
        if body is None or self._depth > 12:
            return None
        before = {key: self.variables.get(key) for key in ("1", "2", "3")}
        self.variables |= {str(index): value for index, value in enumerate(args[:9], start=1)}
        output = self.run(body, stdin)
        self.variables |= {key: value for key, value in before.items() if value is not None}
        return output

    # Words

    def resolve(self, node: Any) -> Value:
        """Return the value of a word."""
        self.behaviour.report.budget.spend()
        if self._depth > _MAX_DEPTH:
            raise ScanLimitError
        self._depth += 1
        try:
            handler = self._words.get(node.type)
            if handler is not None:
                return handler(self, node)
            return self._tainted(node.text.decode("utf-8", "replace"))
        finally:
            self._depth -= 1

    def _resolve_all(self, nodes: list[Any]) -> list[Value]:
        """Return the values of words, each item of an array as one."""
        words: list[Value] = []
        for node in nodes:
            value = self.resolve(node)
            words += value.items if value.items and _LIST.fullmatch(node.text) else [value]
        return words

    def _array(self, node: Any) -> Value:
        items = [self.resolve(child) for child in node.named_children[:_MAX_ITEMS]]
        return replace(concat(items, " "), items=tuple(items)) if items else constant("")

    def _tainted(self, text: str) -> Value:
        value = constant(text)
        return value.labelled(self.taint) if UNKNOWN in text else value

    def _word(self, node: Any) -> Value:
        return self._tainted(_ESCAPE.sub(r"\1", node.text.decode("utf-8", "replace")))

    def _raw(self, node: Any) -> Value:
        return self._tainted(node.text.decode("utf-8", "replace")[1:-1])

    def _ansi(self, node: Any) -> Value:
        text = node.text.decode("utf-8", "replace")[2:-1]
        return Value(texts=(decode_escapes(text),), labels=escape_labels(text))

    def _concat(self, node: Any) -> Value:
        return concat([self.resolve(child) for child in node.children])

    def _string(self, node: Any) -> Value:
        parts: list[Value] = []
        at = node.start_byte + 1
        source = node.text
        for child in node.named_children:
            gap = source[at - node.start_byte : child.start_byte - node.start_byte].decode("utf-8", "replace")
            # White space between two expansions belongs to no node of the grammar.
            parts += [self._tainted(gap)] if gap else []
            text = child.text.decode("utf-8", "replace") if child.type == "string_content" else None
            parts.append(
                self._tainted(re.sub(r'\\(["$`\\\n])', r"\1", text)) if text is not None else self.resolve(child)
            )
            at = child.end_byte
        tail = source[at - node.start_byte : -1].decode("utf-8", "replace")
        parts += [self._tainted(tail)] if tail else []
        return parts[0] if len(parts) == 1 else concat(parts) if parts else constant("")

    def _expansion(self, node: Any) -> Value:
        inner, index = node.named_children, ""
        if inner and inner[0].type == "subscript":  # `${name[@]}`
            index = inner[0].named_children[-1].text.decode("utf-8", "replace")
            inner = inner[0].named_children
        names = [child for child in inner if child.type in ("variable_name", "special_variable_name")]
        if not names:
            return Value(
                labels=join_labels([self.resolve(child) for child in node.named_children if child.type != "ERROR"])
            )
        key = names[0].text.decode("utf-8", "replace")
        value = self.variables.get(key)
        if value is not None and node.text.startswith(b"${!"):
            value = self.variables.get(value.text)
        if value is not None:
            value = value.item(index) or value
        if value is None:
            value = self.behaviour.variable(key, line_of(node))
            default = [child for child in node.named_children if child not in names and child.type != "subscript"]
            if default and value.texts == (UNKNOWN,):
                value = either([value, self.resolve(default[0])])
        changed = change_text(node.text.decode("utf-8", "replace"), value)
        if changed is not None:
            return changed
        # `${x#y}` and the like change the text: keep where it is from.
        if node.type == "expansion" and any(
            child.type in ("#", "##", "%", "%%", "/", "//", ":") for child in node.children
        ):
            return Value(
                labels=value.labels, texts=value.texts if ":" in {child.type for child in node.children} else (UNKNOWN,)
            )
        return value

    def _substitution(self, node: Any) -> Value:
        output = self._run_children(node, NOTHING)
        for child in node.children:
            if child.type == "file_redirect":  # `$(< file)`
                value = self._read_redirect(child)
                output = value if value is not None else output
        return Value(texts=tuple(text.rstrip("\n") for text in output.texts), labels=output.labels)

    def _process(self, node: Any) -> Value:
        output = self._run_children(node, NOTHING)
        return Value(texts=output.texts, labels=output.labels, name="stream")

    _statements: ClassVar[dict[str, Callable[[Shell, Any, Value], Value]]] = {
        "pipeline": _run_pipeline,
        "redirected_statement": _run_redirected,
        "variable_assignment": _run_assignment,
        "function_definition": _run_function,
        "for_statement": _run_for,
        "command": _run_command,
        "declaration_command": _run_declaration,
        "unset_command": _run_unset,
        **dict.fromkeys(("string", "raw_string", "simple_expansion", "expansion", "command_substitution"), lambda shell, node, _stdin: shell.resolve(node)),
    }  # fmt: skip

    _words: ClassVar[dict[str, Callable[[Shell, Any], Value]]] = {
        "word": _word,
        "raw_string": _raw,
        "ansi_c_string": _ansi,
        "string": _string,
        "array": _array,
        "translated_string": _concat,
        "concatenation": _concat,
        "simple_expansion": _expansion,
        "expansion": _expansion,
        "command_substitution": _substitution,
        "process_substitution": _process,
    }


def line_of(node: Any) -> int:
    """Return the line of a node, from one."""
    return int(node.start_point[0]) + 1


_MAX_ITEMS = 64
_SPLIT = frozenset({"concatenation", "expansion", "simple_expansion"})
_NOT_STATEMENTS = frozenset(
    {"comment", "heredoc_start", "heredoc_end", "heredoc_body", "variable_name", "word", "number", "file_descriptor"}
)
