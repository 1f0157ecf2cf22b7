"""Map the artifacts of a skill to paths in a native folder, for reading and for writing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from prowess.errors import Invalid, Problem
from prowess.patterns import lazy_pattern
from prowess.skill.filenames import SIDECAR, is_skill_md, name_in_folder
from prowess.skill.forms.form import warning
from prowess.skill.forms.prompt_files import file_stem, is_data, read_prompt, read_rubric, write_prompt
from prowess.skill.kinds import KINDS, Artifact, DspyModule, Function, JsonObject, Kind, PromptTemplate, kind_info
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.package import File, Package, check_path
from prowess.skill.slug import slugify

LANGUAGES = {".py": "python", ".ts": "typescript", ".js": "javascript"}
EXECUTE = "execute"
"""The name of a skill's function and of its file."""
EXECUTE_FILES = KINDS["function"].root_files
STATE_SUFFIX = ".state.json"

_PLAIN_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)


def kind_of(path: str) -> Kind | None:
    """Return the kind of a file by its location, or None if it is not an artifact."""
    folder, _, rest = path.partition("/")
    for kind in KINDS.values():
        if path in kind.root_files if not rest else kind.folder == folder and path.endswith(kind.reads):
            # A saved state lies next to its module and belongs to it; it is not an artifact.
            return None if path.endswith(STATE_SUFFIX) and kind.model is DspyModule else kind.name
    return None


