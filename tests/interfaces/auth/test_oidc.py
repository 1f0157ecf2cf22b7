"""People sign in through an OpenID Connect provider, and everything about its answer is checked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc.jwk import ECKey, OctKey
from starlette.testclient import TestClient

from prowess import Prowess
from prowess.errors import Invalid
from prowess.interfaces.auth.oidc import Provider as Client
from prowess.interfaces.auth.oidc import make_provider
from prowess.interfaces.auth.tokens import find_callers, find_session_callers
from prowess.interfaces.server import make_app
from prowess.settings import read_settings

from .conftest import CLIENT_ID, CLIENT_SECRET, Provider

SUBJECT = "248289761001"
URL = "https://testserver"
ANN = {"email": "ann@acme.example", "email_verified": True, "name": "Ann"}


@pytest.fixture
def engine(place: Any) -> Iterator[Prowess]:
    """An engine with the organization acme and its admin ann."""
    opened = place.open()

    async def prepare() -> None:
        await opened.organizations.create("acme")
        await opened.users.add("ann", organization="acme", admin=True)

    asyncio.run(prepare())
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
def browser(engine: Prowess, provider: Provider) -> Callable[..., TestClient]:
    """Return a function that gives another browser of the same server, whose domains may join."""
    apps: dict[tuple[str, ...], Any] = {}

    def make(*domains: str) -> TestClient:
        client = Client(
            issuer=provider.issuer,
            client_id=CLIENT_ID,
            client_secret=CLIENT_SECRET,
            organization="acme",
            public_url=URL,
            domains=domains,
        )
        apps[domains] = apps.get(domains) or make_app(
            engine,
            callers=find_callers(engine),
            cookies=find_session_callers(engine),
            keys=[b"0" * 32],
            public_url=URL,
            provider=client,
        )
        return TestClient(apps[domains], base_url=URL, raise_server_exceptions=False, follow_redirects=False)

    return make


def bind(engine: Prowess, issuer: str, user: str = "ann") -> None:
    asyncio.run(engine.users.bind(user, issuer=issuer, subject=SUBJECT, organization="acme"))


def at_provider(browser: TestClient) -> str:
    """Begin to sign in and confirm it at the provider; return the address to which the provider sends the browser."""
    begun = browser.get("/api/v1/sign-in/oidc")
    assert begun.status_code == 303, begun.text
    return httpx2.get(begun.headers["location"]).headers["location"]


def sign_in(browser: TestClient) -> Any:
    return browser.get(at_provider(browser))


def test_a_bound_account_signs_in(engine: Prowess, provider: Provider, browser: Callable[..., TestClient]) -> None:
    bind(engine, provider.issuer)
    window = browser()

    answer = sign_in(window)

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    cookies = answer.headers.get_list("set-cookie")
    [session] = [one for one in cookies if one.startswith("prowess_session=")]
    assert all(mark in session for mark in ("HttpOnly", "SameSite=strict", "Secure"))
    me = window.get("/api/v1/me").json()
    assert (me["organization_id"], me["user_id"], me["channel"]) == ("acme", "ann", "web")


def test_the_attempt_is_kept_by_the_browser_that_began_it(browser: Callable[..., TestClient]) -> None:
    begun = browser().get("/api/v1/sign-in/oidc")

    [cookie] = begun.headers.get_list("set-cookie")
    assert all(mark in cookie for mark in ("HttpOnly", "SameSite=lax", "Secure", "Path=/api/v1/sign-in/oidc/callback"))
    query = parse_qs(urlsplit(begun.headers["location"]).query)
    assert query["redirect_uri"] == ["https://testserver/api/v1/sign-in/oidc/callback"]
    assert query["code_challenge_method"] == ["S256"]


def refused(answer: Any) -> str:
    """Return why a sign-in was refused; it has not set a cookie."""
    assert answer.status_code == 403, answer.text
    assert not [one for one in answer.headers.get_list("set-cookie") if one.startswith("prowess_session")]
    return answer.json()["detail"]


def test_an_unknown_account_is_refused_with_its_subject(browser: Callable[..., TestClient]) -> None:
    answer = sign_in(browser())

    assert "not a member" in refused(answer)
    assert f"--subject {SUBJECT}" in answer.json()["hint"]


WRONG_CLAIMS = (
    {"nonce": "another"},
    {"nonce": None},
    {"aud": "another"},
    {"aud": [CLIENT_ID, "another"], "azp": "another"},
    {"aud": None},
    {"iss": "https://id.example.com"},
    {"iss": None},
    {"exp": 1_000_000_000},
    {"exp": None},
    {"iat": None},
    {"sub": None},
    {"sub": ""},
    {"nbf": 9_000_000_000},
    {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
)


def test_an_id_token_with_a_wrong_claim_is_refused(
    engine: Prowess, provider: Provider, browser: Callable[..., TestClient]
) -> None:
    bind(engine, provider.issuer)
    for provider.claims in WRONG_CLAIMS:
        assert "id token is not valid" in refused(sign_in(browser())), provider.claims


def test_an_id_token_that_the_provider_did_not_sign_is_refused(
    engine: Prowess, provider: Provider, browser: Callable[..., TestClient]
) -> None:
    bind(engine, provider.issuer)
    others = {name: ECKey.generate_key("P-256", {"kid": name}) for name in ("one", "two")}

    for header, signer in (
        ({"alg": "none"}, None),
        ({"alg": "HS256"}, OctKey.import_key(CLIENT_SECRET)),
        ({"alg": "ES256", "kid": "one"}, others["one"]),
        ({"alg": "ES256", "kid": "two"}, others["two"]),
    ):
        provider.header, provider.signer = header, signer
        assert "id token is not valid" in refused(sign_in(browser())), header


def test_a_provider_that_offers_only_shared_secrets_signs_nobody_in(
    engine: Prowess, provider: Provider, browser: Callable[..., TestClient]
) -> None:
    bind(engine, provider.issuer)
    provider.metadata = {"id_token_signing_alg_values_supported": ["HS256"]}
    # Everyone can read the keys of a provider.
    provider.key = provider.signer = OctKey.import_key(CLIENT_SECRET, {"kid": "one"})
    provider.header = {"alg": "HS256", "kid": "one"}

    assert "id token is not valid" in refused(sign_in(browser()))


def test_a_code_is_used_once(engine: Prowess, provider: Provider, browser: Callable[..., TestClient]) -> None:
    bind(engine, provider.issuer)
    window = browser()
    address = at_provider(window)
    attempt = dict(window.cookies)
    assert window.get(address).status_code == 200

    window.cookies.update(attempt)
    assert "refused the code" in refused(window.get(address))
    assert "did not start" in refused(browser().get(address))
    # Without an attempt of the browser, the provider is not even asked.
    assert len(provider.exchanges) == 2


def test_the_answer_to_another_browser_is_refused(
    engine: Prowess, provider: Provider, browser: Callable[..., TestClient]
) -> None:
    bind(engine, provider.issuer)
    attacker, victim = browser(), browser()
    at_provider(victim)

    # An attacker who makes a victim open this would sign the victim in as the attacker.
    assert "did not start" in refused(victim.get(at_provider(attacker)))


def test_an_answer_that_names_another_provider_or_has_no_code_is_refused(
    browser: Callable[..., TestClient], provider: Provider
) -> None:
    for name, words in (("iss", "a different provider"), ("code", "did not confirm")):
        window = browser()
        address = urlsplit(at_provider(window))
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        query = (
            {**query, "iss": "https://evil.example"}
            if name == "iss"
            else {"state": query["state"], "error": "access_denied"}
        )
        assert words in refused(window.get(address.path, params=query))


def test_a_damaged_attempt_is_refused(browser: Callable[..., TestClient]) -> None:
    begun = browser()
    at_provider(begun)
    began, state, nonce, verifier = begun.cookies["prowess_sign_in"].split(".")
    damaged = (
        "",
        "x",
        "A" * 5_000,
        f"Infinity.{state}.{nonce}.{verifier}",
        f"{'9' * 600}.{state}.{nonce}.{verifier}",
        f"{began}...",
        f"{began}.{state}..{verifier}",
    )
    for cookie in damaged:
        window = browser()
        window.cookies.set("prowess_sign_in", cookie)
        for given in ("", state):
            assert "did not start" in refused(window.get(f"/api/v1/sign-in/oidc/callback?state={given}&code=x"))


def test_a_verified_address_of_an_allowed_domain_joins_as_a_new_user(
    engine: Prowess, provider: Provider, browser: Callable[..., TestClient]
) -> None:
    provider.claims = ANN
    window = browser("acme.example")

    assert sign_in(window).status_code == 200
    # The user ann exists, and her address alone does not make this account hers.
    first = window.get("/api/v1/me").json()
    assert (first["user_id"], "admin" in first["permissions"]) == ("ann-2", False)
    again = browser("acme.example")
    assert sign_in(again).status_code == 200
    assert again.get("/api/v1/me").json()["user_id"] == "ann-2"


def test_the_address_may_come_from_the_user_info_of_the_same_account(
    provider: Provider, browser: Callable[..., TestClient]
) -> None:
    provider.metadata = {"userinfo_endpoint": f"{provider.issuer}/profile"}
    provider.profile = {**ANN, "sub": "another"}
    assert "not a member" in refused(sign_in(browser("acme.example")))

    provider.profile = {**ANN, "sub": SUBJECT}
    assert sign_in(browser("acme.example")).status_code == 200


OTHER_ADDRESSES = (
    {**ANN, "email_verified": False},
    {**ANN, "email_verified": "true"},
    {**ANN, "email_verified": None},
    {**ANN, "email": "ann@evil.example"},
    {**ANN, "email": "ann@acme.example@evil.example"},
    {**ANN, "email": "ann@sub.acme.example"},
    {**ANN, "email": ""},
)


def test_no_other_address_joins(provider: Provider, browser: Callable[..., TestClient]) -> None:
    for provider.claims in OTHER_ADDRESSES:
        assert "not a member" in refused(sign_in(browser("acme.example"))), provider.claims


def test_a_removed_member_does_not_join_again(
    engine: Prowess, provider: Provider, browser: Callable[..., TestClient]
) -> None:
    provider.claims = ANN
    window = browser("acme.example")
    sign_in(window)
    asyncio.run(engine.users.remove("ann-2", organization="acme"))

    assert window.get("/api/v1/me").status_code == 401
    assert "not a member" in refused(sign_in(browser("acme.example")))


def test_the_same_subject_at_another_issuer_is_another_account(
    engine: Prowess, browser: Callable[..., TestClient]
) -> None:
    bind(engine, "https://another.example")

    assert "not a member" in refused(sign_in(browser()))


def test_a_provider_with_another_name_or_unsafe_addresses_is_not_used(
    provider: Provider, browser: Callable[..., TestClient]
) -> None:
    for metadata in (
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://id.example.com/token"},
        {"jwks_uri": "https://[id"},
    ):
        provider.metadata = metadata
        answer = browser().get("/api/v1/sign-in/oidc")
        assert answer.status_code in (422, 503)


def test_a_provider_that_is_away_or_answers_nonsense_gives_a_503(
    browser: Callable[..., TestClient], provider: Provider
) -> None:
    for provider.metadata in (
        {"note": "a" * 2_000_000},
        {"token_endpoint_auth_methods_supported": 5},
        {"issuer": "https://another.example"},
    ):
        assert browser().get("/api/v1/sign-in/oidc").status_code == 503
    provider.issuer = "http://127.0.0.1:9"

    answer = browser().get("/api/v1/sign-in/oidc")

    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)


def test_a_server_without_a_provider_says_so(engine: Prowess) -> None:
    app = make_app(engine, callers=find_callers(engine), keys=[b"0" * 32], hosts=("testserver",))

    assert TestClient(app, base_url=URL).get("/api/v1/sign-in/oidc").status_code == 404


def test_the_settings_must_be_complete_and_safe(place: Any) -> None:
    complete = {
        "PROWESS_OIDC_ISSUER": "https://id.example.com",
        "PROWESS_OIDC_CLIENT_ID": CLIENT_ID,
        "PROWESS_OIDC_CLIENT_SECRET": CLIENT_SECRET,
        "PROWESS_OIDC_ORGANIZATION": "acme",
        "PROWESS_PUBLIC_URL": URL,
        "PROWESS_OIDC_DOMAINS": "acme.example, acme.test",
    }

    def made(**changes: str) -> Client | None:
        return make_provider(read_settings({**place.environment, **complete, **changes}))

    found = made()
    assert found is not None
    assert found.domains == ("acme.example", "acme.test")
    assert CLIENT_SECRET not in repr(read_settings({**place.environment, **complete}))
    assert made(PROWESS_OIDC_ISSUER="") is None
    for name in ("PROWESS_OIDC_CLIENT_ID", "PROWESS_OIDC_ORGANIZATION", "PROWESS_PUBLIC_URL"):
        with pytest.raises(Invalid, match=name):
            made(**{name: ""})
    for name in ("PROWESS_OIDC_ISSUER", "PROWESS_PUBLIC_URL"):
        for url in ("http://id.example.com", "https://[id", "https://id.example.com/#x"):
            with pytest.raises(Invalid, match=name):
                made(**{name: url})
