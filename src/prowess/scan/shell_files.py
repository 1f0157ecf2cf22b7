"""Shell commands that create, read, change and delete text and files."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

from prowess.scan.decoding import decode_base64, decode_escapes, decode_hex, decode_value, escape_labels
from prowess.scan.places import find_place, is_home_or_root, normalize_path
from prowess.scan.shell_commands import Command, Handler, run_command
from prowess.scan.values import NOTHING, UNKNOWN, Label, Value, concat, constant, either, join_labels

if TYPE_CHECKING:
    from prowess.scan.shell import Shell

# Text


def _echo(_shell: Shell, command: Command) -> Value:
    words = [arg for arg in command.args if arg.text not in ("-n", "-e", "-ne", "-en", "-E")]
    value = concat(words, " ") if words else constant("")
    if command.has("-e", "-ne", "-en"):
        return Value(
            texts=tuple(decode_escapes(text) for text in value.texts), labels=value.labels | escape_labels(value.text)
        )
    return value


def _printf(shell: Shell, command: Command) -> Value:
    if command.texts[:1] == ["-v"] and len(command.args) > 2:
        command.args, name = command.args[2:], command.args[1].text
        shell.variables[name] = _printf(shell, command)
        return NOTHING
    if not command.args:
        return NOTHING
    form, rest = command.args[0], command.args[1:]
    text = decode_escapes(form.text)
    for arg in rest:
        text = re.sub(r"%[-\d.]*[sbdq]", lambda _found, arg=arg: arg.text, text, count=1)
    labels = join_labels(command.args) | escape_labels(form.text) | escape_labels(" ".join(command.texts))
    return Value(texts=(text,), labels=labels)


def _cat(shell: Shell, command: Command) -> Value:
    operands = command.operands("ncfdm")
    if command.name == "awk" and operands and re.search(r"\bsystem\s*\(|\|\s*\"(?:ba)?sh", operands[0].text):
        shell.behaviour.execute(Value(labels=command.stdin.labels), "shell", command.line)
        for code in re.findall(r"\bsystem\s*\(\s*\"((?:[^\"\\]|\\.)*)\"", operands[0].text):
            shell.behaviour.run_text(constant(code), "shell", command.line)
    # The pattern or program of a filter is not a file.
    files = (
        operands[1:]
        if command.name in ("grep", "egrep", "rg", "awk", "sed", "jq", "tr") and len(operands) > 1
        else operands
    )
    if command.name == "sed" and command.has("-i", "--in-place"):
        for file in files:
            shell.behaviour.write(
                file,
                Value(texts=(operands[0].text,) if operands else (UNKNOWN,), labels=command.data.labels),
                command.line,
            )
        return NOTHING
    if not files or command.name == "tr":
        changed = command.name in ("cat", "tee", "head", "tail")
        return command.stdin if changed else Value(labels=command.stdin.labels)
    reads = [shell.behaviour.read(file, command.line) for file in files]
    # `grep NAME .env` takes one setting of the project, usually the skill's own.
    if command.name in ("grep", "egrep", "rg") and len(operands) > 1 and len(operands[0].text) > 3:
        return Value(
            labels=frozenset(
                label for label in join_labels([*reads, *files, command.stdin]) if "(.env)" not in label.detail
            )
        )
    return Value(
        texts=reads[0].texts if len(reads) == 1 and command.name == "cat" else (UNKNOWN,),
        labels=join_labels([*reads, command.stdin, *files]),
    )


def _archive(shell: Shell, command: Command) -> Value:
    paths = command.operands("fC")
    creates = (
        command.name != "tar"
        or any(re.match(r"^-?[a-zA-Z]*c", text) for text in command.texts[:1])
        or command.has("--create")
    )
    if not creates:
        return NOTHING
    reads = [shell.behaviour.read(path, command.line) for path in paths]
    labels = set(join_labels([*reads, command.stdin]))
    if command.name != "gzip" and any(
        path.text in (".", "./", "*", "~", "$PWD") or path.text == "\ufffd" for path in paths
    ):
        labels.add(Label("private", "an archive of the whole folder"))
    value = Value(labels=frozenset(labels))
    target = command.option("-f") or (paths[0] if command.name in ("zip", "7z", "rar") and paths else None)
    if (
        target is None
        and command.name == "tar"
        and command.texts
        and command.texts[0].endswith("f")
        and len(command.args) > 1
    ):
        target = command.args[1]
    if target is not None and target.text != "-":
        shell.behaviour.files[normalize_path(target.text)] = value
    return value


def _coder(shell: Shell, command: Command) -> Value:
    value = command.stdin
    files = [
        operand
        for operand in command.operands("wk")
        if operand.text not in ("base64", "enc", "dgst") and not operand.text.startswith("-")
    ]
    if value is NOTHING and files:
        value = shell.behaviour.read(files[0], command.line)
    if command.name != "uudecode" and not command.has("-d", "-D", "--decode", "-r", "-di"):
        return Value(labels=value.labels)
    return decode_value(value, decode_hex if command.name == "xxd" else decode_base64)


def _tr(_shell: Shell, command: Command) -> Value:
    texts = command.texts
    if len(texts) >= 2 and re.search(r"n-za-m|N-ZA-M", texts[1]):
        return decode_value(command.stdin, lambda text: codecs.decode(text, "rot13"))
    return Value(texts=command.stdin.texts if command.has("-d") else (UNKNOWN,), labels=command.stdin.labels)


def _unpack(shell: Shell, command: Command) -> Value:
    files = command.operands()
    read = shell.behaviour.read(files[0], command.line) if files else command.stdin
    return Value(labels=read.labels | {Label("decoded", "compressed text")})


# Files


def _copy(shell: Shell, command: Command) -> Value:
    paths = command.operands("tmS")
    if len(paths) < 2:
        return NOTHING
    target = command.option("-t") or paths[-1]
    linked = command.name == "ln"
    contents = [shell.behaviour.read(path, command.line, quiet=linked) for path in paths[:-1]]
    texts = list(target.texts)
    # `cp a folder/`: the file keeps its name.
    if target.text.endswith("/") or find_place(target.text.rstrip("/") + "/x"):
        texts += [text.rstrip("/") + "/" + paths[0].text.rpartition("/")[2] for text in target.texts]
    if linked and paths[0].text == "/dev/null":
        shell.behaviour.delete(target, command.line, recursive=False)
        return NOTHING
    shell.behaviour.write(Value(texts=tuple(texts[:8]), labels=target.labels), either(contents), command.line)
    return NOTHING


def _tee(shell: Shell, command: Command) -> Value:
    for path in command.operands():
        shell.behaviour.write(path, command.stdin, command.line, append=command.has("-a", "--append"))
    return command.stdin


def _dd(shell: Shell, command: Command) -> Value:
    for text in command.texts:
        if re.match(r"of=/dev/(sd|hd|nvme|disk|vd|mmcblk)", text):
            # Writing an image to a stick is ordinary; zeros are not.
            wipes = any(re.match(r"if=/dev/(zero|u?random)", text) for text in command.texts)
            shell.behaviour.report.add(
                "danger" if wipes else "warning", "destruction", command.line, "Overwrites a whole disk."
            )
        elif text.startswith("of="):
            shell.behaviour.write(constant(text[3:]), command.stdin, command.line)
    return NOTHING


def _remove(shell: Shell, command: Command) -> Value:
    recursive = command.has("-r", "-R", "--recursive") or command.name in ("rmdir", "shred", "srm")
    for path in command.operands("sn"):
        shell.behaviour.delete(path, command.line, recursive=recursive)
    return NOTHING


def _find(shell: Shell, command: Command) -> Value:
    start = command.args[0] if command.args else NOTHING
    if "-delete" in command.texts and is_home_or_root(start.text) and "-name" not in command.texts:
        shell.behaviour.delete(start, command.line, recursive=True)
    labels: set[Label] = (
        set(shell.behaviour.read(start, command.line, quiet=True).labels)
        if start.text.startswith(("~", "/"))
        else set()
    )
    for index, text in enumerate(command.texts[:-1]):
        if text in ("-name", "-iname", "-path"):
            labels |= shell.behaviour.read(command.args[index + 1], command.line).labels
        if text in ("-exec", "-execdir"):
            run_command(shell, command.args[index + 1 :], NOTHING, command.line)
    return Value(labels=frozenset(labels))


def _quiet(_shell: Shell, command: Command) -> Value:
    """Follow a command that reads no content, such as `ls`, `test` or `chmod`."""
    return Value(labels=command.stdin.labels) if command.stdin.labels else NOTHING


FILES: dict[str, Handler] = {
    "echo": _echo,
    "printf": _printf,
    **dict.fromkeys(("cat", "head", "tail", "less", "more", "grep", "egrep", "rg", "awk", "sed", "cut", "sort", "uniq", "strings", "nl", "tac", "bat", "jq", "yq", "od", "hexdump", "type", "paste", "fold", "column"), _cat),
    "tr": _tr,
    **dict.fromkeys(("tar", "zip", "gzip", "7z", "rar", "bzip2", "xz", "zstd", "ditto"), _archive),
    **dict.fromkeys(("base64", "base32", "basenc", "xxd", "openssl", "uudecode", "gbase64"), _coder),
    "rev": lambda _shell, command: decode_value(command.stdin, lambda text: text.strip()[::-1]),
    **dict.fromkeys(("gunzip", "zcat", "gzcat", "bunzip2", "xzcat"), _unpack),
    **dict.fromkeys(("cp", "mv", "ln", "install", "copy", "move", "xcopy"), _copy),
    "tee": _tee,
    "dd": _dd,
    **dict.fromkeys(("rm", "unlink", "shred", "srm", "truncate", "rmdir", "del"), _remove),
    "find": _find,
    **dict.fromkeys(("ls", "test", "[", "[[", "stat", "file", "du", "wc", "mkdir", "touch", "chmod", "chown", "cd", "which", "command", "realpath", "basename", "dirname", "true", "open", "ssh-keygen", "ssh-add", "ssh-copy-id", "git", "code", "vim", "nano", "vi", "export", "kubectl", "docker", "md5sum", "sha256sum", "shasum", "diff", "nvim", "exit", "set", "cargo", "go", "make"), _quiet),
    **dict.fromkeys(("date", "uname", "seq", "id"), lambda _shell, _command: NOTHING),
}  # fmt: skip
"""Commands about text and files."""
