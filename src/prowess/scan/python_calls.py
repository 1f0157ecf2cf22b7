"""Determine what a Python call does by looking up the function or method in the tables."""

from __future__ import annotations

import re
from dataclasses import replace

from prowess.scan.behaviour import Behaviour
from prowess.scan.places import find_place, is_private_folder
from prowess.scan.python_names import plain_name
from prowess.scan.python_text import (
    RUNNING,
    TEXT_FUNCTIONS,
    TEXT_METHODS,
    Call,
    Handler,
    Method,
    make_table,
    replace_args,
    write_to_file,
)
from prowess.scan.values import NOTHING, UNKNOWN, Label, Value, concat, constant, either, join_labels, named

# Files


def _open(call: Call) -> Value:
    path, mode = call.arg(0, "file"), call.arg(1, "mode")
    return _open_path(call.behaviour, path, mode.text if mode.is_known and mode.text else "r", call.line)


def _open_path(behaviour: Behaviour, path: Value, mode: str, line: int) -> Value:
    """Return an open file as a value."""
    if any(sign in mode for sign in "wax+"):
        # The path counts even if nothing is known about what is written.
        if any(find_place(text) for text in path.texts) is False:
            behaviour.write(path, NOTHING, line)
        return Value(texts=path.texts, name="<file:w>", labels=path.labels)
    content = behaviour.read(path, line)
    return Value(texts=content.texts, name="<file:r>", labels=content.labels)


def _path(call: Call) -> Value:
    return replace(concat(call.args, "/"), name="<path>") if call.args else Value(texts=(".",), name="<path>")


def _expanduser(call: Call) -> Value:
    return replace(call.arg(0), name="")


def _path_join(call: Call) -> Value:
    return concat(call.args, "/") if call.args else NOTHING


def _list_files(call: Call) -> Value:
    folder = call.arg(0)
    labels = {Label("private", text) for text in folder.texts if is_private_folder(text)}
    return Value(texts=folder.texts, labels=folder.labels | labels)


def _copy(call: Call) -> Value:
    source, target = call.arg(0, "src"), call.arg(1, "dst")
    content = call.behaviour.read(source, call.line)
    call.behaviour.write(target, content, call.line)
    return Value(labels=content.labels, texts=target.texts)


def _remove_tree(call: Call) -> Value:
    call.behaviour.delete(call.arg(0, "path"), call.line, recursive=True)
    return NOTHING


def _remove(call: Call) -> Value:
    call.behaviour.delete(call.arg(0, "path"), call.line, recursive=False)
    return NOTHING


def _read_file(call: Call, owner: Value) -> Value | None:
    if owner.name == "<path>":
        return call.behaviour.read(owner, call.line)
    return Value(labels=owner.labels, texts=owner.texts if owner.name == "<file:r>" else (UNKNOWN,))


def _write_file(call: Call, owner: Value) -> Value | None:
    if owner.name in ("<path>", "<file:w>"):
        call.behaviour.write(replace(owner, name=""), either(call.args) if call.args else NOTHING, call.line)
    elif owner.name.startswith("<socket>"):
        call.behaviour.send(NOTHING, either(call.args), call.line)
    return NOTHING


def _open_method(call: Call, owner: Value) -> Value | None:
    mode = call.arg(0, "mode")
    if owner.name == "<path>":
        return _open_path(call.behaviour, owner, mode.text if mode.is_known and mode.text else "r", call.line)
    return None


def _glob_method(call: Call, owner: Value) -> Value | None:
    if owner.name != "<path>":
        return None
    inside = concat([owner, *call.args[:1]], "/") if call.args else owner
    labels = {Label("private", text) for text in owner.texts if is_private_folder(text)}
    return Value(texts=inside.texts, name="<path>", labels=inside.labels | labels)


def _join_path(call: Call, owner: Value) -> Value | None:
    return replace(concat([owner, *call.args], "/"), name="<path>") if owner.name == "<path>" else None


