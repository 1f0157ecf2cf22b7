"""A strict OpenID Connect provider on this machine, which can be told to answer wrongly."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

CLIENT_ID, CLIENT_SECRET = "prowess", "a client secret that only the server and the provider know"
CALLBACK = "https://testserver/api/v1/sign-in/oidc/callback"


class Provider:
    """Accounts, codes and keys of the provider. `claims`, `header` and `signer` alter the next id tokens."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.key = ECKey.generate_key("P-256", {"kid": "one"})
        self.signer: Any = self.key
        self.header: dict[str, Any] = {"alg": "ES256", "kid": "one"}
        self.claims: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.profile: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.exchanges: list[str] = []

    def describe(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "id_token_signing_alg_values_supported": ["ES256", "HS256", "none"],
            **self.metadata,
        }

    def authorize(self, query: dict[str, str]) -> str:
        """Check a request as the specification demands, and return the address to send the browser back to."""
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert query["redirect_uri"] == CALLBACK
        assert "openid" in query["scope"].split()
        assert query["code_challenge_method"] == "S256"
        assert len(query["state"]) >= 32
        assert len(query["nonce"]) >= 32
        code = secrets.token_urlsafe()
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], 'iss': self.issuer})}"

    def exchange(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """Return tokens for a code, once and to its client alone."""
        expected = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        assert authorization == f"Basic {expected}"
        assert form["grant_type"] == "authorization_code"
        asked = self.codes.pop(form["code"], None)
        self.exchanges.append(form["code"])
        if asked is None or form["redirect_uri"] != asked["redirect_uri"]:
            return None
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != asked["code_challenge"]:
            return None
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "sub": "248289761001", "iat": now, "exp": now + 300}
        claims |= {"nonce": asked["nonce"], **self.claims}
        kept = {name: value for name, value in claims.items() if value is not None}
        return {"access_token": "opaque", "token_type": "Bearer", "id_token": self.sign(kept)}

    def sign(self, claims: dict[str, Any]) -> str:
        if self.header["alg"] == "none":
            parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in (self.header, claims))
            return ".".join(part.rstrip("=") for part in parts) + "."
        return jwt.encode(self.header, claims, self.signer, [self.header["alg"]])


@pytest.fixture
def provider() -> Iterator[Provider]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                self.answer(303, None, location=made.authorize(query))
            elif parts.path == "/profile":
                assert self.headers["authorization"] == "Bearer opaque"
                self.answer(200, made.profile)
            elif parts.path == "/keys":
                self.answer(200, {"keys": [made.key.as_dict(private=False)]})
            elif parts.path == "/.well-known/openid-configuration":
                self.answer(200, made.describe())
            else:
                self.answer(404, {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            tokens = made.exchange(form, self.headers["authorization"])
            self.answer(*((200, tokens) if tokens else (400, {"error": "invalid_grant"})))

        def answer(self, status: int, body: dict[str, Any] | None, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode() if body is not None else b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Provider(f"http://127.0.0.1:{server.server_address[1]}")
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        server.shutdown()
