"""Run a skill from the command line: parse its inputs, retry it after an approval, and save the files it produced."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from prowess.errors import Conflict, Invalid, NotFound, ProwessError, RunFailed
from prowess.interfaces.cli.engine import Cli
from prowess.interfaces.cli.output import escape_path, one_line
from prowess.lazy_dataclass import dataclass
from prowess.paths import expand_user
from prowess.skill.json_values import parse_json

if TYPE_CHECKING:
    from prowess.interfaces.cli.run_output import RunScreen
    from prowess.open import Prowess
    from prowess.policy.grants import EnvState
    from prowess.run.request import RunRequest
    from prowess.run.result import ProducedFile, RunResult
    from prowess.skill.model import Skill


ENV_STATES: Mapping[EnvState, str] = {
    "allowed": "allowed",
    "unset": "allowed, but not set in this environment",
    "changed": "not allowed: the skill has changed since it was allowed",
    "asked": "not allowed; the skill requests it",
    "unused": "allowed, but not requested by the skill",
}


async def explain_refused_env(prowess: Prowess, slug: str, receipts: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return one line for each environment variable that a run was refused, with the command that allows it."""
    refused = dict.fromkeys(name for receipt in receipts for name in receipt.get("refused", {}).get("env", {}))
    if not refused:
        return []
    try:
        grants = {grant.name: grant for grant in await prowess.env.list(slug)}
    except ProwessError:
        return []
    return [_format_refused_env(slug, name, grants[name].state) for name in refused if name in grants]


