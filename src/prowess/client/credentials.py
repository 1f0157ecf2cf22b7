"""Find the address of the server and the token for it."""

from __future__ import annotations

from pathlib import Path

from prowess.client.transport import check_url, is_loopback
from prowess.errors import Invalid
from prowess.settings import read_settings
from prowess.storage.secret_file import SERVER_TOKEN_FILE, read_secret

_MAX_TOKEN_BYTES = 4_096


def find_server(url: str, token: str, token_file: Path | None) -> tuple[str, str]:
    """Return the URL and the token of a server, from the arguments or the settings. The token is '' if there is none.

    The token is, in this order: the one given, the content of the file, PROWESS_TOKEN, and for a server on this machine
    the token that `prowess serve` has put into PROWESS_HOME. Raise `Invalid` without a URL.
    """
    # No client reads the workspace, so a PROWESS_WORKSPACE that does not exist is not an error here.
    settings = read_settings(workspace=".")
    chosen = url or settings.server
    if not chosen:
        raise Invalid("No server given.", hint="Pass its URL with `--server URL`, or set PROWESS_SERVER.")
    host = check_url(chosen).host
    found = token or (_read_token_file(token_file) if token_file is not None else "") or settings.token
    # The token of this machine's server is never sent anywhere else.
    if not found and is_loopback(host):
        found = read_secret(settings.home / SERVER_TOKEN_FILE) or ""
    return chosen, _check_token(found)


def _read_token_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_TOKEN_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        raise Invalid(
            f"The token file {str(path)!r} cannot be read: {error.strerror}.", hint="Give the path of a readable file."
        ) from error


def _check_token(token: str) -> str:
    """Return a token that can be sent in a header. The message of the error does not contain it."""
    if token and (not token.isascii() or not token.isprintable() or " " in token):
        raise Invalid("The token contains characters that no token has.", hint="Check PROWESS_TOKEN or the token file.")
    return token
