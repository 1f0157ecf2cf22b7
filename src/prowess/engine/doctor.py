"""The checks of `prowess doctor`: stores, plugins, models, the match index, and one small run in each sandbox."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.catalog.catalog import Catalog
from prowess.catalog.diagnosis import Finding, examine_stores
from prowess.engine.places import Places, is_role_pack
from prowess.engine.runtime import make_model_config, make_sidecar_environment
from prowess.engine.stores import Stores
from prowess.engine.vector_worker import is_running, last_failure
from prowess.errors import Invalid, ProwessError, Unavailable
from prowess.plugins import installed_plugins
from prowess.sandbox.commands.command import Command, CommandSandbox
from prowess.sandbox.protocol import Sandbox
from prowess.sandbox.script import Language, script_from_function
from prowess.settings import Settings, read_settings
from prowess.storage.database import open_database
from prowess.storage.database_url import database_exists
from prowess.storage.value_check import find_wrong_values

if TYPE_CHECKING:
    from prowess.match.index import Index
    from prowess.sidecar.process import ProcessSidecar

_NOOP_SOURCE: dict[Language, str] = {
    "python": "def execute(args, ctx):\n    return 1\n",
    "typescript": "export function execute(): number { return 1; }\n",
    "javascript": "export function execute() { return 1; }\n",
}


def check_sandboxes(home: Path) -> list[Finding]:
    """Return one finding per sandbox: whether it runs, and how it is confined."""
    return asyncio.run(_check_all(home))


async def _check_all(home: Path) -> list[Finding]:
    from prowess.sandbox.commands.sandbox import LockedCommandSandbox
    from prowess.sandbox.process.sandbox import ProcessSandbox

    return [
        await _check_wasm(home),
        await check_functions("native runtime", ProcessSandbox(), _describe_process()),
        check_packages(),
        await check_commands(LockedCommandSandbox()),
        await _check_typescript(),
    ]


async def check_functions(name: str, sandbox: Sandbox, what: str, language: Language = "python") -> Finding:
    """Check that a function runs in a sandbox, and close the sandbox."""
    script = script_from_function(_NOOP_SOURCE[language], {}, entry="execute", language=language)
    try:
        ran = await sandbox.run(script, {})
    except ProwessError as error:
        return _warn(name, error)
    finally:
        await sandbox.close()
    if ran.ended != "done" or ran.result != 1:
        reason = ran.detail or (ran.error.message if ran.error else ran.ended)
        return Finding(name=name, status="warning", detail=f"{what}: an empty test function failed: {reason}")
    return _ok(name, what, ran.confined)


async def check_commands(commands: CommandSandbox) -> Finding:
    """Check that a program runs."""
    name = "scripts and commands"
    try:
        ran = await commands.run(Command(argv=("true",), executable=False))
    except ProwessError as error:
        return _warn(name, error)
    if ran.ended != "done" or ran.exit_code != 0:
        return Finding(name=name, status="warning", detail="An empty test program failed.")
    return _ok(name, "local programs", ran.confined)


def check_packages() -> Finding:
    """Check that packages of native functions and scripts can be installed."""
    from prowess.sandbox.process.packages import find_uv

    name = "packages"
    try:
        return Finding(name=name, status="ok", detail=f"installed by {find_uv()}")
    except Unavailable as error:
        return _warn(name, error)


async def _check_wasm(home: Path) -> Finding:
    from prowess.sandbox.wasm.component import WASMTIME, check_package, is_built
    from prowess.sandbox.wasm.sandbox import WasmSandbox

    name, what = "sandbox", f"CPython in WebAssembly, wasmtime {WASMTIME}"
    try:
        check_package("wasmtime", WASMTIME)
    except Unavailable as error:
        return _warn(name, error)
    # Building takes a minute or two, too long for a check.
    if not is_built(home):
        return Finding(name=name, status="ok", detail=f"{what}: built on the first run of a script")
    # No spare instances: only one function runs.
    return await check_functions(name, WasmSandbox(home, spare_guests=0), f"{what}: built")


async def _check_typescript() -> Finding:
    from prowess.sandbox.deno.sandbox import DenoSandbox, find_deno

    name = "TypeScript"
    try:
        return await check_functions(name, DenoSandbox(), f"Deno at {find_deno()}", "typescript")
    except Unavailable as error:
        return _warn(name, error)


def check_sidecar(settings: Settings) -> Finding:
    """Check that the DSPy sidecar starts, if it is installed, and stop it again."""
    from prowess.sidecar.process import ProcessSidecar

    name, environment = "DSPy sidecar", make_sidecar_environment(settings)
    if environment.is_off:
        return Finding(name=name, status="ok", detail="switched off, so fallbacks run instead of dspy_modules")
    try:
        program = environment.find()
        if program is not None:
            return asyncio.run(_check_started(ProcessSidecar(lambda: program), name, program.argv[0]))
    except ProwessError as error:
        return _warn(name, error)
    if environment.failure:
        hint = "Run `prowess sidecar install`."
        return Finding(name=name, status="warning", detail=f"not installed: {environment.failure}", hint=hint)
    return Finding(
        name=name, status="ok", detail=f"DSPy {environment.dspy}: installed by the first run of a dspy_module"
    )


async def _check_started(sidecar: ProcessSidecar, name: str, where: str) -> Finding:
    try:
        manifest = await sidecar.manifest()
        return _ok(name, f"DSPy {manifest.dspy} at {where}", sidecar.confined)
    finally:
        await sidecar.close()


def _describe_process() -> str:
    return f"local processes, {'with' if shutil.which('bwrap') else 'without'} bubblewrap"


def _ok(name: str, what: str, words: Sequence[str]) -> Finding:
    return Finding(name=name, status="ok", detail=f"{what}, confined by {', '.join(words) or 'nothing else'}")


def _warn(name: str, error: ProwessError) -> Finding:
    return Finding(name=name, status="warning", detail=error.message, hint=error.hint)


def run_checks(workspace: str | Path | None = None) -> list[Finding]:
    """Return the findings of `prowess doctor`, and remove what an interrupted write left behind."""
    stores = Stores(read_settings(workspace=workspace))
    try:
        findings = examine_stores(
            home=stores.settings.home,
            workspace=stores.settings.workspace,
            # The skills of users and organizations are in the account's database.
            database_urls={
                scope: url for scope, url in stores.places.database_urls.items() if scope in ("workspace", "account")
            },
            open_database=lambda url: open_database(url, stores.seals, ours_only=stores.must_be_ours(url)),
            catalog=Catalog(stores.present),
            is_role_pack=is_role_pack,
        )
        return [
            *findings,
            *([_warn("values in the database", damage)] if (damage := _find_damage(stores)) else []),
            *_check_installed(stores.settings),
            *_check_plugins(),
            *_check_models(stores),
            *_check_index(stores),
            *check_sandboxes(stores.settings.home),
            check_sidecar(stores.settings),
        ]
    finally:
        stores.close()


def find_damage() -> Unavailable | None:
    """Return an error that names wrong values in the account's database, or None if there are none, or it has another fault."""
    stores = Stores(read_settings())
    try:
        return _find_damage(stores)
    finally:
        stores.close()