def _format_refused_env(slug: str, name: str, state: EnvState) -> str:
    fix = f" (`prowess env allow {slug} {name}`)" if state in ("asked", "changed") else ""
    return one_line(f"{name}: {ENV_STATES[state]}{fix}", 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFolder:
    """The folder for produced files. Without a folder nothing is saved; with `force`, existing files are replaced."""

    folder: Path | None
    force: bool = False

    def check(self, skill: Skill) -> None:
        """Raise `Conflict` if a declared file already exists. Called before the run, so no model call is wasted."""
        from prowess.run.result import declared_files

        if self.folder is None or self.force:
            return
        for _, name in declared_files(skill):
            if name and os.path.lexists(self.folder / name):
                raise _conflict(self.folder / name)

    def save(self, result: RunResult, skill: Skill) -> None:
        """Write the produced files, and report on stderr each declared file that was not written.

        Raise `Conflict` if a file already exists and `force` is not set.
        """
        from prowess.run.result import declared_files

        if self.folder is None:
            return
        written = _write_files(result.produced, self.folder, force=self.force)
        declared = declared_files(skill)
        for name, reason in _find_missing(declared, written):
            click.echo(f"Not written: {one_line(name, 80) or 'a file without a name'} ({reason}).", err=True)
        if not declared:
            click.echo("Nothing saved: the skill does not declare any files that it produces.", err=True)


def _write_files(produced: Sequence[ProducedFile], folder: Path, *, force: bool) -> set[str]:
    """Write each file and return the names written. If several have the same name, only the first is written."""
    written: set[str] = set()
    if produced:
        folder.mkdir(parents=True, exist_ok=True)
    for file in produced:
        if file.name not in written:
            _write_file(folder / file.name, file.content, force=force)
            written.add(file.name)
            click.echo(f"Wrote {escape_path(folder / file.name)} ({one_line(file.media_type, 80)}).", err=True)
    return written


def _find_missing(declared: tuple[tuple[str, str], ...], written: set[str]) -> list[tuple[str, str]]:
    """Return the declared files that were not written, each with the reason."""
    left: list[tuple[str, str]] = []
    seen: set[str] = set()
    for given, name in declared:
        if name in seen:
            left.append((given, f"another file has the name {name}"))
        elif not name:
            left.append((given, "invalid file name, or too many files"))
        elif name not in written:
            left.append((given, "the run did not produce it"))
        seen.add(name or given)
    return left


def _write_file(target: Path, content: str, *, force: bool) -> None:
    if force and target.is_symlink():
        target.unlink()  # otherwise the write would follow the link to another file
    try:
        # Without `force`, mode "x" also fails if the file was created after `check` looked for it.
        with target.open("w" if force else "x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise _conflict(target) from None


def _conflict(target: Path) -> Conflict:
    return Conflict(
        f"{escape_path(target)} already exists.", hint="Use --force to replace it, or save to another folder."
    )


class RunAttempt:
    """One run from the command line, which can be repeated after an approval. `typed` are the inputs as typed."""

    def __init__(
        self,
        request: RunRequest,
        typed: tuple[str, ...],
        cli: Cli,
        *,
        screen: RunScreen,
        saving: OutputFolder,
    ) -> None:
        self._request = replace(
            request,
            inputs=self._read_inputs,
            on_step=request.on_step if screen.quiet else screen.watch,
            on_part=screen.part,
            on_setup=screen.note,
        )
        self._typed = typed
        self._screen = screen
        self._saving = saving
        self._cli = cli
        self._skill: Skill | None = None
        self.ran: tuple[Skill, RunResult] | None = None
        """The skill and the result; None until a run has ended."""

    def once(self) -> ProwessError | None:
        """Run the skill once. Return an error that came after the run ended, such as unused steps of a scripted model.

        Errors that prevent or interrupt the run are raised. After an interruption, print how to resume the run.
        """
        try:
            with self._screen:
                self._cli.call(self._work)
        except RunFailed as error:
            if self.ran is None:
                raise
            return error
        except (KeyboardInterrupt, click.exceptions.Exit):
            self._cli.call(self._print_resume_command)
            raise
        return None

    async def _work(self, prowess: Prowess) -> None:
        result = await prowess.runs.attempt(self._request)
        self.ran = cast("Skill", self._skill), result
        if not self._screen.quiet:
            receipts = [part.receipt for part in result.parts]
            self._screen.add(await explain_refused_env(prowess, self._request.slug, receipts))

    def _read_inputs(self, skill: Skill) -> Mapping[str, Any]:
        """Parse the typed inputs by the parameters of the skill, and check that its files can be saved. Blocking."""
        self._skill = skill
        self._saving.check(skill)
        return {} if self._request.resume and not self._typed else read_inputs(self._typed, skill.parameters)

    async def _print_resume_command(self, prowess: Prowess) -> None:
        """Print the command that resumes the interrupted run, if it can be resumed."""
        slug = self._request.slug
        last = await prowess.traces.list(skill=slug.rpartition(":")[2], status="cancelled", limit=1)
        if last and await prowess.runs.can_resume(last[0].id):
            click.echo(f"Resume from the last checkpoint: {resume_command(slug, last[0].id)}", err=True)


def resume_command(slug: str, trace: str) -> str:
    """Return the command that resumes an interrupted run."""
    return f"prowess run {slug} --resume {trace[:8]}"


INPUT_HELP = "Use NAME=TEXT, NAME:=JSON, NAME=@FILE, NAME=@- for stdin, or @FILE.json for an object of inputs."
_MAX_INPUT_BYTES = 4_000_000
_JSON_TYPES = ("integer", "number", "boolean", "array", "object", "null")


def read_inputs(words: Sequence[str], schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Parse the inputs given on the command line. If a name is given twice, the last one wins.

    Text is converted to a number, boolean, list or object if `schema` declares that type for the input. Raise
    `Invalid` for malformed input and `NotFound` for a missing file. Blocking: reads files and standard input.
    """
    inputs: dict[str, Any] = {}
    for word in words:
        inputs |= _parse_input(word, _schema_types(schema))
    return inputs


def _parse_input(word: str, types: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    if word.startswith("@"):
        return _read_object(word[1:])
    name, equals, text = word.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not equals or not name:
        raise Invalid(f"Invalid input {word[:80]!r}.", hint=INPUT_HELP)
    if is_json:
        return {name: _parse_json(text, f"input {name}")}
    if text.startswith("@"):
        content = _read_text(text[1:])
        return {name: _parse_json(content, text[1:]) if text.endswith(".json") else content}
    return {name: _convert(text, types.get(name, frozenset()))}


def _read_object(path: str) -> dict[str, Any]:
    value = _parse_json(_read_text(path), path)
    if not isinstance(value, dict):
        raise Invalid(f"{path} is not a JSON object.", hint=INPUT_HELP)
    return cast("dict[str, Any]", value)


def _read_text(path: str) -> str:
    """Read a file as text, or standard input for `-`. Raise `Invalid` if it is too large or not UTF-8."""
    data = sys.stdin.buffer.read(_MAX_INPUT_BYTES + 1) if path == "-" else _read_file(path)
    if len(data) > _MAX_INPUT_BYTES:
        raise Invalid(f"{path} is larger than {_MAX_INPUT_BYTES:,} bytes.", hint="Use a smaller file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not UTF-8 text.", hint="Convert it to UTF-8 first.") from error


def _read_file(path: str) -> bytes:
    if not path:
        raise Invalid("Missing file name after @.", hint=INPUT_HELP)
    try:
        with expand_user(path).open("rb") as file:
            return file.read(_MAX_INPUT_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"File {escape_path(path)} not found.", hint=INPUT_HELP) from error
    except IsADirectoryError as error:
        raise Invalid(f"{escape_path(path)} is a folder, not a file.", hint=INPUT_HELP) from error
    except ValueError as error:  # the path contains a NUL character
        raise Invalid(f"Invalid file name {escape_path(path)}.", hint=INPUT_HELP) from error


def _parse_json(text: str, what: str) -> Any:
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"Invalid JSON in {what}: {error}.", hint=INPUT_HELP) from error


def _schema_types(schema: Mapping[str, Any] | None) -> dict[str, frozenset[str]]:
    """Return the JSON types that the schema declares for each input. Malformed entries have none."""
    properties: object = (schema or {}).get("properties")
    if not isinstance(properties, Mapping):
        return {}
    found: dict[str, frozenset[str]] = {}
    for name, entry in cast("Mapping[str, Any]", properties).items():
        kind: object = cast("Mapping[str, Any]", entry).get("type") if isinstance(entry, Mapping) else None
        kinds = cast("list[object]", kind) if isinstance(kind, list) else [kind]
        found[name] = frozenset(one for one in kinds if isinstance(one, str))
    return found


def _convert(text: str, types: frozenset[str]) -> Any:
    """Convert text to one of the declared types. Return it unchanged if a string is allowed or it is not valid JSON."""
    if not types or "string" in types:
        return text
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return text
    return value if types & set(_JSON_TYPES) and not isinstance(value, str) else text