def settings_of(
    kind: Kind,
    path: str,
    package: Package,
    problems: list[Problem],
    *,
    state_path: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> JsonObject:
    """Return the settings of an artifact that follow from its file alone: name, variant, content and more."""
    file = package.get(path)
    content = file.content if file else b""
    settings: JsonObject = {"kind": kind, "path": path, "ordinal": 1, "name": name_of(kind, path)}
    if kind_info(kind).is_file:
        return settings
    if kind == "prompt_template":
        if is_data(path):
            return settings | {"variant": None} | read_prompt(path, content, problems, limits)
        settings |= _name_from_file(path)
        settings["syntax"] = "mustache" if path.endswith(".mustache") else "jinja"
    if kind not in KINDS:
        # No plugin says whether this is text. Bytes that are not stay in the package alone.
        settings["content"] = _text_or_nothing(content)
        return settings
    settings["content"] = decoded_text(path, content, problems)
    if kind == "function":
        settings["language"] = LANGUAGES.get(_suffix(path), "python")
    elif kind == "review":
        rubric = read_rubric(path, content, problems, limits).object if is_data(path) else None
        settings["rubric_id"] = str((rubric or {}).get("rubric_id") or file_stem(path))
    elif kind == "dspy_module":
        state = package.get(state_path or state_path_of(path))
        settings["state"] = None if state is None else decoded_text(state.path, state.content, problems)
    return settings


def decoded_text(path: str, content: bytes, problems: list[Problem]) -> str:
    """Return the exact text of a file, and report if it is not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as fault:
        message = f"{path} is not UTF-8 text (byte {fault.start + 1}); invalid bytes are replaced."
        problems.append(warning("not-text", message, "Save it as UTF-8.", field=path))
        return content.decode(errors="replace")


def _text_or_nothing(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return ""


def name_of(kind: Kind, path: str) -> str:
    """Return the name of an artifact by its path."""
    if _keeps_suffix(kind):
        return name_in_folder(path)
    below = name_in_folder(path)
    return below[: -len(_suffix(below))] if _suffix(below) else below


def _keeps_suffix(kind: Kind) -> bool:
    """Return True for a kind that takes every file of its folder: there, `a.md` and `a.txt` are two artifacts."""
    return "" in kind_info(kind).reads


def _name_from_file(path: str) -> JsonObject:
    """Split a template's file name: `ask@1.2.0.j2` is a version of `ask`, `ask.claude.j2` a variant of it."""
    name = name_of("prompt_template", path)
    folder, slash, last = name.rpartition("/")
    # The version comes first: its dots (`ask@1.2.0`) would otherwise be taken for a variant.
    plain, mark, version = last.partition("@")
    if mark and plain and version:
        return {"name": name, "variant": None, "version": version}
    plain, dot, variant = last.rpartition(".")
    named = bool(dot and plain and variant)
    return {"name": folder + slash + plain if named else name, "variant": variant if named else None}


def _suffix(path: str) -> str:
    last = path.rpartition("/")[2]
    name, dot, suffix = last.rpartition(".")
    return dot + suffix if name and dot else ""


def state_path_of(path: str) -> str:
    """Return the path of the saved state of a dspy_module: next to its file."""
    return (path[: -len(_suffix(path))] if _suffix(path) else path) + STATE_SUFFIX


class PathAllocator:
    """Assigns paths in a package, each once, also on file systems that ignore case."""

    def __init__(self, used_paths: set[str]) -> None:
        # macOS and Windows ignore case: `Ask.md` and `ask.md` would overwrite each other there.
        self._taken = {path.casefold() for path in used_paths}

    def place(self, artifact: Artifact) -> str:
        """Return a path for the artifact: its own if that is free, else one by kind and name."""
        if artifact.path is not None and self._is_usable(artifact, artifact.path):
            return self._take(artifact, artifact.path)
        return next(
            path for path in _candidates(artifact) if self._is_free(artifact, path) and self._take(artifact, path)
        )

    def _is_usable(self, artifact: Artifact, path: str) -> bool:
        if not is_path(path) or is_skill_md(path) or path.lower() == SIDECAR:
            return False
        return self._is_free(artifact, path) and (kind_info(artifact.kind).is_file or can_hold(artifact, path))

    def _is_free(self, artifact: Artifact, path: str) -> bool:
        return not any(
            candidate.casefold() in self._taken or self._lies_across(candidate.casefold())
            for candidate in _paths(artifact, path)
        )

    def _lies_across(self, path: str) -> bool:
        """Return True if a file would have to be a folder, or the other way round."""
        parents = ["/".join(path.split("/")[:count]) for count in range(1, path.count("/") + 1)]
        return any(parent in self._taken for parent in parents) or any(
            other.startswith(path + "/") for other in self._taken
        )

    def _take(self, artifact: Artifact, path: str) -> str:
        self._taken.update(used_path.casefold() for used_path in _paths(artifact, path))
        return path


def can_hold(artifact: Artifact, path: str) -> bool:
    """Return True if a file at `path` can hold this artifact: some suffixes determine how a file is read."""
    if isinstance(artifact, PromptTemplate) and is_data(path):
        return artifact.syntax == "mustache"
    return True


def _paths(artifact: Artifact, path: str) -> list[str]:
    return [path, state_path_of(path)] if artifact.kind == "dspy_module" else [path]


def _candidates(artifact: Artifact) -> Any:
    """Yield paths for an artifact, the best one first, without end."""
    info, suffix = kind_info(artifact.kind), _suffix_for(artifact)
    yield from (path for path in info.root_files if path.endswith(suffix))
    name = artifact.name if _PLAIN_NAME.fullmatch(artifact.name) else slugify(artifact.name).replace(".", "-")
    variant = slugify(artifact.variant or "").replace(".", "-")
    folder = info.folder or "artifacts"
    base = f"{folder}/{name or artifact.kind}{'.' + variant if variant else ''}"
    if not is_path(f"{base}{suffix}"):  # such as `com1`, the name of a device on Windows
        base = f"{folder}/{artifact.kind}-{name}{'.' + variant if variant else ''}"
    if _keeps_suffix(artifact.kind):
        # These kinds take their name from the whole file name, so only this path gives the same name again.
        yield f"{folder}/{artifact.name}" if is_path(f"{folder}/{artifact.name}") else base
    count = 1
    while True:
        yield f"{base}{'' if count == 1 else f'-{count}'}{suffix}"
        count += 1


def is_path(path: str) -> bool:
    """Return True if this is a valid path in a package."""
    try:
        check_path(path)
    except Invalid:
        return False
    return True


def _suffix_for(artifact: Artifact) -> str:
    if isinstance(artifact, Function):
        return next(suffix for suffix, language in LANGUAGES.items() if language == artifact.language)
    if isinstance(artifact, PromptTemplate) and artifact.syntax == "mustache":
        return ".mustache"
    if artifact.kind == "review" and not artifact.content.lstrip().startswith("{"):
        return ".yaml"
    return kind_info(artifact.kind).writes


def needs_file(artifact: Artifact, package: Package) -> bool:
    """Return True if the artifact needs its own file."""
    if artifact.content or (isinstance(artifact, DspyModule) and artifact.state is not None):
        return True
    return artifact.path is not None and package.get(artifact.path) is not None


def files_of(
    artifact: Artifact, path: str, package: Package, unchanged: Artifact | None, limits: Limits = DEFAULT_LIMITS
) -> list[File]:
    """Return the files of the artifact. One that did not change keeps its bytes and mode."""
    before = package.get(artifact.path) if artifact.path else None
    if before is not None and (kind_info(artifact.kind).is_file and not artifact.content):
        return [File(path=path, content=before.content, mode=before.mode)]
    # Writing it again would lose the author's layout of a JSON or YAML file, and bytes that are not UTF-8.
    is_same = before is not None and unchanged is not None and _same_text(artifact, unchanged)
    content = before.content if before is not None and is_same else _encode(artifact, path, before, limits)
    files = [File(path=path, content=content, mode=before.mode if before else "0644")]
    if isinstance(artifact, DspyModule) and artifact.state is not None:
        files.append(File(path=state_path_of(path), content=artifact.state.encode()))
    return files


def _same_text(artifact: Artifact, other: Artifact) -> bool:
    """Return True if both artifacts are written as the same text."""
    if artifact.kind != other.kind or artifact.content != other.content:
        return False
    if isinstance(artifact, PromptTemplate) and artifact.path and is_data(artifact.path):
        fields = ("name", "syntax", "version", "vars_schema", "output_schema")
        return all(getattr(artifact, field) == getattr(other, field) for field in fields)
    return True


def _encode(artifact: Artifact, path: str, before: File | None, limits: Limits) -> bytes:
    if isinstance(artifact, PromptTemplate) and is_data(path):
        return write_prompt(path, artifact.model_dump(), before.content if before else None, limits)
    return artifact.content.encode()


def with_execute_file(entries: Sequence[JsonObject], package: Package, plain: tuple[str, ...]) -> list[JsonObject]:
    """Return the entries. One called `execute` without a path gets the path of the execute file."""
    listed = {entry.get("path") for entry in entries if isinstance(entry.get("path"), str)} | set(plain)
    path = next((path for path in EXECUTE_FILES if package.get(path) is not None and path not in listed), None)
    return [{**entry, "path": path} if path is not None and _is_execute(entry) else entry for entry in entries]


def _is_execute(entry: JsonObject) -> bool:
    return "path" not in entry and entry.get("name") == EXECUTE and entry.get("kind", "function") == "function"
