"""What looks like a secret of some vendor does not stay, whatever text or value it stands in."""

from __future__ import annotations

import json
import random

import pytest

from prowess.redaction import Redactor

ROUNDS = 5

SINKS = {
    "alone": lambda secret: secret,
    "prose": lambda secret: f"The key was {secret}, and it worked.",
    "quoted": lambda secret: f"call('{secret}')",
    "assigned": lambda secret: f"export SERVICE={secret}\necho done",
    "markdown": lambda secret: f"Use `{secret}` here\n",
    "json": lambda secret: json.dumps({"note": secret, "more": [secret]}),
    "json in json": lambda secret: json.dumps({"note": json.dumps([secret])}),
    "traceback": lambda secret: f'  File "x.py", line 3\n    call("{secret}")\nValueError: {secret}',
}


def secret_part(secret):
    """The last characters of what nobody may read."""
    return secret.partition("@")[0].partition("\n-----END")[0].rstrip("=")[-8:]


def leaks(vendors, sink):
    redactor, chance = Redactor(), random.Random(7)
    found = []
    for kind, make in vendors.items():
        for _ in range(ROUNDS):
            secret = make(chance)
            if secret_part(secret) in redactor.text(SINKS[sink](secret)):
                found.append((kind, secret[:12]))
    return found


@pytest.mark.few(2)
@pytest.mark.parametrize("sink", SINKS)
def test_at_least_ninety_five_of_a_hundred_are_removed_from_every_kind_of_text(vendors, sink):
    assert len(leaks(vendors, sink)) <= 0.05 * len(vendors) * ROUNDS, leaks(vendors, sink)


def test_there_are_at_least_thirty_six_shapes_and_all_are_removed_from_plain_text(vendors):
    assert len(vendors) >= 36
    assert leaks(vendors, "prose") == []


def test_what_replaces_a_secret_says_of_which_kind_it_was(vendors):
    secret = vendors["github-classic"](random.Random(1))
    assert Redactor().text(f"push with {secret}") == "push with [redacted:github]"


def test_the_address_stays_around_the_password_of_a_url():
    text = Redactor().text("see postgresql://ada:tr0ub4dor@db.example/app?x=1")
    assert text == "see postgresql://ada:[redacted:url-password]@db.example/app?x=1"


def test_a_text_is_the_same_after_a_second_pass(vendors):
    redactor, chance = Redactor(["known-value-42"]), random.Random(3)
    for make in vendors.values():
        once = redactor.text(f"password: tr0ub4dor&3x {make(chance)} known-value-42")
        assert redactor.text(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "the class sk-loading-indicator-container",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "postgresql://user:password@host/name",
        "postgresql://user:${PASSWORD}@host/name",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "a task-oriented risk-averse desk-bound clerk",
        "https://example.com/a:b/c@d",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "123e4567-e89b-12d3-a456-426614174000",
        "2026-03-01T09:30:00.000000Z",
    ],
)
def test_what_only_stands_for_a_secret_stays(text):
    assert Redactor().text(text) == text