def _find_damage(stores: Stores) -> Unavailable | None:
    url = stores.places.database_urls["account"]
    try:
        if not database_exists(url):
            return None
        database = open_database(url, stores.seals, ours_only=stores.must_be_ours(url))
        try:
            with database.read() as connection:
                found = find_wrong_values(connection)
        finally:
            database.close()
    except ProwessError:
        return None  # the examination of the stores says what is wrong
    if not found:
        return None
    names = ", ".join(f"{name} ({count})" for name, count in list(found.items())[:5])
    return Unavailable(
        f"The database {database.location} has values of the wrong type, written by another program: {names}.",
        hint="Restore it from a backup with `prowess restore`, or correct these values.",
    )


def adopt_database(workspace: str | Path | None = None) -> str:
    """Use the database of a workspace although another installation made it. Return its location."""
    stores = Stores(read_settings(workspace=workspace))
    try:
        return stores.adopt_workspace_database()
    finally:
        stores.close()


def _check_installed(settings: Settings) -> list[Finding]:
    """Compare the skills of the project and of the user with their lock files, after finishing interrupted changes."""
    from prowess.sources.install import Base
    from prowess.sources.installation import Installation
    from prowess.sources.verification import verify

    findings: list[Finding] = []
    for root, is_user in ((settings.workspace, False), (settings.user_home, True)):
        base = Base(root=root, environment=settings.environment, is_user=is_user)
        name = "skills installed for all projects" if is_user else "skills installed here"
        try:
            installation = Installation(base)
            installation.recover()
            known = installation.known()
            bad = [skill.name for skill in verify(installation, list(known)) if not skill.ok] if known else []
        except ProwessError as error:
            findings.append(_warn(name, error))
            continue
        if bad:
            hint = f"Run `prowess verify{' --global' * is_user}`."
            detail = f"{len(bad)} of {len(known)} differ from the lock file: {', '.join(bad[:10])}"
            findings.append(Finding(name=name, status="warning", detail=detail, hint=hint))
        elif known:
            findings.append(Finding(name=name, status="ok", detail=f"{len(known)} match the lock file"))
    return findings


