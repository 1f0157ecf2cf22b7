"""Signatures prove which key signed exactly the files of a package."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid, Refused, Unavailable
from prowess.skill.package import Package
from prowess.sources import signature

PRIVATE = signature.generate_private_key()
PUBLIC = signature.public_key(PRIVATE)
DIGEST = Package.of_texts("greet", {"SKILL.md": "---\nname: greet\ndescription: Greets.\n---\n"}).digest
SIGNED = signature.sign(DIGEST, PRIVATE)


def test_a_signature_names_the_key_that_made_it():
    signer = signature.verify(DIGEST, SIGNED, [PUBLIC])

    assert (signer.kind, signer.identity) == ("ed25519", PUBLIC)


def test_without_keys_the_signature_only_says_who_signed():
    assert signature.verify(DIGEST, SIGNED).identity == PUBLIC


def test_a_signature_for_another_digest_is_refused():
    with pytest.raises(Refused, match="does not match"):
        signature.verify("0" * 64, SIGNED, [PUBLIC])


def test_another_key_is_refused_even_if_its_signature_is_valid():
    other = signature.generate_private_key()

    with pytest.raises(Refused, match="another key"):
        signature.verify(DIGEST, signature.sign(DIGEST, other), [PUBLIC])


def test_a_trusted_key_with_the_signature_of_another_one_is_refused():
    stolen = {**json.loads(signature.sign(DIGEST, signature.generate_private_key())), "key": PUBLIC}

    with pytest.raises(Refused, match="does not match"):
        signature.verify(DIGEST, json.dumps(stolen).encode(), [PUBLIC])


@given(position=st.integers(0, len(SIGNED) - 1), byte=st.integers(0, 255))
def test_no_changed_byte_of_a_signature_names_another_signer(position: int, byte: int):
    changed = SIGNED[:position] + bytes([byte]) + SIGNED[position + 1 :]

    try:
        signer = signature.verify(DIGEST, changed, [PUBLIC])
    except (Invalid, Refused):
        return
    assert signer.identity == PUBLIC


@given(st.binary(max_size=200))
def test_other_bytes_are_malformed_or_refused(content: bytes):
    with pytest.raises((Invalid, Refused)):
        signature.verify(DIGEST, content)


@pytest.mark.parametrize(
    "key",
    ["", "ed25519:", "ed25519:AAAA", "rsa:" + "A" * 44, PUBLIC[:-2], PUBLIC + "="],
    ids=["empty", "nothing", "short", "rsa", "cut", "padded"],  # the key differs in each process that collects tests
)
def test_a_malformed_key_is_reported(key: str):
    with pytest.raises(Invalid, match="Invalid key"):
        signature.check_public_key(key)


def test_a_message_about_a_private_key_does_not_show_it():
    with pytest.raises(Invalid) as raised:
        signature.public_key("ed25519:secret-text")

    assert "secret-text" not in raised.value.message + raised.value.hint


def test_a_sigstore_bundle_is_recognised():
    bundle = b'{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json"}'

    assert signature.kind_of(bundle) == "sigstore"
    with pytest.raises(Invalid, match="Sigstore bundle"):
        signature.verify(DIGEST, bundle)


def test_a_malformed_sigstore_bundle_is_reported(tmp_path: Path):
    with pytest.raises(Invalid, match="malformed"):
        signature.verify_sigstore(
            DIGEST, b"{}", identity="a@example.com", issuer="https://x", trusted_root=tmp_path / "r"
        )


def test_without_sigstore_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "sigstore.errors", None)

    with pytest.raises(Unavailable) as raised:
        signature.verify_sigstore(DIGEST, b"{}", identity="a@example.com", issuer="https://x", trusted_root=tmp_path)
    assert "prowess[sigstore]" in raised.value.hint
