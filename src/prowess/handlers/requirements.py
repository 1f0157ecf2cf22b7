"""Give a run the environment values and packages that its skill declares, and explain what is missing."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from prowess.policy.grants import GrantResolver, Grants
from prowess.run.call import Call
from prowess.sandbox.protocol import ScriptError
from prowess.skill.form_info import form_info
from prowess.skill.kinds import kind_info
from prowess.skill.model import Skill
from prowess.skill.needs import Needs
from prowess.threads import offload

_UNDECLARED = re.compile(r"ctx\.env: ([A-Za-z_][A-Za-z0-9_]{0,79}) ")
GrantLookup = Callable[[Call], Awaitable[Grants]]
"""Finds what a call may reach outside the sandbox."""


def look_up_grants(resolver: GrantResolver, tenants: GrantResolver | None = None) -> GrantLookup:
    """Return the lookup that handlers use: what the call's skill needs, under the policy that its run started with.

    `tenants` is the resolver for members of a server's organizations, to whom its workspace does not belong.
    """

    async def grants_of(call: Call) -> Grants:
        run = call.run
        if not run.declared:
            return Grants()
        resolve = partial(
            (tenants if tenants and run.actor.is_tenant else resolver).resolve,
            run.needs,
            run.policy,
            slug=run.skill.slug,
            digest=run.skill.digest,
            program=kind_info(call.artifact.kind).reaches == "machine",
        )
        # Only folders are looked up on disk.
        return await offload(resolve) if run.needs.roots else resolve()

    return grants_of


def grant_env(call: Call, grants: Grants) -> Mapping[str, str]:
    """Return the granted environment values. Keep them out of all reports, and note granted and missing names."""
    receipt = call.notes.receipt
    for name in call.run.needs.env:
        (receipt.touch if name in grants.env else receipt.refuse)("env", name)
    call.add_secrets(grants.env)
    return grants.env


def explain_missing_env(call: Call, grants: Grants) -> str:
    """Explain why declared environment values were not granted; '' if all were."""
    return " ".join(grants.denied[name] for name in call.run.needs.env if name in grants.denied)


def explain_undeclared_env(error: ScriptError, skill: Skill, needs: Needs) -> str:
    """Return the line that declares the environment variable that a function asked for; '' for any other error."""
    found = _UNDECLARED.match(error.message) if error.type == "EnvNotDeclared" else None
    return manifest_line(skill, "env", found[1], needs.env) if found else ""


def manifest_line(skill: Skill, field: str, value: str, declared: Sequence[str] = ()) -> str:
    """Return the hint with the exact line that declares a need in the manifest of a skill."""
    names = json.dumps([*declared, value], ensure_ascii=False)
    form = form_info(skill.form)
    if not form.is_data:
        return f"Add this line to agents/prowess.yaml: {field}: {names}"
    if "skill.json" in form.markers:
        return f'Add this line to skill.json: "{field}": {names}'
    return f"Add this line to the descriptor: {field}: {names}"


InstallPackages = Callable[[tuple[str, ...]], Path]
"""Installs packages if they are missing, and returns their folder. Blocking, and slow the first time."""


async def install_packages(call: Call, provision: InstallPackages) -> Path | None:
    """Install the packages that the skill needs, and return their folder; None if it needs none."""
    needed = call.run.needs.requirements
    if not needed:
        return None
    # Noted as refused unless the installation succeeds, also if it is cancelled.
    note = call.notes.receipt.refuse
    try:
        # Without links: programs are given no folder by a path that has some.
        folder = await offload(lambda: provision(needed).resolve())
        note = call.notes.receipt.touch
    finally:
        for requirement in needed:
            note("packages", requirement)
    return folder


PACKAGE_NAMES = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "Crypto": "pycryptodome",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "PyMuPDF",
    "google": "google-api-python-client",
    "jose": "python-jose",
    "jwt": "PyJWT",
    "magic": "python-magic",
    "nacl": "PyNaCl",
    "OpenSSL": "pyOpenSSL",
    "PIL": "Pillow",
    "pptx": "python-pptx",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slugify": "python-slugify",
    "telegram": "python-telegram-bot",
    "usb": "pyusb",
    "win32api": "pywin32",
    "yaml": "PyYAML",
    "zmq": "pyzmq",
}
"""Package names by module, where they differ."""
_NAME = re.compile(r"No module named '([A-Za-z_][\w.]*)'")
_FETCHING = frozenset({"aiohttp", "httpx", "requests", "urllib3"})
_NETWORK = frozenset({"http", "socket", "ssl", "urllib"})


def explain_missing_import(error: ScriptError, skill: Skill, needs: Needs) -> str:
    """Return the manifest lines that add a missing package, or an alternative; '' if no import failed."""
    found = _NAME.search(error.message) if error.type in {"ModuleNotFoundError", "ImportError"} else None
    if found is None:
        return ""
    module = found[1].partition(".")[0]
    # The module is a file of the skill itself, which the sandbox does not see.
    if any(entry.path in {f"{module}.py", f"{module}/__init__.py"} for entry in skill.manifest):
        return f"A function is a single file. Move the code that it needs from {module}.py into it."
    if module in sys.stdlib_module_names:
        return _explain_missing_module(module, needs)
    package = PACKAGE_NAMES.get(module, module)
    if needs.runtime != "native" and _is_declared(package, needs):
        return (
            f"The package {package!r} is only installed for the native runtime. Add `runtime: native` to the manifest."
        )
    declared = ", ".join(f'"{name}"' for name in dict.fromkeys((*needs.requirements, package)))
    lines = f"`requirements: [{declared}]`"
    if needs.runtime != "native":
        lines = f"`runtime: native` and {lines}"
    instead = ", or use ctx.fetch instead" if module in _FETCHING else ""
    return f"The package {package!r} is not installed. Add {lines} to the manifest{instead}."


def _is_declared(package: str, needs: Needs) -> bool:
    return any(
        re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower() == package.lower()
        for requirement in needs.requirements
    )


def _explain_missing_module(module: str, needs: Needs) -> str:
    instead = "use ctx.fetch instead" if module in _NETWORK else "remove the import"
    if needs.runtime == "native":
        return f"The module {module!r} is not available here: {instead}."
    return (
        f"The module {module!r} is not available in the sandbox: {instead}, or add `runtime: native` to the manifest."
    )
