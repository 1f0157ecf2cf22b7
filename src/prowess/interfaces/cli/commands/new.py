"""`prowess new`: create a skill that validates, runs and has trigger evals."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.errors import Conflict, NotFound, Unavailable
from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.options import command
from prowess.interfaces.cli.output import escape_path, print_json, print_wrapped
from prowess.paths import expand_user
from prowess.settings import Settings, read_settings
from prowess.skill.package import Package
from prowess.skill.slug import check_slug

if TYPE_CHECKING:
    from prowess.open import Prowess

KINDS = ("instructions", "function", "prompt", "review")
_PROOF = "created with `prowess new`"


@command(
    "new",
    "prowess new commit-helper",
    "prowess new word-count --kind function",
    'prowess new tone-check --kind review --description "Reviews emails."',
)
@click.argument("slug")
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="instructions",
    show_default=True,
    help="Instructions for an agent, a function in Python, a prompt for a model, or a review by a rubric.",
)
@click.option("--description", default="", metavar="TEXT", help="What the skill does and when to use it.")
@click.option(
    "--scope",
    type=click.Choice(["workspace", "user"]),
    default="workspace",
    show_default=True,
    help="Create it in this workspace, or in your home folder for all workspaces.",
)
@click.option("--to", "folder", metavar="DIR", help="Create it in this folder instead.")
@common_options
def new_command(slug: str, kind: str, description: str, scope: str, folder: str | None, cli: Cli) -> None:
    """Create a skill folder that validates, runs and has two trigger evals.

    The skill works at once; edit its files to make it yours. Prowess trusts the files as created, and asks again after a
    change. Existing folders are never overwritten.
    """
    check_slug(slug)
    settings = read_settings(workspace=cli.workspace)
    target = _choose_folder(settings, scope, folder) / slug.rpartition(".")[2]
    if os.path.lexists(target):
        raise Conflict(f"{escape_path(target)} already exists.", hint="Choose another slug.")
    package = make_package(slug, kind, " ".join(description.split()))

    async def work(prowess: Prowess) -> bool:
        await _check_free(prowess, slug)
        _write(package, target)
        try:
            return await _accept(prowess, slug, package)
        except Unavailable as error:
            raise Unavailable(
                f"Created {escape_path(target)}, but it could not be accepted: {error.message}",
                hint=f"{error.hint} Then run `prowess trust {slug}`.",
            ) from error

    accepted = cli.call(work)
    if cli.as_json:
        files = list(package.paths)
        print_json({"slug": slug, "kind": kind, "path": str(target), "files": files, "trusted": accepted})
    else:
        _print_created(slug, kind, target, package, accepted=accepted)


def _choose_folder(settings: Settings, scope: str, folder: str | None) -> Path:
    if folder is not None:
        return expand_user(folder).absolute()
    base = settings.user_home if scope == "user" else settings.workspace
    # A workspace that only has the folder of Claude Code keeps its skills there, where that agent sees them as well.
    only_claude = (base / ".claude/skills").is_dir() and not (base / ".agents/skills").is_dir()
    return base / (".claude/skills" if only_claude else ".agents/skills")


async def _check_free(prowess: Prowess, slug: str) -> None:
    """Raise `Conflict` if an available skill has the slug."""
    try:
        other = await prowess.skills.get(slug)
    except NotFound:
        return
    raise Conflict(
        f"The skill {slug!r} already exists in the {other.scope} scope.",
        hint=f"Choose another slug, or run `prowess show {slug}`.",
    )


def _write(package: Package, target: Path) -> None:
    from prowess.storage.files.atomic_write import write_folder

    target.parent.mkdir(parents=True, exist_ok=True)
    write_folder(package, target, replace=False)


async def _accept(prowess: Prowess, slug: str, package: Package) -> bool:
    """Accept the files that were just written, unless a rule trusts them. Return False if the skill is not available.

    The person who runs the command chose the skill, and its files are those of the templates below, so this is as good as an
    import. A change to the files in between is not accepted, because it changes the digest.
    """
    try:
        preview = await prowess.trust.preview(slug)
    except NotFound:
        return False
    if not preview.skills:
        return True
    own = tuple(skill for skill in preview.skills if skill.digest == package.digest)
    outcome = await prowess.trust.accept(replace(preview, skills=own), proof=_PROOF) if own else None
    return outcome is not None and slug in outcome.accepted


def make_package(slug: str, kind: str, description: str = "") -> Package:
    """Return the files of a new skill."""
    name = slug.rpartition(".")[2]
    words = name.replace("-", " ")
    about = description or _DESCRIPTIONS[kind].format(words=words)
    texts = {
        "SKILL.md": _SKILL_MD[kind].format(
            name=name, description=_quote(about), title=words.capitalize(), words=words, slug=slug
        ),
        "agents/prowess.yaml": _sidecar(slug, kind, words),
        "evals/triggers.json": _evals(words),
        **{path.format(name=name): text.replace("NAME", name) for path, text in _FILES[kind].items()},
    }
    return Package.of_texts(name, texts)


def _quote(text: str) -> str:
    # A JSON string is a valid YAML string, whatever characters it has.
    return json.dumps(text, ensure_ascii=False)


def _sidecar(slug: str, kind: str, words: str) -> str:
    lines = [f"slug: {slug}"] if "." in slug else []
    lines += [
        f"title: {_quote(words.capitalize())}",
        "version: 0.1.0",
        "# Messages that should find this skill.",
        "triggers:",
        f"  - {_quote(_trigger(words))}",
    ]
    return "\n".join(lines) + "\n" + _SIDECARS[kind].replace("NAME", slug.rpartition(".")[2])


def _trigger(words: str) -> str:
    return f"use the {words} skill"


def _evals(words: str) -> str:
    cases = [
        {"query": f"Please {_trigger(words)} on this text.", "should_trigger": True},
        {"query": "How far is the moon from the earth?", "should_trigger": False},
    ]
    return "[\n" + ",\n".join(f"  {json.dumps(case, ensure_ascii=False)}" for case in cases) + "\n]\n"


def _print_created(slug: str, kind: str, target: Path, package: Package, *, accepted: bool) -> None:
    here = target.relative_to(Path.cwd()) if target.is_relative_to(Path.cwd()) else target
    shown = escape_path(here)
    click.echo(f"Created {shown} ({kind}):")
    width = max(map(len, package.paths))
    for path in package.paths:
        click.echo(f"  {path.ljust(width)}  {_ABOUT.get(path) or _ABOUT[Path(path).suffix]}")
    address = slug if accepted else shown
    click.echo("\nNext steps:")
    if accepted:
        for line in _RUNS[kind]:
            click.echo(f"  {line.format(slug=slug)}")
    click.echo(f"  prowess eval triggers {address}")
    click.echo(f"  prowess validate {shown}")
    if accepted:
        click.echo("")
        always = f", or all future changes with `prowess trust ./{shown} --always`" if not here.is_absolute() else ""
        print_wrapped(f"After you edit the files, accept the change with `prowess trust {slug}`{always}.")
    else:
        click.echo(f"  prowess import {shown}")


_DESCRIPTIONS = {
    "instructions": "Explains how to do {words} step by step. Use it when someone asks for {words}.",
    "function": "Counts the words and characters of a text for {words}. Use it when someone asks for {words}.",
    "prompt": "Rewrites a text for {words}. Use it when someone asks for {words}.",
    "review": "Reviews a text for {words} and reports what to improve. Use it when someone asks for {words}.",
}

_HEAD = "---\nname: {name}\ndescription: {description}\n---\n\n# {title}\n\n"
_SKILL_MD = {
    "instructions": _HEAD
    + "Replace these steps with your own:\n\n1. Read what the user gave you.\n2. Do the work for {words}.\n"
    "3. Answer in at most five sentences.\n\nPut long background in `references/`, so that it is loaded only when needed.\n",
    "function": _HEAD + "Call the tool of this skill with a text. It returns the number of words and characters.\n\n"
    "The code is in `execute.py`; its inputs are in `agents/prowess.yaml`.\n",
    "prompt": _HEAD
    + "Run this skill with a text. The prompt for the model is in `prompts/{name}.j2`; its inputs are in\n"
    "`agents/prowess.yaml`.\n",
    "review": _HEAD + "Run this skill with a text. A model judges it by the rubric in `rubrics/{name}.json`.\n",
}

_TEXT_INPUT = """parameters:
  type: object
  required: [text]
  properties:
    text:
      type: string
      description: The text to work on.
