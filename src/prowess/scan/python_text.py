"""Python functions and methods that run code, look up names at run time, and build strings."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from prowess.scan.behaviour import Behaviour, is_shell
from prowess.scan.decoding import decode_base64_bytes, decode_hex_bytes, decode_value, inflate
from prowess.scan.places import normalize_path
from prowess.scan.shell_commands import run_command
from prowess.scan.values import NOTHING, UNKNOWN, Label, Value, constant, either, join_labels, named, read_number

_MAX_DECODED = 256 * 1024


_DECODED = Label("decoded", "encoded text")


@dataclass(slots=True, kw_only=True)
class Call:
    """One call with its arguments."""

    behaviour: Behaviour
    line: int
    args: list[Value]
    keywords: dict[str, Value]

    @property
    def everything(self) -> list[Value]:
        """All arguments."""
        return [*self.args, *self.keywords.values()]

    def arg(self, index: int, *names: str) -> Value:
        """Return an argument by position or name."""
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        return self.args[index] if index < len(self.args) else NOTHING


Handler = Callable[[Call], Value]
Method = Callable[[Call, Value], Value | None]
"""A method; None if it does not apply to this object."""


def read_attribute(behaviour: Behaviour, owner: Value, attribute: str) -> Value:
    """Return an attribute of a value."""
    if owner.name == "os" and attribute == "environ":
        return replace(behaviour.environment(), name="os.environ")
    if owner.name == "sys" and attribute == "executable":
        return constant("python3")
    if owner.name == "<path>" and attribute in ("name", "stem", "suffix", "parent", "parts"):
        return Value(labels=owner.labels)
    if owner.name:
        texts = owner.texts if owner.name.startswith("<") else (UNKNOWN,)
        return Value(
            name=f"{owner.name}.{attribute}" if not owner.name.startswith("<") else owner.name,
            labels=owner.labels,
            texts=texts,
        )
    return Value(labels=owner.labels)


def write_to_file(call: Call) -> None:
    """Judge a call that is given an open file to write to, such as `json.dump(data, file)`."""
    for value in call.everything:
        if value.name == "<file:w>":
            others = [argument for argument in call.everything if argument is not value]
            call.behaviour.write(replace(value, name=""), either(others), call.line)


# Running


def _run_python(call: Call) -> Value:
    code = call.arg(0, "source", "object")
    if code.is_known and re.fullmatch(r"[A-Za-z_][\w.]*", code.text) and not code.has("network"):
        return named(code.text.removeprefix("builtins."))
    call.behaviour.execute(code, "python", call.line)
    return Value(labels=code.labels)


def _run_command(call: Call) -> Value:
    command = call.arg(0, "args", "command", "cmd")
    if any(value.name.startswith("<socket>") for value in call.keywords.values()) and any(
        is_shell(word.text) for word in command.items or (command,)
    ):
        call.behaviour.remote_shell(call.line)
    return run_words(call.behaviour, command, call.line)


def run_words(behaviour: Behaviour, command: Value, line: int) -> Value:
    """Follow a command that is given as a list or as one string; return its output."""
    from prowess.scan.shell import Shell

    if command.items:
        return run_command(Shell(behaviour, command.labels), list(command.items), NOTHING, line)
    if command.text.strip(UNKNOWN + " ") == "":
        behaviour.execute(command, "shell", line)
        return Value(labels=command.labels)
    if command.has("decoded"):
        behaviour.execute(command, "shell", line)
    elif behaviour.files.get(command.text) is not None:
        behaviour.execute(behaviour.files[command.text], "shell", line)
    else:
        # Parts that are not known stand in the text as one character; what they may hold is handed over as the taint.
        behaviour.run_text(Value(texts=(command.text,), labels=command.labels), "shell", line)
    found = re.search(r"gh auth token|security find-|printenv|^env$", command.text)
    return Value(labels=frozenset({Label("credential", "a token")})) if found else NOTHING


def _spawn_shell(call: Call) -> Value:
    command = call.arg(0)
    if is_shell(command.text) and "<socket>" in call.behaviour.files:
        call.behaviour.remote_shell(call.line)
    return run_words(call.behaviour, command, call.line)


def _duplicate(call: Call) -> Value:
    if any(value.name.startswith("<socket>") for value in call.args):
        call.behaviour.remote_shell(call.line)
    return NOTHING


# Names made at run time


def _import_module(call: Call) -> Value:
    name = call.arg(0, "name")
    if name.has("network"):
        call.behaviour.execute(name, "python", call.line)
    return named(name.text) if name.is_known else NOTHING


def _run_file(call: Call) -> Value:
    """Follow a call that runs a Python file, if this code wrote or downloaded it."""
    for value in call.everything:
        content = call.behaviour.files.get(normalize_path(value.text))
        if content is not None:
            call.behaviour.execute(content, "python", call.line)
    return NOTHING


def _run_pickle(call: Call) -> Value:
    """Follow `pickle.loads`: its data can name any function to call."""
    if call.arg(0).has("network"):
        call.behaviour.execute(Value(labels=call.arg(0).labels), "python", call.line)
    return decode_value(call.arg(0), lambda _text: None)


def _read_namespace(call: Call) -> Value:
    return named(f"{call.args[0].name}.__dict__") if call.args and call.args[0].name else named("vars()")


def _get_attribute(call: Call, owner: Value) -> Value | None:
    return read_attribute(call.behaviour, owner, call.arg(0).text) if owner.name and call.arg(0).is_known else None


def _run_source(call: Call, owner: Value) -> Value | None:
    return _run_python(call) if owner.name.startswith("code.") else None


def _run_in_library(call: Call, owner: Value) -> Value | None:
    return run_words(call.behaviour, call.arg(0), call.line) if owner.name.startswith("ctypes.") else None


def _getattr(call: Call) -> Value:
    owner, name = call.arg(0), call.arg(1)
    if owner.name and name.is_known:
        return read_attribute(call.behaviour, owner, name.text)
    return Value(labels=owner.labels)


def _partial(call: Call) -> Value:
    return call.args[0] if call.args else NOTHING


def _namespace(name: str) -> Handler:
    return lambda _call: named(name)


# Text


def _chr(call: Call) -> Value:
    value = call.arg(0)
    number = read_number(value.text)
    if number is not None and 0 <= number < 0x110000:
        return Value(texts=(chr(number),), labels=value.labels | {Label("decoded", "numbers")})
    return Value(labels=value.labels | {Label("decoded", "numbers")})


def _map(call: Call) -> Value:
    function, source = call.arg(0), call.arg(1)
    if function.name == "chr":
        return (
            listed_all([_chr(replace_args(call, [item])) for item in source.items[:600]])
            if source.items
            else Value(labels=source.labels | {_DECODED})
        )
    return Value(labels=join_labels(call.everything))


def replace_args(call: Call, args: list[Value]) -> Call:
    """Return the call with other arguments."""
    return Call(behaviour=call.behaviour, line=call.line, args=args, keywords={})


def listed_all(items: list[Value]) -> Value:
    """Return a list without the limit on its items."""
    return Value(items=tuple(items), labels=join_labels(items))


def _bytes(call: Call) -> Value:
    value = call.arg(0)
    numbers = [read_number(item.text) for item in value.items]
    known = bytes(number for number in numbers if number is not None and 0 <= number < 256)
    if numbers and len(known) == len(numbers):
        return Value(texts=(known.decode("latin-1"),), labels=value.labels | {_DECODED})
    return Value(texts=value.texts, labels=value.labels)


def _same(call: Call) -> Value:
    return replace(call.args[0], name="") if call.args else NOTHING


def _labels_of(call: Call) -> Value:
    return Value(labels=join_labels(call.everything))


def _join(call: Call, owner: Value) -> Value | None:
    items = call.arg(0).items
    if not items:
        return Value(labels=owner.labels | call.arg(0).labels)
    text = owner.text.join(item.text for item in items)
    return Value(texts=(text[:_MAX_DECODED],), labels=join_labels([owner, *items]))


def _replace(call: Call, owner: Value) -> Value | None:
    old, new = call.arg(0), call.arg(1)
    if owner.is_known and old.is_known and new.is_known and not owner.name:
        return Value(
            texts=(owner.text.replace(old.text, new.text)[:_MAX_DECODED],), labels=join_labels([owner, old, new])
        )
    return None


def _format(call: Call, owner: Value) -> Value | None:
    text = re.sub(r"\{[^{}]*\}", UNKNOWN, owner.text)
    for arg in call.args:
        text = text.replace(UNKNOWN, arg.text, 1) if arg.is_known else text
    return Value(texts=(text,), labels=join_labels([owner, *call.everything]))


def format_percent(left: Value, right: Value, labels: frozenset[Label]) -> Value:
    """Return the text of `left % right`."""
    text = left.text
    for part in right.items or (right,):
        text = text.replace("%s", part.text, 1)
    return Value(texts=(text.replace("%s", UNKNOWN),), labels=labels)


def _decode_method(call: Call, owner: Value) -> Value | None:
    encoding = call.arg(0, "encoding").text.lower()
    if encoding.replace("-", "") in ("hex", "base64", "rot13", "rot_13"):
        return decode_value(owner, _CODECS[encoding.replace("-", "").replace("_", "")])
    return replace(owner, name=owner.name if owner.name.startswith("<") else "")


def _keep(_call: Call, owner: Value) -> Value | None:
    return owner


_CODECS: dict[str, Callable[[str], str | None]] = {
    "hex": decode_hex_bytes,
    "base64": decode_base64_bytes,
    "rot13": lambda text: codecs.decode(text, "rot13"),
}


def _decoder(decode: Callable[[str], str | None]) -> Handler:
    return lambda call: decode_value(call.arg(0), decode)


def _codecs_decode(call: Call) -> Value:
    encoding = call.arg(1, "encoding").text.lower().replace("-", "").replace("_", "").removesuffix("codec")
    decode = _CODECS.get(encoding)
    return decode_value(call.arg(0), decode) if decode else replace(call.arg(0), name="")


def make_table(pairs: Iterable[tuple[str, Handler]]) -> dict[str, Handler]:
    """Return a table by name; each row may have several names."""
    return {name: handler for names, handler in pairs for name in names.split()}


TEXT_FUNCTIONS: dict[str, Handler] = make_table((
    ("exec eval compile code.interact builtins.exec types.FunctionType types.CodeType timeit.timeit timeit.repeat pdb.run cProfile.run", _run_python),
    ("runpy.run_path imp.load_source importlib.util.spec_from_file_location importlib.machinery.SourceFileLoader", _run_file),
    ("os.system os.popen subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen subprocess.getoutput subprocess.getstatusoutput asyncio.create_subprocess_shell asyncio.create_subprocess_exec os.startfile commands.getoutput pexpect.spawn pexpect.run sh.bash invoke.run", _run_command),
    ("os.execv os.execve os.execvp os.execl os.execlp os.spawnl os.spawnlp os.spawnv os.posix_spawn pty.spawn", _spawn_shell),
    ("os.dup2", _duplicate),
    ("__import__ importlib.import_module", _import_module),
    ("getattr", _getattr),
    ("functools.partial", _partial),
    ("globals", _namespace("globals()")), ("locals", _namespace("locals()")), ("vars", _read_namespace),
    ("chr", _chr), ("map", _map), ("bytes bytearray", _bytes), ("str repr dict list sorted reversed tuple set iter enumerate", _same),
    ("base64.b64decode base64.standard_b64decode base64.urlsafe_b64decode base64.decodebytes binascii.a2b_base64", _decoder(decode_base64_bytes)),
    ("base64.b32decode base64.b85decode base64.a85decode base64.b16decode binascii.unhexlify bytes.fromhex bytearray.fromhex binascii.a2b_hex", _decoder(decode_hex_bytes)),
    ("zlib.decompress bz2.decompress gzip.decompress lzma.decompress", _decoder(inflate)),
    ("marshal.loads", _decoder(lambda _text: None)), ("pickle.loads pickle.load dill.loads cloudpickle.loads", _run_pickle),
    ("ctypes.CDLL ctypes.cdll.LoadLibrary ctypes.PyDLL", lambda _call: named("ctypes.library")),
    ("code.InteractiveInterpreter code.InteractiveConsole", lambda _call: named("code.interpreter")),
    ("codecs.decode", _codecs_decode),
    ("json.loads json.load json.dumps yaml.load yaml.safe_load yaml.dump toml.loads tomllib.loads", _labels_of),
))  # fmt: skip
RUNNING = frozenset(name for name, handler in TEXT_FUNCTIONS.items() if handler in (_run_command, _spawn_shell)) | {
    "exec",
    "eval",
}
"""Functions that run code or a command."""
TEXT_METHODS: dict[str, Method] = {
    "join": _join, "replace": _replace, "format": _format, "decode": _decode_method, "encode": _keep, "strip": _keep, "copy": _keep, "items": _keep,
    "__getattribute__": _get_attribute, "runsource": _run_source, "runcode": _run_source, "system": _run_in_library,
}  # fmt: skip