def _unlink(call: Call, owner: Value) -> Value | None:
    if owner.name == "<path>":
        call.behaviour.delete(owner, call.line, recursive=False)
    return NOTHING


def _environment_get(call: Call, owner: Value) -> Value | None:
    if owner.name != "os.environ":
        if owner.items and call.args:
            return Value(labels=owner.labels, texts=owner.texts)
        return None
    found = call.behaviour.variable(call.arg(0).text, call.line)
    default = call.arg(1)
    return either([found, default]) if default is not NOTHING else found


def _getenv(call: Call) -> Value:
    found = call.behaviour.variable(call.arg(0).text, call.line)
    default = call.arg(1)
    return either([found, default]) if default is not NOTHING else found


# Network

_HEADERS = frozenset({"headers", "auth", "cookies", "cert"})


_NOT_DATA = _HEADERS | {"timeout", "verify", "allow_redirects", "stream", "proxies", "url", "method", "context"}


def _request(call: Call) -> Value:
    return _request_at(call, 0)


def _request_second(call: Call) -> Value:
    return _request_at(call, 1)


def _request_at(call: Call, index: int) -> Value:
    url = call.arg(index, "url")
    data = [*call.args[index + 1 :], *(value for key, value in call.keywords.items() if key not in _NOT_DATA)]
    headers = [value for key, value in call.keywords.items() if key in _HEADERS]
    fetched = call.behaviour.fetch(url, call.line)
    call.behaviour.send(url, Value(labels=join_labels(data) | join_labels([url]) - fetched.labels), call.line)
    call.behaviour.send(url, Value(labels=join_labels(headers)), call.line, header=True)
    return Value(labels=fetched.labels, name="<response>")


def _prepare(call: Call) -> Value:
    """Return `urllib.request.Request(…)`: address and data, judged when it is sent."""
    url, data = call.arg(0, "url"), call.arg(1, "data")
    headers = call.arg(2, "headers")
    call.behaviour.send(url, data, call.line)
    call.behaviour.send(url, Value(labels=headers.labels), call.line, header=True)
    return Value(texts=url.texts, labels=url.labels)


def _retrieve(call: Call) -> Value:
    fetched = call.behaviour.fetch(call.arg(0, "url"), call.line)
    target = call.arg(1, "filename", "out")
    if target is not NOTHING:
        call.behaviour.write(target, fetched, call.line)
    return Value(texts=target.texts, labels=fetched.labels)


def _socket(call: Call) -> Value:
    call.behaviour.files["<socket>"] = NOTHING
    host = call.arg(0).items[:1] or call.args[:1]
    if host and "." in host[0].text:
        call.behaviour.fetch(constant(f"https://{host[0].text}/"), call.line)
    return named("<socket>")


def _connect(call: Call, owner: Value) -> Value | None:
    address = call.arg(0)
    host = address.items[0] if address.items else address
    if owner.name.startswith("<socket>") and host.is_known:
        call.behaviour.fetch(constant(f"https://{host.text}/"), call.line)
    return NOTHING


def _receive(_call: Call, owner: Value) -> Value | None:
    return Value(labels=owner.labels | {Label("network", "")}) if owner.name.startswith("<socket>") else None


def _file_number(_call: Call, owner: Value) -> Value | None:
    return owner


def _send_method(call: Call, owner: Value) -> Value | None:
    if owner.name.startswith(("<socket>", "smtplib", "websocket", "<sink>")):
        call.behaviour.send(NOTHING, Value(labels=join_labels(call.everything)), call.line)
        return NOTHING
    return None


def _resolve_name(call: Call) -> Value:
    call.behaviour.send(call.arg(0), call.arg(0), call.line)
    return NOTHING


