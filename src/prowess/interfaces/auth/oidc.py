"""Sign in through an OpenID Connect provider: the authorization code flow with PKCE (extra `oidc`).

`begin` gives the address at the provider and an attempt, which the browser keeps in a cookie. `finish` checks that the
answer belongs to the attempt of the same browser, exchanges the code, and verifies the id token: signature, issuer,
audience, expiry and nonce. Everything else about the answer is ignored.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from prowess.errors import Invalid, Refused, TryLater, Unavailable
from prowess.net.addresses import is_loopback
from prowess.net.target import parse_target
from prowess.policy.sign_in import Account

if TYPE_CHECKING:
    import ssl

    from prowess.settings import Settings

CALLBACK_PATH = "/api/v1/sign-in/oidc/callback"
ATTEMPT_SECONDS = 600
_SECONDS = 10.0
_CACHE_SECONDS = 3_600.0
_LEEWAY_SECONDS = 60
_SCOPE = "openid email profile"
_MAX_ANSWER_BYTES = 1 << 20
# Only what `begin` makes: an attempt without a nonce would be checked for none.
_ATTEMPT = re.compile(
    r"(?P<began>[0-9]{1,12})\.(?P<state>[\w-]{43})\.(?P<nonce>[\w-]{43})\.(?P<verifier>[\w-]{64})", re.ASCII
)
# Keys of the provider verify these, whatever else it offers. An algorithm with a shared secret would let everyone who
# knows the secret sign.
_ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"}
)
_INSTALL_HINT = "Install it: pip install 'prowess[server,oidc]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt to sign in, which the browser keeps until the provider sends it back. None of it is a secret to it."""

    state: str
    nonce: str
    verifier: str
    began: int

    def as_cookie(self) -> str:
        """Return the attempt as the value of a cookie."""
        return f"{self.began}.{self.state}.{self.nonce}.{self.verifier}"


def read_attempt(cookie: str) -> Attempt | None:
    """Return the attempt in a cookie; None if it is malformed or too old."""
    found = _ATTEMPT.fullmatch(cookie)
    if found is None or not 0 <= time.time() - int(found["began"]) <= ATTEMPT_SECONDS:
        return None
    return Attempt(state=found["state"], nonce=found["nonce"], verifier=found["verifier"], began=int(found["began"]))