"""
_SIDECARS = {
    "instructions": "",
    "function": _TEXT_INPUT,
    "prompt": _TEXT_INPUT
    + """artifacts:
  - path: prompts/NAME.j2
    kind: prompt_template
    name: NAME
    assertions:
      - type: length
        check: char_range
        min: 1
        max: 4000
        description: The answer has at most 4,000 characters
""",
    "review": _TEXT_INPUT,
}

_FUNCTION = '''def execute(args, ctx):
    """Count the words and characters of a text. Replace this with your own code."""
    text = args["text"]
    ctx.log(f"Counting {len(text)} characters")
    return {"success": True, "result": {"words": len(text.split()), "characters": len(text)}}
'''
_PROMPT = """Rewrite this text so that it is clear and short. Keep every fact.

{{ text }}
"""
_RUBRIC = """{
  "rubric_id": "NAME",
  "version": "0.1.0",
  "description": "What a good text has.",
  "scoring_mode": "weighted",
  "pass_threshold": 0.7,
  "criteria": [
    {
      "id": "clear",
      "name": "Clear",
      "description": "A reader understands the text at the first reading.",
      "pass_condition": "Every sentence has one clear meaning.",
      "fail_condition": "At least one sentence is ambiguous or has to be read twice.",
      "weight": 2
    },
    {
      "id": "complete",
      "name": "Complete",
      "description": "The text says what to do next.",
      "pass_condition": "The next step is named.",
      "fail_condition": "No next step is named."
    }
  ]
}
"""
_FILES: dict[str, dict[str, str]] = {
    "instructions": {},
    "function": {"execute.py": _FUNCTION},
    "prompt": {"prompts/{name}.j2": _PROMPT},
    "review": {"rubrics/{name}.json": _RUBRIC},
}
_ABOUT = {
    "SKILL.md": "what the skill does and when to use it",
    "agents/prowess.yaml": "triggers, inputs and artifacts",
    "evals/triggers.json": "one message that must match, one that must not",
    ".py": "the code",
    ".j2": "the prompt",
    ".json": "the rubric",
}
_RUNS = {
    "instructions": ("prowess load {slug}",),
    "function": ('prowess run {slug} --input text="Hello world"',),
    "prompt": ('prowess run {slug} --input text="Hello world" --dry-run', "prowess model"),
    "review": ('prowess run {slug} --input text="Hello world" --dry-run', "prowess model"),
}