def _upload(call: Call, _owner: Value) -> Value | None:
    reads = [call.behaviour.read(value, call.line, quiet=True) for value in call.everything]
    call.behaviour.send(NOTHING, Value(labels=join_labels([*reads, *call.everything])), call.line)
    return NOTHING


def _web_method(call: Call, owner: Value) -> Value | None:
    """Follow `client.post(url, …)` on an object that is not known to be a client but receives a URL."""
    if call.args and re.match(r"(https?|wss?)://", call.args[0].text):
        return _request(call)
    return None if owner.name != "<response>" else Value(labels=owner.labels)


def _secret(what: str) -> Handler:
    return lambda call: call.behaviour.secret_store(what, call.line)


def _private(what: str) -> Handler:
    return lambda _call: Value(labels=frozenset({Label("private", what)}))


def _watch_keys(call: Call) -> Value:
    call.behaviour.report.add("warning", "credentials", call.line, "Records keystrokes.")
    return Value(labels=frozenset({Label("private", "keystrokes")}))


def _session(name: str) -> Handler:
    return lambda _call: named(name)


_IO_FUNCTIONS: dict[str, Handler] = make_table((
    ("open io.open os.open codecs.open gzip.open aiofiles.open", _open),
    ("pathlib.Path pathlib.PosixPath pathlib.PurePath Path", _path),
    ("pathlib.Path.home Path.home", lambda _call: Value(texts=("~",), name="<path>")),
    ("pathlib.Path.cwd Path.cwd os.getcwd", lambda _call: Value(texts=(".",), name="<path>")),
    ("os.path.expanduser os.path.abspath os.path.realpath os.fspath os.path.expandvars os.path.normpath", _expanduser),
    ("os.path.join posixpath.join", _path_join),
    ("os.path.exists os.path.isfile os.path.isdir os.makedirs os.mkdir os.path.basename os.chmod os.path.getsize os.stat", lambda _call: NOTHING),
    ("os.walk os.listdir os.scandir glob.glob glob.iglob", _list_files),
    ("shutil.copy shutil.copyfile shutil.copy2 shutil.move os.rename os.replace shutil.copytree os.symlink os.link", _copy),
    ("shutil.make_archive", lambda call: Value(labels=call.behaviour.read(call.arg(2, "root_dir"), call.line).labels)),
    ("shutil.rmtree", _remove_tree), ("os.remove os.unlink", _remove),
    ("os.getenv os.environ.get os.environ.pop", _getenv),
    ("sqlite3.connect", lambda call: Value(labels=call.behaviour.read(call.arg(0), call.line).labels)),
    ("urllib.request.urlopen urllib.urlopen urllib2.urlopen", _request), ("urllib.request.Request urllib2.Request", _prepare),
    ("urllib.request.urlretrieve wget.download urllib.urlretrieve", _retrieve),
    ("requests.request httpx.request aiohttp.request requests.Session.request urllib3.request", _request_second),
    ("requests.Session requests.session", _session("requests")), ("httpx.Client httpx.AsyncClient", _session("httpx")), ("aiohttp.ClientSession", _session("aiohttp")),
    ("socket.socket socket.create_connection", _socket),
    ("websocket.create_connection websockets.connect", lambda call: Value(name="<socket>", labels=call.behaviour.fetch(call.arg(0), call.line).labels)),
    ("smtplib.SMTP smtplib.SMTP_SSL ftplib.FTP paramiko.SSHClient http.client.HTTPSConnection http.client.HTTPConnection", _socket),
    ("socket.gethostbyname socket.getaddrinfo dns.resolver.resolve dns.resolver.query socket.gethostbyname_ex", _resolve_name),
    ("keyring.get_password", _secret("the desktop keyring")), ("win32crypt.CryptUnprotectData", _secret("passwords that Windows protects")),
    ("PIL.ImageGrab.grab ImageGrab.grab pyautogui.screenshot mss.mss", _private("a screenshot")),
    ("pyperclip.paste clipboard.paste", _private("the clipboard")),
    ("pynput.keyboard.Listener keyboard.on_press keyboard.hook keyboard.on_release", _watch_keys),
    ("json.dump yaml.safe_dump pickle.dump toml.dump", lambda call: (write_to_file(call), NOTHING)[1]),
))  # fmt: skip
_IO_PATTERNS: tuple[tuple[re.Pattern[str], Handler], ...] = (
    (
        re.compile(
            r"^(requests|httpx|aiohttp|urllib3|grequests|requests_html)(\.\w+)*\.(get|post|put|patch|delete|head|options)$"
        ),
        _request,
    ),
    (re.compile(r"^(requests|httpx|aiohttp|urllib3)(\.\w+)*\.(request|stream)$"), _request_second),
    (re.compile(r"^browser_cookie3\.\w+$"), _secret("browser cookies")),
)
"""Functions by a pattern of their dotted name."""
_IO_METHODS: dict[str, Method] = {
    "read": _read_file, "read_text": _read_file, "read_bytes": _read_file, "readlines": _read_file, "readline": _read_file,
    "write": _write_file, "write_text": _write_file, "write_bytes": _write_file, "writelines": _write_file,
    "open": _open_method, "glob": _glob_method, "rglob": _glob_method, "iterdir": _glob_method, "joinpath": _join_path, "with_name": _join_path, "unlink": _unlink,
    "get": lambda call, owner: _environment_get(call, owner) or _web_method(call, owner), "post": _web_method, "put": _web_method, "patch": _web_method,
    "connect": _connect, "recv": _receive, "makefile": _receive, "fileno": _file_number,
    "send": _send_method, "sendall": _send_method, "sendto": _send_method, "sendmail": _send_method, "send_message": _send_method, "storbinary": _send_method, "request": _send_method,
    "upload_file": _upload, "upload_fileobj": _upload, "put_object": _upload, "send_document": _upload, "sendDocument": _upload, "files_upload": _upload,
}  # fmt: skip


