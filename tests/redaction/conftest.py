"""Secrets of many vendors, made anew for each run, so that none stands in this repository."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

import pytest

LETTERS = string.ascii_letters
ALNUM = LETTERS + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
URL = ALNUM + "-_"
BASE64 = ALNUM + "+/"

Vendors = dict[str, Callable[[random.Random], str]]


def _of(alphabet: str, length: int, *, before: str = "", after: str = "") -> Callable[[random.Random], str]:
    # Letters and digits at the ends: a token that ends in a dash is not told from the dash that follows it.
    def make(chance: random.Random) -> str:
        ends = "".join(set(alphabet) & set(ALNUM))
        body = "".join(chance.choice(alphabet) for _ in range(length - 2))
        return before + chance.choice(sorted(ends)) + body + chance.choice(sorted(ends)) + after

    return make


def _joined(*parts: Callable[[random.Random], str]) -> Callable[[random.Random], str]:
    return lambda chance: "".join(part(chance) for part in parts)


def _pem(kind: str) -> Callable[[random.Random], str]:
    def make(chance: random.Random) -> str:
        lines = "\n".join("".join(chance.choice(BASE64) for _ in range(64)) for _ in range(12))
        return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"

    return make


@pytest.fixture(scope="session")
def vendors() -> Vendors:
    """For each kind of secret, what makes one."""
    return {
        "openai": _of(URL, 48, before="sk-proj-"),
        "openai-old": _of(ALNUM, 48, before="sk-"),
        "anthropic": _of(URL, 95, before="sk-ant-api03-"),
        "openrouter": _of(HEX, 64, before="sk-or-v1-"),
        "github-classic": _of(ALNUM, 36, before="ghp_"),
        "github-oauth": _of(ALNUM, 36, before="gho_"),
        "github-server": _of(ALNUM, 36, before="ghs_"),
        "github-fine": _joined(_of(ALNUM, 22, before="github_pat_"), _of(ALNUM, 59, before="_")),
        "gitlab": _of(URL, 20, before="glpat-"),
        "aws-key": _of(UPPER, 16, before="AKIA"),
        "aws-session": _of(UPPER, 16, before="ASIA"),
        "slack-bot": _joined(_of(string.digits, 12, before="xoxb-"), _of(ALNUM, 24, before="-")),
        "slack-user": _joined(_of(string.digits, 12, before="xoxp-"), _of(HEX, 32, before="-")),
        "slack-webhook": _joined(
            _of(UPPER, 9, before="https://hooks.slack.com/services/T"),
            _of(UPPER, 9, before="/B"),
            _of(ALNUM, 24, before="/"),
        ),
        "google": _of(URL, 35, before="AIza"),
        "google-oauth": _of(URL, 120, before="ya29."),
        "google-client": _of(URL, 28, before="GOCSPX-"),
        "jwt": _joined(_of(URL, 33, before="eyJ"), _of(URL, 60, before=".eyJ"), _of(URL, 43, before=".")),
        "rsa-key": _pem("RSA "),
        "openssh-key": _pem("OPENSSH "),
        "stripe": _of(ALNUM, 24, before="sk_live_"),
        "stripe-restricted": _of(ALNUM, 24, before="rk_live_"),
        "npm": _of(ALNUM, 36, before="npm_"),
        "pypi": _of(URL, 160, before="pypi-AgEIcHlwaS5vcmc"),
        "huggingface": _of(ALNUM, 34, before="hf_"),
        "digitalocean": _of(HEX, 64, before="dop_v1_"),
        "sendgrid": _joined(_of(URL, 22, before="SG."), _of(URL, 43, before=".")),
        "twilio": _of(HEX, 32, before="SK"),
        "mailgun": _of(HEX, 32, before="key-"),
        "mailchimp": _of(HEX, 32, after="-us14"),
        "square": _of(URL, 43, before="sq0csp-"),
        "shopify": _of(HEX, 32, before="shpat_"),
        "telegram": _joined(_of(string.digits, 10), _of(URL, 34, before=":A")),
        "discord": _joined(_of(ALNUM, 23, before="M"), _of(ALNUM, 6, before="."), _of(URL, 38, before=".")),
        "linear": _of(ALNUM, 40, before="lin_api_"),
        "notion": _of(ALNUM, 46, before="ntn_"),
        "databricks": _of(HEX, 32, before="dapi"),
        "vault": _of(URL, 90, before="hvs."),
        "terraform": _joined(_of(ALNUM, 14), _of(ALNUM, 67, before=".atlasv1.")),
        "postman": _joined(_of(HEX, 24, before="PMAK-"), _of(HEX, 34, before="-")),
        "docker": _of(URL, 27, before="dckr_pat_"),
        "grafana": _joined(_of(ALNUM, 32, before="glsa_"), _of(HEX, 8, before="_")),
        "prowess": _of(URL, 43, before="prw_"),
        "groq": _of(ALNUM, 52, before="gsk_"),
        "airtable": _joined(_of(ALNUM, 14, before="pat"), _of(HEX, 64, before=".")),
        "azure-storage": _of(BASE64, 86, before="AccountKey=", after="=="),
        "database-url": _of(ALNUM, 14, before="postgresql://ada:", after="@db.internal:5432/app"),
        "bearer": _of(URL, 40, before="Authorization: Bearer "),
        "basic": _of(BASE64, 24, before="Authorization: Basic "),
    }
