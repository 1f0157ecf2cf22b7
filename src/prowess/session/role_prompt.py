"""The prompt of a role: its skill pack, or its older template, or one sentence.

Searched in this order:

1. `<templates>/skills/<role>/SKILL.md`: the index of all skills, then the pack's text.
2. `<templates>/roles/<role>/system_prompt.md`: its text, rendered as a Jinja template. `task_prompt.md` next to it is rendered
   too, and `config.yaml` gives default values.
3. `<packs>/<role>/SKILL.md`, the packs of plugins, then those that come with Prowess: as 1.
4. "You are a <role> specialist."

A role is a name that matches a pattern, never a path. Nothing is read through a link below the two folders.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from prowess.errors import Invalid
from prowess.session.prompt import join_blocks
from prowess.skill.filenames import find_skill_md
from prowess.skill.json_values import json_object
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.package import Package
from prowess.skill.prompt_block import skill_block
from prowess.skill.text.prompt_tags import to_prompt_text
from prowess.skill.text.yaml import YamlRefused, load
from prowess.skill.validate import accept
from prowess.storage.files.freshness import Stamp, is_settled, make_stamp
from prowess.storage.files.safe_read import open_folder, read_regular_file, snapshot_folder
from prowess.storage.files.skill_paths import read_error

TEMPLATE_FILE = "system_prompt.md"
TASK_FILE = "task_prompt.md"
CONFIG_FILE = "config.yaml"
_ABSENT: Stamp = (0, 0, 0, 0, 0)

RoleSource = Literal["pack", "template", "stub"]
WatchedStamps = tuple[tuple[str, Stamp], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFile:
    """The text for a role, before index and values: the pack's block, the template as written, or neither.

    `watched` has every path that this depends on. It is current while all have the same stamps, if `settled`.
    """

    source: RoleSource = "stub"
    text: str = ""
    location: str = ""
    digest: str = ""
    about: str = ""
    """What the role does, by the title and description of its pack."""
    task: str = ""
    """The template for a task, as written."""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    watched: WatchedStamps = ()
    settled: bool = True

    def holds(self) -> bool:
        """Return True if nothing has changed since it was read."""
        return self.settled and all(_read_stamp(path) == stamp for path, stamp in self.watched)


def read_pack(root: str, inside: str, origin: str, limits: Limits) -> RoleFile:
    """Read the pack in the folder `inside` of the root as a block; empty if there is no SKILL.md.

    Raise `Invalid`, with the path, for a pack that Prowess would not accept.
    """
    location = f"{root}/{inside}"
    watched = _watch_path(root, inside)
    if watched[-1][1] == _ABSENT:
        return RoleFile(watched=watched)
    try:
        snapshot = snapshot_folder(location, limits, root=root)
        found = RoleFile(watched=watched + snapshot.stamps, settled=snapshot.settled)
        return replace(found, **_read_block(snapshot.package, location, origin, limits))
    except OSError as error:
        raise read_error(Path(location), error) from error
    except Invalid as error:
        raise Invalid(f"{location!r}: {error.message}", hint=error.hint, problems=error.problems) from error


def _read_block(package: Package, location: str, origin: str, limits: Limits) -> dict[str, Any]:
    """Return the fields of a pack; empty if the folder is not one."""
    if find_skill_md(package) is None:
        return {}
    skill = accept(package, limits).skill
    if skill is None or not skill.body.strip():
        raise Invalid(
            "The skill pack has no prompt text.",
            hint="Write the role's instructions below the frontmatter of SKILL.md.",
        )
    digest = package.digest
    text = skill_block(skill.title, skill.body.strip("\n"), slug=skill.slug, origin=origin, digest=digest)
    about = f"{skill.title}. {skill.description}"
    return {"source": "pack", "text": text, "location": location, "digest": digest, "about": about}


def read_template(root: str, inside: str, limits: Limits) -> RoleFile:
    """Read the older template in the folder `inside` of the root as it is written; empty if there is none."""
    # Taken before the stamps: a change while a file is read must make its stamp count as unsettled.
    began = time.time_ns()
    watched = _watch_path(root, f"{inside}/{TEMPLATE_FILE}")
    if watched[-1][1] == _ABSENT:
        return RoleFile(watched=watched)
    beside = [_watch_path(root, f"{inside}/{name}")[-1] for name in (TASK_FILE, CONFIG_FILE)]
    texts: dict[str, str] = {}
    try:
        descriptor = open_folder(f"{root}/{inside}", root)
        try:
            for path, stamp in (watched[-1], *beside):
                if stamp != _ABSENT:
                    name = path.rpartition("/")[2]
                    # One byte more than the limit shows that a file is too large, without reading all of it.
                    data = read_regular_file(name, limits.skill_md_bytes + 1, descriptor)
                    texts[name] = _decode_template(data, path, limits.skill_md_bytes)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise read_error(Path(f"{root}/{inside}"), error) from error
    watched = (*watched, *beside)
    return RoleFile(
        source="template",
        text=texts[TEMPLATE_FILE],
        task=texts.get(TASK_FILE, ""),
        config=_parse_config(texts.get(CONFIG_FILE, ""), f"{root}/{inside}/{CONFIG_FILE}"),
        location=f"{root}/{inside}/{TEMPLATE_FILE}",
        watched=watched,
        settled=all(is_settled(stamp, began) for _, stamp in watched if stamp != _ABSENT),
    )


def _parse_config(text: str, location: str) -> dict[str, Any]:
    """Return the settings in `config.yaml`; raise `Invalid`, with the path, if it is not a mapping."""
    if not text.strip():
        return {}
    try:
        config: object = load(text, typed=True).value
    except YamlRefused as error:
        raise Invalid(f"{location!r} is not valid YAML: {error}", hint="Fix the file, or remove it.") from error
    if not isinstance(config, dict) or not all(isinstance(key, str) for key in cast("dict[object, object]", config)):
        raise Invalid(f"{location!r} is not a mapping of names to values.", hint="Write `name: value` lines.")
    return cast("dict[str, Any]", config)


def _decode_template(data: bytes, location: str, limit: int) -> str:
    if len(data) > limit:
        raise Invalid(f"{location!r} is larger than the limit of {limit:,} bytes.", hint="Shorten the file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{location!r} is not UTF-8 text.", hint="Save the file as UTF-8.") from error


def _watch_path(root: str, inside: str) -> WatchedStamps:
    """Return the stamp of each part of the path from the root, up to the first missing one. Refuse links."""
    watched: list[tuple[str, Stamp]] = []
    path = root
    for part in inside.split("/"):
        path = f"{path}/{part}"
        stamp = _read_stamp(path)
        if stat.S_ISLNK(stamp[4]):
            raise Invalid(
                f"{path!r} is a symbolic link. Roles are not read through links.",
                hint="Replace the link with the files.",
            )
        # The first missing part is watched too: a role that is added later must be found.
        watched.append((path, stamp))
        if stamp == _ABSENT:
            break
    return tuple(watched)


def _read_stamp(path: str) -> Stamp:
    try:
        return make_stamp(os.lstat(path))
    except (FileNotFoundError, NotADirectoryError):
        return _ABSENT
    except OSError as error:
        raise read_error(Path(path), error) from error


ROLE_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,63}")
"""The names that a role may have."""

_CACHED_ROLES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePrompt:
    """The prompt of a role; `location` is the folder or file it was read from, '' for the one-sentence prompt.

    `task` is the prompt for a task and `config` the settings of the role; only older templates have them.
    """

    role: str
    source: RoleSource
    text: str
    location: str = ""
    digest: str = ""
    task: str = ""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    note: str = ""
    """A warning that another skill of this name is not used for the role."""


RenderTemplate = Callable[[str, Mapping[str, Any]], Awaitable[str]]
"""Renders a Jinja template with values."""


async def render_role(prompt: RolePrompt, values: Mapping[str, Any], render: RenderTemplate) -> RolePrompt:
    """Return the prompt with its templates rendered; packs and the one-sentence prompt are left as they are.

    `values` win over those of `config`, in which they are top-level names or stand below `values`. Raise `Invalid` if a
    template cannot be parsed or lacks a value.
    """
    if prompt.source != "template":
        return prompt
    variables = {"role": prompt.role, **prompt.config, **json_object(prompt.config.get("values")), **values}
    try:
        text, task = await render(prompt.text, variables), await render(prompt.task, variables)
    except Invalid as error:
        raise Invalid(f"{prompt.location}: {error.message}", hint=error.hint, problems=error.problems) from error
    # Neutralized after rendering, because the values may contain tags of ours.
    return replace(prompt, text=to_prompt_text(text), task=to_prompt_text(task))


class RolePrompts:
    """The prompts of roles, each read again only after something has changed that it was read from.

    That includes the `skills` and `roles` folders themselves. The index is built for every prompt, because it depends on
    more than the roles; it is given what the role does.
    """

    def __init__(
        self,
        *,
        templates: Path | None,
        packs: Path,
        index: Callable[[str], str],
        limits: Limits = DEFAULT_LIMITS,
        plugin_packs: Sequence[Path] = (),
    ) -> None:
        self._templates = str(templates.absolute()) if templates is not None else None
        # In the order in which the catalog serves them: the packs of plugins come before the shipped ones.
        self._packs = [str(folder.absolute()) for folder in (*plugin_packs, packs)]
        self._index = index
        self._limits = limits
        self._known: dict[str, RoleFile] = {}

    def resolve(self, role: str) -> RolePrompt:
        """Return the prompt of a role; the templates of an older one as they are written, for `render_role`.

        Raise `Invalid` for an invalid name, and for a pack or template that cannot be used: a broken one is never skipped
        silently.
        """
        found = self._find(check_role(role))
        if found.source == "pack":
            text = join_blocks(part for part in (self._index(found.about), found.text) if part)
        else:
            text = found.text if found.source == "template" else f"You are a {role} specialist."
        return RolePrompt(
            role=role,
            source=found.source,
            text=text,
            location=found.location,
            digest=found.digest,
            task=found.task,
            config=found.config,
        )

    def _find(self, role: str) -> RoleFile:
        known = self._known.get(role)
        if known is None or not known.holds():
            known = self._look(role)
            # Names come from callers; without a limit they could fill the memory.
            if len(self._known) >= _CACHED_ROLES:
                self._known.clear()
            self._known[role] = known
        return known

    def _look(self, role: str) -> RoleFile:
        """Return the first that exists. The paths of those that do not exist are watched as well."""
        passed: WatchedStamps = ()
        settled = True
        for look in self._places(role):
            found = look()
            passed += found.watched
            settled = settled and found.settled
            if found.source != "stub":
                return replace(found, watched=passed, settled=settled)
        return RoleFile(watched=passed, settled=settled)

    def _places(self, role: str) -> list[Callable[[], RoleFile]]:
        own, limits = self._templates, self._limits
        shipped = [lambda folder=folder: read_pack(folder, role, "system", limits) for folder in self._packs]
        if own is None:
            return [*shipped]
        return [
            lambda: read_pack(own, f"skills/{role}", "templates", limits),
            lambda: read_template(own, f"roles/{role}", limits),
            *shipped,
        ]


def check_role(role: str) -> str:
    """Return the name, or raise `Invalid` if it is not a valid role name."""
    if ROLE_PATTERN.fullmatch(role):
        return role
    raise Invalid(
        f"Invalid role name {role[:80]!r}. Use up to 64 lowercase letters, digits and hyphens, starting with a letter.",
        hint="For example `prowess role backend` or `prowess role ml-engineer`.",
    )