def _check_plugins() -> list[Finding]:
    """Return one finding per plugin. A broken plugin is skipped, so it is a warning."""
    found: list[Finding] = []
    for plugin in installed_plugins():
        name, owner = f"plugin {plugin.name}", f"{plugin.distribution} {plugin.version}".strip()
        if plugin.problem:
            hint = f"Update or uninstall {plugin.distribution or 'the package that provides it'}."
            found.append(Finding(name=name, status="warning", detail=f"{owner} skipped: {plugin.problem}", hint=hint))
        else:
            found.append(Finding(name=name, status="ok", detail=f"{owner}: {plugin.brings}"))
    return found


def _check_models(stores: Stores) -> list[Finding]:
    """Return a finding for each model in the settings: whether its name is valid."""
    from prowess.llm.models import Models

    models = Models(make_model_config(stores.settings))
    found: list[Finding] = []
    for name, named in (("model", models.default), ("evaluation model", models.evaluation)):
        try:
            models.check(named)
        except Invalid as error:
            found.append(Finding(name=name, status="error", detail=error.message, hint=error.hint))
        else:
            found += [Finding(name=name, status="ok", detail=named)] if named else []
    return found


def _check_index(stores: Stores) -> list[Finding]:
    """Report where the match index is, whether it is current, and how many skills have vectors.

    Wrong settings and missing models show here too.
    """
    from prowess.engine.matcher import open_card_vectors, open_embedder, snapshot_folder
    from prowess.match.snapshot import Snapshot

    name, folder = "match index", snapshot_folder(stores.settings)
    try:
        saved = Snapshot(folder).load(open_embedder(stores.settings))
        cards = open_card_vectors(stores.settings)
    except ProwessError as error:
        status = "error" if isinstance(error, Invalid) else "warning"
        return [Finding(name=name, status=status, detail=error.message, hint=error.hint)]
    if saved is None:
        return [Finding(name=name, status="ok", detail=f"{folder} (created by the next match)")]
    size = 0
    for file in folder.iterdir():
        with suppress(OSError):  # another process may just have replaced it
            size += file.stat().st_size
    count = f"{saved.index.size:,} skill{'s' * (saved.index.size != 1)}, {size:,} bytes"
    is_current = Places(stores.settings, by_rows=True).holds(saved.record)
    state = "current" if is_current else "updated by the next match"
    found = Finding(name=name, status="ok", detail=f"{folder}: {count}, {state}")
    return [found, _check_vectors(stores.settings, saved.index.with_vectors(cards))]


def _check_vectors(settings: Settings, index: Index) -> Finding:
    """Report how many skills have vectors, and what happens to the others."""
    from prowess.match.matcher import IN_PLACE

    name, now = "match vectors", "Run `prowess doctor --index` to compute them now."
    detail = f"{index.size - index.missing:,} of {index.size:,} skills"
    if not index.missing:
        return Finding(name=name, status="ok", detail=detail)
    if is_running(settings):
        return Finding(name=name, status="ok", detail=f"{detail}; the others are being computed in the background")
    if failure := last_failure(settings):
        detail = f"{detail}; the others are compared by words only. Computing them failed: {failure}"
        return Finding(name=name, status="warning", detail=detail, hint=now)
    if settings.background or index.missing <= IN_PLACE:
        return Finding(name=name, status="ok", detail=f"{detail}; the next match computes the others")
    detail = f"{detail}; the others are compared by words only, because PROWESS_BACKGROUND is off"
    return Finding(name=name, status="warning", detail=detail, hint=now)


def prepare_index(workspace: str | Path | None = None) -> None:
    """Bring the match index up to date and compute all missing vectors."""
    from prowess.engine.matcher import open_matcher

    with open_matcher(workspace) as matcher:
        matcher.prepare()
