"""The JavaScript functions and methods that matter, and what each of them does with its arguments."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from prowess.scan.behaviour import Behaviour, is_shell
from prowess.scan.decoding import decode_base64, decode_hex, decode_value
from prowess.scan.python_text import run_words
from prowess.scan.values import (
    NOTHING,
    UNKNOWN,
    Label,
    Value,
    concat,
    constant,
    either,
    join_labels,
    named,
    read_number,
)

_DECODED = Label("decoded", "encoded text")


@dataclass(slots=True, kw_only=True)
class Call:
    """One call: the dotted name of the function, the object of a method, and the arguments."""

    behaviour: Behaviour
    line: int
    name: str
    owner: Value
    method: str
    args: list[Value]
    function: Value

    def arg(self, index: int) -> Value:
        """Return an argument by position."""
        return self.args[index] if index < len(self.args) else NOTHING

    def field(self, value: Value, *keys: str) -> list[Value]:
        """Return the named fields of an object value."""
        names = value.name[1:-1].split(",") if value.name.startswith("{") else []
        return [item for key, item in zip(names, value.items, strict=False) if key in keys]


Handler = Callable[[Call], Value]


def module_name(name: str) -> str:
    """Return the name under which the functions of a module are in the table."""
    plain = name.removeprefix("node:")
    return {
        "fs/promises": "fs",
        "node-fetch": "fetch",
        "child_process": "child_process",
        "fs-extra": "fs",
        "cross-spawn": "child_process.spawn",
    }.get(plain, plain)


def call_function(call: Call) -> Value:
    """Follow a call; return its result."""
    called = _call_other(call)
    if called is not None:
        return called
    for pattern, handler in _FUNCTIONS:
        if pattern.fullmatch(call.name):
            return handler(call)
    handler = _METHODS.get(call.method)
    if handler is not None:
        return handler(call)
    name = call.owner.name if call.owner.name.startswith("<") else ""
    return Value(labels=join_labels([call.owner, call.function, *call.args]), name=name)


def _call_other(call: Call) -> Value | None:
    """Follow a call that calls another function: `f.call(this, …)`, `Reflect.apply(f, this, […])`, `promise.then(eval)`."""
    if call.method == "bind" and call.owner.name:
        return call.owner
    if call.name == "Reflect.apply":
        name, args = call.arg(0).name, call.args[2:]
    elif call.method in ("call", "apply") and call.owner.name:
        name, args = call.owner.name, call.args[1:]
    elif call.method == "then" and call.arg(0).name in ("eval", "Function"):
        name, args = call.arg(0).name, [Value(labels=call.owner.labels)]
    else:
        return None
    if len(args) == 1 and args[0].items and call.method != "call":
        args = list(args[0].items)
    parts = name.rpartition(".")
    return call_function(replace(call, name=name, method=parts[2] if parts[1] else "", owner=NOTHING, args=args))


def _require(call: Call) -> Value:
    if call.arg(0).has("network"):
        call.behaviour.execute(call.arg(0), "javascript", call.line)
    return named(module_name(call.arg(0).text)) if call.arg(0).is_known else NOTHING


def _run_code(call: Call) -> Value:
    code = call.args[-1] if call.args else NOTHING
    if call.name.endswith(("setTimeout", "setInterval")) and not code.is_known and not code.labels:
        return NOTHING
    call.behaviour.execute(
        call.args[0] if call.name.startswith("vm") and call.args else code if call.name != "eval" else call.arg(0),
        "javascript",
        call.line,
    )
    return NOTHING


def _timer(call: Call) -> Value:
    code = call.arg(0)
    if code.is_known and "(" in code.text:
        call.behaviour.execute(code, "javascript", call.line)
    return NOTHING


def _run_shell(call: Call) -> Value:
    command = call.arg(0)
    if any(value.name.startswith("<socket") for value in call.field(call.arg(call.args.__len__() - 1), "stdio")):
        call.behaviour.remote_shell(call.line)
    output = run_words(call.behaviour, Value(texts=command.texts, labels=command.labels), call.line)
    return replace(output, name="<process>") if not output.labels else output


def _spawn(call: Call) -> Value:
    program, arguments = call.arg(0), call.arg(1)
    if program.items:
        arguments, program = Value(items=program.items[1:]), program.items[0]
    if program.has("network", "decoded") or call.behaviour.files.get(program.text) is not None:
        call.behaviour.execute(
            program.labelled(join_labels([call.behaviour.files.get(program.text, NOTHING)])), "shell", call.line
        )
        return NOTHING
    if is_shell(program.text) and not arguments.items:
        return Value(name="<shell>")
    words = Value(items=(program, *arguments.items), labels=join_labels([program, arguments]))
    if program.text == UNKNOWN:
        return NOTHING
    return run_words(call.behaviour, words, call.line)


# Files


def _read(call: Call) -> Value:
    content = call.behaviour.read(call.arg(0), call.line)
    return Value(labels=content.labels, texts=content.texts)


def _write(call: Call) -> Value:
    call.behaviour.write(call.arg(0), call.arg(1), call.line)
    return NOTHING


def _copy(call: Call) -> Value:
    call.behaviour.write(call.arg(1), call.behaviour.read(call.arg(0), call.line), call.line)
    return NOTHING


def _delete(call: Call) -> Value:
    call.behaviour.delete(
        call.arg(0), call.line, recursive=bool(call.field(call.arg(1), "recursive")) or "rmdir" in call.name
    )
    return NOTHING


# Text


def _buffer(call: Call) -> Value:
    value, encoding = call.arg(0), call.arg(1).text.lower()
    if encoding in ("base64", "base64url", "hex"):
        return decode_value(value, decode_hex if encoding == "hex" else decode_base64)
    return Value(texts=value.texts, labels=value.labels)


def _from_codes(call: Call) -> Value:
    codes = call.args if len(call.args) > 1 else list(call.arg(0).items) or call.args
    numbers = [read_number(arg.text) for arg in codes]
    known = [chr(number) for number in numbers if number is not None and 0 <= number < 0x110000]
    return Value(
        texts=("".join(known),) if numbers and len(known) == len(numbers) else (UNKNOWN,),
        labels=join_labels(call.args) | {_DECODED},
    )


def _unescape(call: Call) -> Value:
    from urllib.parse import unquote

    value = call.arg(0)
    return decode_value(value, unquote) if value.text.count("%") > 5 else Value(texts=value.texts, labels=value.labels)


def _join(call: Call) -> Value:
    if call.owner.items:
        glue = call.arg(0).text if call.args else ","
        return Value(texts=(glue.join(item.text for item in call.owner.items),), labels=join_labels([call.owner]))
    return Value(labels=call.owner.labels)


def _reverse(call: Call) -> Value:
    return Value(items=call.owner.items[::-1], labels=call.owner.labels | {Label("decoded", "reversed text")})


def _split(call: Call) -> Value:
    text, separator = call.owner.text, call.arg(0).text
    if call.owner.is_known and len(text) < 2000 and call.args and call.arg(0).is_known:
        return Value(
            items=tuple(constant(part) for part in (text.split(separator) if separator else text)),
            labels=call.owner.labels,
        )
    return Value(labels=call.owner.labels)


def _same(call: Call) -> Value:
    return Value(
        texts=call.owner.texts,
        labels=call.owner.labels,
        name=call.owner.name if call.owner.name.startswith("<") else "",
        items=call.owner.items,
    )


def _replace(call: Call) -> Value:
    old, new = call.arg(0), call.arg(1)
    if call.owner.is_known and old.is_known and new.is_known and len(call.args) == 2:
        return Value(texts=(call.owner.text.replace(old.text, new.text),), labels=join_labels([call.owner, *call.args]))
    return Value(labels=join_labels([call.owner, *call.args]))


# Network


def _request(call: Call) -> Value:
    url, options = call.arg(0), call.arg(1)
    if url.name.startswith("{"):
        address = either(
            call.field(url, "url") or [concat([constant("https://"), either(call.field(url, "host", "hostname"))])]
        )
        options, url = url, address
    if call.name == "fetch" or options.name.startswith("{"):
        bodies = call.field(options, "body", "data", "json", "form", "params", "query", "searchParams")
        headers = call.field(options, "headers", "auth")
        rest = [] if bodies or headers else [options] if not options.name.startswith("{") else []
        data = [*bodies, *rest, *call.args[2:3]]
    else:
        headers, data = (
            [value for option in call.args[2:] for value in call.field(option, "headers", "auth")],
            call.args[1:2],
        )
    if re.search(r"\.(post|put|patch)$", call.name) and options.name.startswith("{") and not data:
        data = [options]
    fetched = call.behaviour.fetch(url, call.line)
    call.behaviour.send(url, Value(labels=join_labels([*data, url])), call.line)
    call.behaviour.send(url, Value(labels=join_labels(headers)), call.line, header=True)
    return Value(labels=fetched.labels, name="<request>", texts=url.texts)


def _socket(call: Call) -> Value:
    host = next((arg for arg in call.args if re.search(r"[a-z]\.[a-z]|\d\.\d", arg.text)), NOTHING)
    fetched = call.behaviour.fetch(constant(f"https://{host.text}") if "://" not in host.text else host, call.line)
    return Value(labels=fetched.labels, name="<socket>", texts=host.texts)


def _look_up_name(call: Call) -> Value:
    call.behaviour.send(call.arg(0), call.arg(0), call.line)
    return NOTHING


def _put_out(call: Call) -> Value:
    """Follow `.write`, `.send` and `.end` of a request, a socket or a file."""
    if call.owner.name == "<file:w>":
        call.behaviour.write(replace(call.owner, name=""), call.arg(0), call.line)
    elif call.owner.name in ("<request>", "<socket>"):
        call.behaviour.send(call.owner, Value(labels=join_labels(call.args)), call.line)
    elif call.owner.name == "<shell>" and call.arg(0).has("network"):
        call.behaviour.remote_shell(call.line)
    return NOTHING


def _pipe(call: Call) -> Value:
    target = call.arg(0)
    if target.name == "<file:w>":
        call.behaviour.write(replace(target, name=""), Value(labels=call.owner.labels), call.line)
    elif target.name == "<shell>":
        call.behaviour.remote_shell(call.line)
    elif target.name in ("<request>", "<socket>"):
        call.behaviour.send(target, Value(labels=call.owner.labels), call.line)
    return Value(labels=call.owner.labels, name=target.name, texts=target.texts)


_TABLE: tuple[tuple[str, Handler], ...] = (
    (r"(?:.*\.)?(?:mainModule|module)\.require|require|import|process\.getBuiltinModule", _require),
    (r"(?:module\.)?createRequire", lambda _call: named("require")),
    (r"Reflect\.get", lambda call: named(call.arg(1).text) if call.arg(0).name == "globalThis" else NOTHING),
    (r"Object\.getPrototypeOf", lambda _call: named("<prototype>")),
    (r"<prototype>|eval|Function|.*\.constructor\.constructor|vm\.(runInThisContext|runInNewContext|runInContext|Script|compileFunction)", _run_code),
    (r"setTimeout|setInterval", _timer),
    (r"child_process\.(exec|execSync)|execa\.(command|execaCommand|\$)|shelljs\.exec|Bun\.\$|execSync|zx\.\$", _run_shell),
    (r"child_process\.(spawn|spawnSync|execFile|execFileSync|fork)|execa(\.\w+)?|Bun\.spawn(Sync)?|Deno\.(Command|run)", _spawn),
    (r"fs\.(promises\.)?(readFile|readFileSync|createReadStream)|Deno\.(readTextFile|readFile)(Sync)?|Bun\.file", _read),
    (r"fs\.(promises\.)?(writeFile|writeFileSync|appendFile|appendFileSync|outputFile|outputFileSync)|Deno\.(writeTextFile|writeFile)(Sync)?|Bun\.write", _write),
    (r"fs\.createWriteStream", lambda call: Value(texts=call.arg(0).texts, name="<file:w>")),
    (r"fs\.(promises\.)?(copyFile|copyFileSync|rename|renameSync|cp|cpSync|symlink|symlinkSync)", _copy),
    (r"fs\.(promises\.)?(rm|rmSync|rmdir|rmdirSync|unlink|unlinkSync|remove|removeSync)|rimraf(\.sync)?|Deno\.remove", _delete),
    (r"path\.(posix\.)?(join|resolve)", lambda call: concat(call.args, "/") if call.args else NOTHING),
    (r"os\.homedir|Deno\.homeDir", lambda _call: constant("~")),
    (r"Deno\.env\.get", lambda call: call.behaviour.variable(call.arg(0).text, call.line)),
    (r"Deno\.env\.toObject", lambda call: call.behaviour.environment()),
    (r"Buffer\.from|Buffer", _buffer),
    (r"atob", lambda call: decode_value(call.arg(0), decode_base64)),
    (r"String\.(fromCharCode|fromCodePoint)(\.apply)?", _from_codes),
    (r"decodeURIComponent|unescape", _unescape),
    (r"fetch|axios(\.\w+)?|got(\.\w+)?|superagent\.\w+|undici\.(fetch|request)|ky(\.\w+)?|request(\.\w+)?|needle\.\w+|https?\.(get|request)|navigator\.sendBeacon", _request),
    (r"WebSocket|ws|net\.(connect|createConnection)|tls\.connect|net\.Socket|Deno\.connect", _socket),
    (r"dns\.(promises\.)?(lookup|resolve\w*)", _look_up_name),
    (r"clipboardy\.(read|readSync)|navigator\.clipboard\.readText", lambda _call: Value(labels=frozenset({Label("private", "the clipboard")}))),
    (r"JSON\.(stringify|parse)|Object\.(entries|values|assign|keys)|String", lambda call: Value(labels=join_labels(call.args), texts=call.arg(0).texts)),
    (r"console\.\w+", lambda _call: NOTHING),
)  # fmt: skip
_FUNCTIONS = tuple((re.compile(pattern), handler) for pattern, handler in _TABLE)
_PASSING_ON = (
    "toString", "trim", "text", "json", "then", "catch", "on", "once", "slice", "toLowerCase", "concat", "flat", "map",
    "filter", "finally",
)  # fmt: skip
_METHODS: dict[str, Handler] = {
    "join": _join,
    "reverse": _reverse,
    "split": _split,
    "replace": _replace,
    "replaceAll": _replace,
    **dict.fromkeys(_PASSING_ON, _same),
    **dict.fromkeys(("write", "send", "end", "emit"), _put_out),
    "pipe": _pipe,
}
