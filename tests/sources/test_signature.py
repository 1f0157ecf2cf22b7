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

from .sigstore_world import SigstoreWorld

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


BUNDLE = b'{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json"}'


def expected(trusted_root: Path | None = None, **changes: str) -> signature.ExpectedSigner:
    given = {"identity": "ann@example.com", "issuer": "https://id.example.com", **changes}
    return signature.ExpectedSigner(**given, trusted_root=trusted_root)


def test_a_sigstore_bundle_is_recognised():
    assert signature.kind_of(BUNDLE) == "sigstore"
    with pytest.raises(Invalid, match="Sigstore bundle"):
        signature.verify(DIGEST, BUNDLE)


def test_a_sigstore_bundle_proves_an_identity_of_an_issuer_and_nothing_else(tmp_path: Path):
    world, other = SigstoreWorld(), SigstoreWorld()
    roots = {"ours": world, "others": other}
    for name, one in roots.items():
        (tmp_path / name).write_text(one.trusted_root())
    bundle = world.sign(DIGEST, identity="ann@example.com", issuer="https://id.example.com")
    ours = tmp_path / "ours"

    assert signature.verify_signer(DIGEST, bundle, expected(ours)).identity == "ann@example.com"
    for digest, wanted in (
        ("b" * 64, expected(ours)),
        (DIGEST, expected(ours, identity="eve@example.com")),
        (DIGEST, expected(ours, issuer="https://other.example.com")),
        (DIGEST, expected(tmp_path / "others")),
        (DIGEST, expected()),  # the public service knows nothing of it
    ):
        with pytest.raises(Refused, match="does not prove"):
            signature.verify_signer(digest, bundle, wanted)


def test_a_key_is_no_sigstore_identity_and_the_other_way_round():
    key = signature.generate_private_key()
    signed = signature.sign(DIGEST, key)

    assert signature.verify_signer(DIGEST, signed, expected(identity=signature.public_key(key))).kind == "ed25519"
    with pytest.raises(Refused, match="not by a Sigstore identity"):
        signature.verify_signer(DIGEST, signed, expected())
    with pytest.raises(Invalid, match="Sigstore bundle"):
        signature.verify_signer(DIGEST, BUNDLE, expected(identity=signature.public_key(key)))


def test_a_malformed_sigstore_bundle_is_reported(tmp_path: Path):
    with pytest.raises(Invalid, match="malformed"):
        signature.verify_signer(DIGEST, BUNDLE, expected(tmp_path / "r"))


def test_without_sigstore_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "sigstore.errors", None)

    with pytest.raises(Unavailable) as raised:
        signature.verify_signer(DIGEST, BUNDLE, expected(tmp_path))
    assert "prowess[sigstore]" in raised.value.hint
