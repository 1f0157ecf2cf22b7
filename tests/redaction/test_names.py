"""What is named a secret does not stay, and what only speaks of secrets does."""

from __future__ import annotations

import base64
import json

import pytest

from prowess.redaction import Redactor

VALUE = "tR0ub4dor&3x9"


@pytest.mark.parametrize(
    "text",
    [
        "api_key: {}",
        "API-KEY = {}",
        "apiKey='{}'",
        "OPENAI_API_KEY={}",
        'client_secret = "{}"',
        '"password": "{}"',
        "'passwd' => '{}'",
        "db.password={}",
        "token := `{}`",
        "x-api-key: {}",
        "Authorization: Bearer {}abcdef",
        '"Authorization": "Token {}abcdef"',
        "authorization: {}abcdef",
        "curl -u ada:{} https://example.org",
        "mysql --password {}",
        "login --api-key {}",
        "Cookie: session={}; theme=dark",
        "Set-Cookie: sid={}; HttpOnly",
        '{{\\"password\\": \\"{}\\"}}',
    ],
)
def test_its_value_is_removed(text):
    value = VALUE.replace("&", "")
    redacted = Redactor().text(f"first {text.format(value)}\nlast")
    assert value not in redacted
    assert redacted.startswith("first ")
    assert redacted.endswith("\nlast")
    assert "[redacted]" in redacted


@pytest.mark.parametrize(
    "text",
    [
        "Give your api_key: a string from the console.",
        "api_key = os.environ['API_KEY']",
        "token: settings.oauth2.token",
        "password=<your-password>",
        "password: your_password_123",
        "secret: ${CLIENT_SECRET_1}",
        "max_tokens: 128000",
        "token = client.new_token(scope1)",
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer YOUR_ACCESS_TOKEN",
        "A token: the smallest piece of text that a model2 reads.",
        "PublicKeyToken=b03f5f7f11d50a3a",
    ],
)
def test_what_only_speaks_of_it_stays(text):
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "dbPassword",
        "api_key",
        "API-Key",
        "x-api-key",
        "accessToken",
        "client_secret",
        "Authorization",
        "token",
    ],
)
def test_what_stands_under_its_name_in_an_object_is_removed_whatever_it_is(name):
    value = {name: "plain", "nested": {name: ["a", {"b": 7}]}, "empty": {name: ""}, "none": {name: None}}
    assert Redactor().value(value) == {
        name: "[redacted]",
        "nested": {name: ["[redacted]", {"b": "[redacted]"}]},
        "empty": {name: ""},
        "none": {name: None},
    }


@pytest.mark.parametrize(
    "name", ["key", "tokens", "max_tokens", "input_tokens", "passwordless", "tokenizer", "secretary"]
)
def test_other_names_that_sound_alike_hide_nothing(name):
    assert Redactor().value({name: "plain", "n": {name: 5}}) == {name: "plain", "n": {name: 5}}


def test_a_glance_at_json_sees_every_name_that_a_walk_through_it_does():
    for name in ("password", "dbPassword", "API-Key", "accessToken", "client secret", "Cookie", "credentials", "pwd"):
        assert not Redactor().is_clean(json.dumps({name: "plain"}))


@pytest.mark.parametrize(
    "text",
    [
        "sent with Basic {login}",
        "curl -H 'X-Auth: basic {login}' x",
        '{{"header": "Basic {login}"}}',
        "Authorization: Basic YTpi",
        "git clone https://ada:p@ss#9w?x@host/x",
        "redis://:hunter29@cache:6379",
        "//ada:hunter29@host/x",
        "git clone https://x9Z8y7fd5Qp4Lm3Kt@host/x",
    ],
)
def test_logins_are_removed_with_and_without_their_header(text):
    login = base64.b64encode(b"ada:hunter29").decode()
    redacted = Redactor().text(text.format(login=login))
    assert "[redacted" in redacted
    assert not any(part in redacted for part in (login, "YTpi", "hunter29", "ss#9w", "x9Z8y7fd5Qp4Lm3Kt"))


@pytest.mark.parametrize(
    "text",
    [
        "Basic authentication, basic AUTH2 and Basic Understanding",
        "http://host:80?to=a@b and https://host:3000/@fs/x",
        "https://a-long-name-of-a-user@host/x",
    ],
)
def test_what_only_looks_like_a_login_stays(text):
    assert Redactor().text(text) == text