class Provider:
    """One provider, and the organization whose members sign in through it."""

    def __init__(
        self,
        *,
        issuer: str,
        client_id: str,
        client_secret: str,
        organization: str,
        public_url: str,
        domains: tuple[str, ...] = (),
    ) -> None:
        if any(find_spec(name) is None for name in ("authlib", "httpx2", "joserfc")):
            raise Unavailable("Signing in through a provider is not installed.", hint=_INSTALL_HINT)
        _check_url(issuer, "PROWESS_OIDC_ISSUER")
        _check_url(public_url, "PROWESS_PUBLIC_URL")
        self.issuer = issuer
        self.organization = organization
        self.domains = domains
        self._client_id = client_id
        self._client_secret = client_secret
        # From the settings and never from a request: a foreign Host header would send the code elsewhere.
        self._redirect_uri = public_url.rstrip("/") + CALLBACK_PATH
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, dict[str, Any]] | None = None

    async def begin(self) -> tuple[str, Attempt]:
        """Return the address at the provider where the person signs in, and the attempt for the browser to keep.

        Raise `TryLater` if the provider does not answer.
        """
        metadata = await self._read_metadata()
        attempt = Attempt(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            began=int(time.time()),
        )
        async with self._client(metadata) as client:
            url, _ = client.create_authorization_url(
                metadata["authorization_endpoint"],
                state=attempt.state,
                nonce=attempt.nonce,
                code_verifier=attempt.verifier,
            )
        return url, attempt

    async def finish(self, answer: Mapping[str, str], attempt: Attempt | None) -> Account:
        """Return the account that the provider has verified. `answer` is the query of the callback.

        Raise `Refused` if the answer is not one to the attempt or does not hold, and `TryLater` if the provider does not
        answer.
        """
        if attempt is None or not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
            raise _refused("This browser did not start the sign-in, or took too long.")
        # A provider that names itself in the answer must be the one that was asked.
        if answer.get("iss", self.issuer) != self.issuer:
            raise _refused("The answer comes from a different provider.")
        code = answer.get("code", "")
        if not code:
            raise _refused("The provider did not confirm who you are.")
        metadata = await self._read_metadata()
        token = await self._exchange(metadata, code, attempt)
        claims = await self._verify(metadata, token, attempt.nonce)
        if self.domains and "email" not in claims:
            claims = {**await self._read_profile(metadata, token, claims["sub"]), **claims}
        return Account(
            issuer=self.issuer,
            subject=str(claims["sub"]),
            email=str(claims.get("email") or ""),
            # Some providers send the text "true", which is not proof enough.
            email_verified=claims.get("email_verified") is True,
            name=str(claims.get("name") or ""),
        )

    def _client(self, metadata: Mapping[str, Any]) -> Any:
        # Any, because Authlib has no types.
        from authlib.integrations.httpx_client import AsyncOAuth2Client

        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        method = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        return AsyncOAuth2Client(
            client_id=self._client_id,
            client_secret=self._client_secret,
            token_endpoint_auth_method=method if self._client_secret else "none",
            scope=_SCOPE,
            redirect_uri=self._redirect_uri,
            code_challenge_method="S256",
            timeout=_SECONDS,
            follow_redirects=False,
            verify=_default_tls(),
        )

    async def _exchange(self, metadata: Mapping[str, Any], code: str, attempt: Attempt) -> dict[str, Any]:
        import httpx2
        from authlib.common.errors import AuthlibBaseError

        try:
            async with asyncio.timeout(_SECONDS), self._client(metadata) as client:
                found = await client.fetch_token(
                    metadata["token_endpoint"],
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=attempt.verifier,
                )
        except (httpx2.HTTPError, TimeoutError) as error:
            raise _unreachable(self.issuer) from error
        except (AuthlibBaseError, ValueError) as error:
            # The provider refuses a code that was used before, is too old, or belongs to another attempt.
            raise _refused("The provider refused the code.") from error
        if not isinstance(found.get("id_token"), str):
            raise _refused("The provider sent no id token.")
        return dict(found)

    async def _verify(self, metadata: Mapping[str, Any], token: Mapping[str, Any], nonce: str) -> Mapping[str, Any]:
        """Return the claims of an id token; raise `Refused` unless everything about it holds."""
        from authlib.common.errors import AuthlibBaseError
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError
        from joserfc.jwk import KeySet

        text = str(token["id_token"])
        try:
            try:
                found = jwt.decode(
                    text, KeySet.import_key_set(cast("Any", await self._read_keys(metadata))), _ALGORITHMS
                )
            except InvalidKeyIdError:
                # The provider has new keys.
                keys = await self._read_keys(metadata, again=True)
                found = jwt.decode(text, KeySet.import_key_set(cast("Any", keys)), _ALGORITHMS)
            expected = {
                "iss": {"essential": True, "value": self.issuer},
                "aud": {"essential": True, "value": self._client_id},
                "sub": {"essential": True},
            }
            params = {"nonce": nonce, "client_id": self._client_id, "access_token": token.get("access_token")}
            claims: Any = CodeIDToken(found.claims, found.header, expected, params)
            claims.validate(leeway=_LEEWAY_SECONDS)
        except (AuthlibBaseError, JoseError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise _refused("The provider's id token is not valid.") from error
        return dict(claims)

    async def _read_profile(
        self, metadata: Mapping[str, Any], token: Mapping[str, Any], subject: str
    ) -> dict[str, Any]:
        """Return what the provider says about an account besides its id token; nothing if it says nothing."""
        url = str(metadata.get("userinfo_endpoint") or "")
        if not url:
            return {}
        _check_url(url, "userinfo_endpoint")
        found = await self._get(url, {"authorization": f"Bearer {token.get('access_token')}"})
        # The answer is not signed; one about another account must not be mixed with this one.
        return found if found.get("sub") == subject else {}

    async def _read_metadata(self) -> dict[str, Any]:
        if self._metadata is None or time.monotonic() - self._metadata[0] > _CACHE_SECONDS:
            found = await self._get(self.issuer.rstrip("/") + "/.well-known/openid-configuration")
            if found.get("issuer") != self.issuer:
                raise Unavailable(
                    f"The provider at {self.issuer} calls itself {str(found.get('issuer'))[:80]!r}.",
                    hint="Set PROWESS_OIDC_ISSUER to exactly that name.",
                )
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                _check_url(str(found.get(name) or ""), name)
            if not isinstance(found.get("token_endpoint_auth_methods_supported", []), list):
                raise _unreachable(self.issuer)
            self._metadata = (time.monotonic(), found)
        return self._metadata[1]

    async def _read_keys(self, metadata: Mapping[str, Any], *, again: bool = False) -> dict[str, Any]:
        age = time.monotonic() - self._keys[0] if self._keys else _CACHE_SECONDS + 1
        # Unknown keys are looked up again at most every ten seconds, so that forged tokens cause no flood of requests.
        if self._keys is None or age > (10.0 if again else _CACHE_SECONDS):
            self._keys = (time.monotonic(), await self._get(str(metadata["jwks_uri"])))
        return self._keys[1]

    async def _get(self, url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        import httpx2

        body = bytearray()
        try:
            # The limit of the client is for each read, and a slow provider could hold a request for hours.
            async with (
                asyncio.timeout(_SECONDS),
                httpx2.AsyncClient(timeout=_SECONDS, follow_redirects=False, verify=_default_tls()) as client,
                client.stream("GET", url, headers=headers) as response,
            ):
                response.raise_for_status()
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > _MAX_ANSWER_BYTES:
                        raise _unreachable(self.issuer)
            found = json.loads(body)
        except (httpx2.HTTPError, TimeoutError, ValueError, RecursionError) as error:
            raise _unreachable(self.issuer) from error
        if not isinstance(found, dict):
            raise _unreachable(self.issuer)
        return cast("dict[str, Any]", found)


def make_provider(settings: Settings) -> Provider | None:
    """Return the provider of the settings, or None if there is none. Raise `Invalid` if a setting is missing."""
    if not settings.oidc_issuer:
        return None
    needed = {
        "PROWESS_OIDC_CLIENT_ID": settings.oidc_client_id,
        "PROWESS_OIDC_ORGANIZATION": settings.oidc_organization,
        "PROWESS_PUBLIC_URL": settings.public_url,
    }
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise Invalid(
            f"PROWESS_OIDC_ISSUER is set, but {missing[0]} is not.", hint=f"Set {missing[0]}, or unset the issuer."
        )
    return Provider(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        organization=settings.oidc_organization,
        public_url=settings.public_url,
        domains=settings.oidc_domains,
    )


def _check_url(url: str, name: str) -> None:
    """Raise `Invalid` unless a URL is safe to send secrets to: https, or on this machine."""
    with suppress(Invalid):
        target = parse_target(url)
        if "#" not in url and (target.scheme == "https" or is_loopback(target.host)):
            return
    raise Invalid(f"Invalid URL {url[:80]!r} in {name}.", hint="Use an address that starts with https://.")


@cache
def _default_tls() -> ssl.SSLContext:
    """Return the default TLS context, shared because loading the certificates is slow."""
    import httpx2

    return httpx2.create_ssl_context()


def _refused(reason: str) -> Refused:
    return Refused(f"Sign-in failed. {reason}", hint="Start again at /api/v1/sign-in/oidc.")


def _unreachable(issuer: str) -> TryLater:
    return TryLater(f"The provider {issuer} does not answer as expected.", hint="Try again in a moment.")