_FUNCTIONS: dict[str, Handler] = TEXT_FUNCTIONS | _IO_FUNCTIONS
_METHODS: dict[str, Method] = TEXT_METHODS | _IO_METHODS


def call_name(call: Call, name: str) -> Value | None:
    """Follow a call of a function by its dotted name; None if it is not in the table."""
    handler = _FUNCTIONS.get(name)
    if handler is not None:
        return handler(call)
    for pattern, handler in _IO_PATTERNS:
        if pattern.match(name):
            return handler(call)
    return None


def functions_of(module: str) -> list[str]:
    """Return the functions of a module that are in the tables."""
    return [name.rpartition(".")[2] for name in _FUNCTIONS if name.rpartition(".")[0] == module]


def call_handed_over(call: Call) -> None:
    """Follow a function that runs code and is handed to another one, with what it will be called with.

    `Thread(target=os.system, args=(…,))`, `map(os.system, […])`, `atexit.register(os.system, …)`.
    """
    for function in call.everything:
        name = plain_name(function.name)
        if name in RUNNING:
            others = [value for value in call.everything if value is not function]
            # Commands are lists as well, so the arguments are tried as they are and one by one.
            for args in (others, *([item] for other in others for item in other.items)):
                _FUNCTIONS[name](replace_args(call, list(args)))


def call_method(call: Call, owner: Value, method: str, full: str) -> Value:
    """Follow a call of a method."""
    result = call_name(call, full) if full else None
    if result is not None:
        return result
    handler = _METHODS.get(method)
    if handler is not None:
        result = handler(call, owner)
        if result is not None:
            return result
    write_to_file(call)
    labels = join_labels([owner, *call.everything])
    name = owner.name if owner.name.startswith("<") else ""
    return Value(
        labels=labels,
        name=name,
        texts=owner.texts
        if method in ("expanduser", "resolve", "absolute", "strip", "as_posix", "__str__")
        else (UNKNOWN,),
    )
