"""Which variables of an environment hold secrets."""

from __future__ import annotations

import pytest

from prowess.redaction import find_secrets


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "PGPASSWORD",
        "POSTGRES_PASS",
        "MYAPIKEY",
        "PROWESS_MODEL_KEY",
        "SLACK_WEBHOOK",
        "client_secret",
        "NPM_AUTH",
    ],
)
def test_a_variable_named_so_is_secret(name):
    assert find_secrets({name: "a-value-of-it"}) == {"a-value-of-it"}


@pytest.mark.parametrize(
    "name",
    [
        "HOME",
        "PWD",
        "OLDPWD",
        "SSH_AUTH_SOCK",
        "MAX_TOKENS",
        "TOKEN_LIMIT",
        "SSH_KEY_PATH",
        "PUBLIC_KEY",
        "KEYBOARD",
        "LANG",
    ],
)
def test_a_variable_named_so_is_not(name):
    assert find_secrets({name: "a-value-of-it"}) == frozenset()


def test_the_password_in_a_url_is_secret_and_the_rest_of_it_is_not():
    assert find_secrets({"DATABASE_URL": "postgresql://ada:tr0ub%2Fdor@db/app"}) == {"tr0ub%2Fdor", "tr0ub/dor"}


def test_values_too_short_to_be_told_from_ordinary_text_are_left_out():
    assert (
        find_secrets(
            {"A_TOKEN": "on", "B_TOKEN": " 12345 ", "C_TOKEN": "", "URL": "http://a:b@c", "D": "http://[x:y@z"}
        )
        == frozenset()
    )


def test_what_a_secret_is_made_of_is_secret_too():
    lines = ["-----BEGIN KEY-----", "a" * 30 + "1", "b" * 30 + "2", "-----END KEY-----"]
    assert {lines[1], lines[2]} < find_secrets({"SIGNING_KEY": "\n".join(lines)})
    assert {"first-key-0123456789", "second-key-0123456789"} < find_secrets(
        {"API_KEYS": "first-key-0123456789, second-key-0123456789"}
    )
    account = '{"type": "service_account", "private_key": "inner-0123456789"}'
    assert find_secrets({"GOOGLE_CREDENTIALS": account}) == {account, "inner-0123456789"}
