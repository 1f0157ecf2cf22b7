"""`prowess registry serve`, `publish`, `yank`, `token`, `key` and `refresh`: a registry of your own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import Invalid, NotFound, Refused, Unavailable
from prowess.interfaces.cli.engine import Cli, common_options, json_option, spinner
from prowess.interfaces.cli.error_output import print_findings, print_problems
from prowess.interfaces.cli.options import (
    allow_host_option,
    command,
    group,
    host_option,
    port_option,
    trust_proxy_option,
)
from prowess.interfaces.cli.output import escape_path, one_line, print_json
from prowess.settings import read_settings
from prowess.sources.signature import public_key, sign
from prowess.storage.secret_file import read_secret, read_token_file

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from prowess.open import Prowess
    from prowess.skill.package import Package
    from prowess.sources.package_shelf import PackageShelf
    from prowess.sources.publication import Publisher

DEFAULT_PORT = 7718

_folder_option = click.option(
    "--folder", metavar="DIR", help="Folder of the registry's packages and key (default: PROWESS_HOME/registry)."
)
_url_option = click.option("--to", "url", default="", metavar="URL", help="Registry (default: PROWESS_REGISTRY_URL).")
_token_option = click.option(
    "--token-file", metavar="FILE", help="File with the token for publishing (default: PROWESS_REGISTRY_TOKEN)."
)


@command(
    "serve",
    "prowess registry serve",
    "prowess registry serve --folder /srv/skills --port 8080",
    "prowess registry serve --host 0.0.0.0 --allow-host skills.acme.dev --private",
)
@_folder_option
@host_option
@port_option(DEFAULT_PORT)
@allow_host_option
@trust_proxy_option
@click.option("--private", is_flag=True, help="Require a token for reading, too.")
@click.option("--max-packages", type=click.IntRange(1), metavar="N", help="Packages per publisher (default: 1000).")
@click.option("--max-bytes", type=click.IntRange(1), metavar="N", help="Bytes of all packages (default: 10 GiB).")
@click.option(
    "--requests-per-minute",
    "rate",
    type=click.IntRange(1),
    metavar="N",
    help="Requests of one address (default: 6000).",
)
@click.option("--log", is_flag=True, help="Print a line of JSON for each request to stdout.")
def serve_registry(
    folder: str | None,
    host: str,
    port: int,
    names: tuple[str, ...],
    proxies: tuple[str, ...],
    private: bool,
    max_packages: int | None,
    max_bytes: int | None,
    rate: int | None,
    log: bool,
) -> None:
    """Serve your own registry of skills, with versions that never change and a signed index.

    The first start creates a key that signs the index; clients remember its public part. Create a token for each publisher
    with `prowess registry token create NAME`.
    """
    _require_extra()
    import asyncio

    from prowess.interfaces.auth.browser import LOOPBACK_HOSTS, check_host, check_network
    from prowess.interfaces.listener import open_listener, serve_http
    from prowess.interfaces.registry_server import REQUESTS_PER_MINUTE, make_registry
    from prowess.net.addresses import is_loopback
    from prowess.sources.package_shelf import Quotas

    quotas = Quotas()
    shelf = _open_shelf(
        folder,
        quotas=Quotas(packages=max_packages or quotas.packages, total_bytes=max_bytes or quotas.total_bytes),
    )
    allowed = {*LOOPBACK_HOSTS, *(check_host(name) for name in names), *({host} if ":" not in host else ())}
    trusted = tuple(check_network(address) for address in proxies)
    is_local = is_loopback(host)
    if not is_local:
        _check_tokens(shelf, host, folder)
    listener = open_listener(host, port)
    app = make_registry(
        shelf,
        hosts=allowed,
        private=private,
        requests_per_minute=rate or REQUESTS_PER_MINUTE,
        log=click.echo if log else None,
    )
    url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"

    def announce() -> None:
        lines = [
            f"The registry is running at {url}",
            "",
            f"  Key      {shelf.key}",
            f"  Skills   {len({entry.name for entry in shelf.entries()}):,}",
            "",
            "Try:",
            f"  {_token_command(folder, 'me')}",
            f"  PROWESS_REGISTRY_TOKEN=… prowess registry publish my-skill --to {url}",
        ]
        if not is_local:
            lines += ["", "Requests are not encrypted. Put a proxy with TLS in front."]
        click.echo("\n".join([*lines, "", "Press Ctrl+C to stop."]), err=True)

    raise click.exceptions.Exit(asyncio.run(serve_http(app, listener, ready=announce, trusted_proxies=trusted)))


def _token_command(folder: str | None, publisher: str = "NAME") -> str:
    """Return the command that creates a token for the registry in this folder."""
    return shlex.join(["prowess", "registry", "token", "create", publisher, *(["--folder", folder] if folder else [])])


def _check_tokens(shelf: PackageShelf, host: str, folder: str | None) -> None:
    if any(token.revoked_at is None for token in shelf.tokens()):
        return
    raise Refused(
        f"Listening on {host} exposes this registry to other machines, and no token exists yet.",
        hint=f"Create one first: {_token_command(folder)}",
    )


@command(
    "publish",
    "prowess registry publish my-skill --to https://skills.example.com",
    "prowess registry publish skills/ --yes --json",
    "prowess registry publish my-skill --key signing.key",
)
@click.argument("targets", nargs=-1, required=True, metavar="SLUG|PATH...")
@_url_option
@_token_option
@click.option("--key", "key_file", metavar="FILE", help="Sign with this private key, not with that of the registry.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common_options
def publish_command(
    targets: tuple[str, ...], url: str, token_file: str | None, key_file: str | None, yes: bool, cli: Cli
) -> None:
    """Check skills, show what they may do, ask, and publish them to a registry.

    SLUG is an available skill in a folder; PATH is a skill, or a folder of skills. Name and version are those in the
    skill. A version never changes: to publish other files, raise the version.
    """
    if address := next((target for target in targets if "://" in target), ""):
        raise click.UsageError(f"The registry is an option: --to {one_line(address)}")
    paths = _find_paths(targets, cli)
    packages = [package for path in paths for package in _check_packages(path, cli)]
    private_key = _read_key(key_file)
    publisher_of = _prepare_publisher(url, token_file)
    if not yes:
        _confirm(f"Publish {len(packages)} skill{'s' * (len(packages) != 1)} for others to install?")

    async def work(publisher: Publisher) -> list[dict[str, Any]]:
        done: list[dict[str, Any]] = []
        for package in packages:
            result = await publisher.publish(package, sign(package.digest, private_key) if private_key else b"")
            done.append(result)
            if not cli.as_json:
                words = "published" if result.get("created") else "was published before, with the same files"
                click.echo(f"{click.style('✓', fg='green')} {_shown(result)} {words}")
        return done

    done = publisher_of(work)
    if cli.as_json:
        print_json(done)


@command("yank", "prowess registry yank my-skill 1.2.0", "prowess registry yank my-skill 1.2.0 --undo")
@click.argument("name")
@click.argument("version")
@click.option("--undo", is_flag=True, help="Offer the version again.")
@_url_option
@_token_option
@json_option
def yank_command(name: str, version: str, undo: bool, url: str, token_file: str | None, cli: Cli) -> None:
    """Hide one of your versions from new installs. Its files stay available to users who have pinned it."""
    result = _prepare_publisher(url, token_file)(lambda publisher: publisher.yank(name, version, undo=undo))
    cli.print(result, f"{_shown(result)} is {'offered again' if undo else 'no longer offered'}.")


@command("refresh", "prowess registry refresh", "prowess registry refresh --json")
@common_options
def refresh_command(cli: Cli) -> None:
    """Look for newer versions of the skills that come with Prowess.

    They come from the registry of PROWESS_SYSTEM_REGISTRY_URL, signed with the key of PROWESS_SYSTEM_REGISTRY_KEY. A server
    does this at its start and at intervals.
    """
    with spinner("Asking the registry …"):
        refreshed = cli.call(lambda prowess: prowess.marketplace.refresh_system_skills())
    if refreshed is None:
        raise Invalid(
            "No registry of system skills is configured.",
            hint="Set PROWESS_SYSTEM_REGISTRY_URL and PROWESS_SYSTEM_REGISTRY_KEY.",
        )
    if cli.as_json:
        print_json(refreshed)
        return
    for problem in refreshed.skipped:
        click.echo(f"{click.style('!', fg='yellow')} {one_line(problem.message)}")
    for line in refreshed.updated:
        click.echo(f"{click.style('✓', fg='green')} {one_line(line)}")
    if not refreshed.updated:
        click.echo("The skills that come with Prowess are up to date.")


@group("token", "prowess registry token create ann", "prowess registry token list")
def token_group() -> None:
    """Create, list and revoke the tokens of your registry, in its folder."""


@token_group.subcommand("create", "prowess registry token create ann", "prowess registry token create ci --read")
@click.argument("publisher")
@click.option("--read", is_flag=True, help="Only for reading a private registry.")
@_folder_option
@json_option
def create_token(publisher: str, read: bool, folder: str | None, cli: Cli) -> None:
    """Create a token for a publisher, and print it once. The packages that it publishes belong to this publisher."""
    token, secret = _open_shelf(folder).create_token(publisher, "read" if read else "publish")
    if cli.as_json:
        print_json({"id": token.id, "publisher": token.publisher, "scope": token.scope, "secret": secret})
        return
    click.echo(f"Token {token.id} of {publisher}, for {token.scope}ing. It is shown only once:", err=True)
    click.echo(secret)


@token_group.subcommand("list", "prowess registry token list", "prowess registry token list --json")
@_folder_option
@json_option
def list_tokens(folder: str | None, cli: Cli) -> None:
    """List the tokens, without their secrets."""
    cli.print_table(
        _open_shelf(folder).tokens(),
        ("id", "publisher", "scope", "created", "state"),
        lambda row: (row.id, row.publisher, row.scope, row.created_at[:10], "revoked" if row.revoked_at else "active"),
        empty=f"No tokens. Create one: {_token_command(folder)}",
    )


@token_group.subcommand(
    "revoke", "prowess registry token revoke 1a2b3c4d", "prowess registry token revoke 1a2b3c4d --folder /srv/skills"
)
@click.argument("id")
@_folder_option
def revoke_token(id: str, folder: str | None) -> None:
    """Revoke a token immediately and permanently."""
    _open_shelf(folder).revoke_token(id)
    click.echo(f"Token {id} is revoked.")


@command("key", "prowess registry key", "prowess registry key --folder /srv/skills --json")
@_folder_option
@json_option
def key_command(folder: str | None, cli: Cli) -> None:
    """Print the public key of your registry, so that you can publish it where users can compare it."""
    key = _open_shelf(folder).key
    cli.print({"key": key}, key)


SERVER_COMMANDS: tuple[click.Command, ...] = (
    serve_registry,
    publish_command,
    yank_command,
    token_group,
    key_command,
    refresh_command,
)
"""The commands of `prowess registry` besides those that read registries."""


def _open_shelf(folder: str | None, **options: Any) -> PackageShelf:
    """Open the folder of a registry, which is created if it is missing."""
    from prowess.sources.package_shelf import PackageShelf

    return PackageShelf(Path(folder) if folder else read_settings().home / "registry", **options)


def _require_extra() -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("cryptography", "fastapi", "httptools", "uvicorn")):
        raise Unavailable("The registry server is not installed.", hint="Install it: pip install 'prowess[server]'")


def _find_paths(targets: tuple[str, ...], cli: Cli) -> list[Path]:
    paths = [Path(target) for target in targets]
    if all(path.exists() for path in paths):
        return paths
    from prowess.interfaces.cli.targets import find_path

    async def work(prowess: Prowess) -> list[Path]:
        return [await find_path(prowess, target) for target in targets]

    return cli.call(work)


def _check_packages(path: Path, cli: Cli) -> list[Package]:
    """Return the skills at or below a path. Print what was found about them; raise `Invalid` if one cannot be published."""
    from prowess.catalog.importer import find_packages
    from prowess.redaction.patterns import redact_shapes
    from prowess.scan import scan_package
    from prowess.skill.text.reader import readable_text
    from prowess.skill.validate import rejection, validate

    checked: list[Package] = []
    for found in find_packages(path):
        if found.package is None:
            if found.error is not None:
                raise found.error
            continue
        report = validate(found.package)
        if not report.ok or report.reading.skill is None:
            raise rejection(report)
        checked.append(found.package)
        for file in found.package.files:
            text = readable_text(file.content) or ""
            if redact_shapes(text) != text:
                words = f"{escape_path(file.path)} contains what looks like a key or a password. A published version cannot be deleted."
                click.secho(f"    warning: {words}", fg="yellow", err=True)
        if not cli.as_json:
            skill = report.reading.skill
            size = sum(entry.size for entry in found.package.manifest)
            files = len(found.package.files)
            head = f"{skill.slug} {skill.version}  {files} file{'s' * (files != 1)}, {size:,} bytes"
            click.secho(one_line(f"{head}, sha256 {found.package.digest[:16]}"), bold=True)
            print_problems(report.problems)
            print_findings([finding.as_json() for finding in scan_package(found.package)])
    return checked


def _confirm(question: str) -> None:
    import sys

    if not sys.stdin.isatty():
        raise Refused(
            "Publishing needs confirmation, and this is not a terminal.", hint="Add --yes to publish without asking."
        )
    click.confirm(question, abort=True)


def _read_key(path: str | None) -> str:
    if path is None:
        return ""
    found = read_secret(Path(path))
    if found is None:
        raise NotFound(f"{path!r} does not exist.", hint="Pass the file of an ed25519 private key.")
    public_key(found)
    return found


def _prepare_publisher(
    url: str, token_file: str | None
) -> Callable[[Callable[[Publisher], Coroutine[Any, Any, Any]]], Any]:
    """Return a function that runs work with the chosen registry. Raise `Invalid` if its URL or the token is missing."""
    import asyncio

    from prowess.net.client import GuardedHttpClient
    from prowess.sources.publication import Publisher

    settings = read_settings()
    chosen = url or settings.registry_url
    token = read_token_file(Path(token_file)) if token_file else settings.registry_token
    if not chosen:
        raise Invalid("No registry is configured.", hint="Give its URL with --to, or set PROWESS_REGISTRY_URL.")
    if not token:
        raise Invalid(
            "No token for publishing.",
            hint="Set PROWESS_REGISTRY_TOKEN, or use --token-file. The operator of the registry creates tokens.",
        )
    publisher = Publisher(GuardedHttpClient(), chosen, token)
    return lambda work: asyncio.run(work(publisher))


def _shown(result: dict[str, Any]) -> str:
    return one_line(f"{result.get('name', '')} {result.get('version', '')}", 200)
