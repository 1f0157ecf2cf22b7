"""Signatures of skills: ed25519 over the digest of a package, or a Sigstore bundle for it.

A digest identifies the exact files of a package, so one signature over it covers every path, mode and byte. It proves who
published the files, not that they are harmless.

A signature travels as one piece of JSON, which is either a Sigstore bundle or ours:

    {"algorithm": "ed25519", "key": "ed25519:<base64>", "signature": "<base64>"}
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from prowess.errors import Invalid, Refused, Unavailable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PREFIX = "ed25519:"
_KEY_BYTES = 32
_SIGNATURE_BYTES = 64
_MAX_SIGNATURE_BYTES = 64 << 10
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
# The signed text starts with its purpose, so that a signature for something else never counts as one of a skill.
_PURPOSE = b"prowess-skill-v1\n"

SignatureKind = Literal["ed25519", "sigstore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """The signer of a package, after the signature was verified."""

    kind: SignatureKind
    identity: str
    """The public key, or the identity in a Sigstore certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedSigner:
    """The required signer: an ed25519 public key, or an identity with the issuer that confirms it, for Sigstore."""

    identity: str
    issuer: str = ""
    trusted_root: Path | None = None
    """The file with Sigstore's roots of trust; None for those of its public service."""


def generate_private_key() -> str:
    """Return a new private key as text. Keep it in a file that only its owner can read."""
    private = _ed25519().Ed25519PrivateKey.generate()
    return _PREFIX + _encode(private.private_bytes_raw())


def public_key(private_key: str) -> str:
    """Return the public key of a private key as text, such as `ed25519:p2fQ…=`."""
    return _PREFIX + _encode(_read_private(private_key).public_key().public_bytes_raw())


def check_public_key(key: str) -> str:
    """Return a public key in its usual form. Raise `Invalid` for any other text."""
    return _PREFIX + _encode(_decode_key(key))


def sign_bytes(content: bytes, private_key: str) -> str:
    """Return the ed25519 signature over some bytes, as base64. Put their purpose into them."""
    return _encode(_read_private(private_key).sign(content))


def verify_bytes(content: bytes, signature: str, key: str) -> bool:
    """Return True if a signature over some bytes, as base64, was made with the private key of this public key."""
    from cryptography.exceptions import InvalidSignature

    public = _ed25519().Ed25519PublicKey.from_public_bytes(_decode_key(key))
    try:
        public.verify(_decode(signature, _SIGNATURE_BYTES), content)
    except (InvalidSignature, Invalid):
        return False
    return True


def sign(digest: str, private_key: str) -> bytes:
    """Return a signature for the package with this digest."""
    text = {
        "algorithm": "ed25519",
        "key": public_key(private_key),
        "signature": sign_bytes(_message(digest), private_key),
    }
    return json.dumps(text, separators=(",", ":")).encode()


def kind_of(signature: bytes) -> SignatureKind:
    """Return which kind of signature this is. Raise `Invalid` if it is neither."""
    document = _parse(signature)
    if document.get("algorithm") == "ed25519":
        return "ed25519"
    if str(document.get("mediaType", "")).startswith("application/vnd.dev.sigstore.bundle"):
        return "sigstore"
    raise _malformed()


def verify(digest: str, signature: bytes, keys: Collection[str] = ()) -> Signer:
    """Return who signed a package with an ed25519 key; with `keys`, only one of these public keys counts.

    Raise `Refused` if the signature does not match the digest or was made with another key, `Invalid` if it is malformed, and
    `Unavailable` if the package that verifies signatures is not installed. Without `keys` the result only says which key
    signed, not that anyone trusts it.
    """
    document = _parse(signature)
    if kind_of(signature) != "ed25519":
        raise Invalid(
            "This is a Sigstore bundle, not an ed25519 signature.",
            hint="Verify it with the identity of its signer: prowess verify --signer IDENTITY --issuer URL",
        )
    key = check_public_key(str(document.get("key", "")))
    if keys and key not in {check_public_key(trusted_key) for trusted_key in keys}:
        raise Refused(
            f"The package is signed with another key: {key}.",
            hint="Ask its publisher whether the key changed, and verify it through another channel.",
        )
    if not verify_bytes(_message(digest), str(document.get("signature", "")), key):
        raise Refused(
            "The signature does not match the package.",
            hint="The files or the signature were changed after signing. Do not use them.",
        )
    return Signer(kind="ed25519", identity=key)


def verify_signer(digest: str, signature: bytes, expected: ExpectedSigner) -> Signer:
    """Return the signer of a package if it is the expected one.

    Raise `Refused` if it is anyone else, `Invalid` for something malformed, and `Unavailable` without the package that
    verifies the signature.
    """
    if expected.identity.startswith(_PREFIX):
        return verify(digest, signature, [expected.identity])
    if kind_of(signature) == "sigstore":
        return _verify_sigstore(digest, signature, expected)
    raise Refused(
        f"The package is signed with a key, {verify(digest, signature).identity}, not by a Sigstore identity."
    )


def _verify_sigstore(digest: str, bundle: bytes, expected: ExpectedSigner) -> Signer:
    """Verify a Sigstore bundle over the manifest with this digest, without using the network."""
    try:
        from sigstore.errors import Error, VerificationError
        from sigstore.hashes import Hashed
        from sigstore.models import Bundle, ClientTrustConfig, TrustedRoot
        from sigstore.verify import Verifier
        from sigstore.verify.policy import Identity
        from sigstore_models.common.v1 import HashAlgorithm
    except ImportError as error:
        raise Unavailable(
            "The package has a Sigstore bundle, but Sigstore is not installed.",
            hint="Install it: pip install 'prowess[sigstore]'",
        ) from error
    _message(digest)
    file = expected.trusted_root
    try:
        parsed = Bundle.from_json(bundle)
        root = TrustedRoot.from_file(str(file)) if file else ClientTrustConfig.production(offline=True).trusted_root
        verifier = Verifier(trusted_root=root)
    except OSError as error:
        raise Invalid(f"The trusted root {str(file)!r} cannot be read: {error.strerror}.") from error
    except (Error, ValueError, KeyError, TypeError) as error:
        raise Invalid("The Sigstore bundle or the trusted root is malformed.", hint=str(error)) from error
    try:
        # Our digest is the SHA-256 of the canonical manifest, which is the artifact that the bundle signs.
        hashed = Hashed(algorithm=HashAlgorithm.SHA2_256, digest=bytes.fromhex(digest))
        verifier.verify_artifact(hashed, parsed, Identity(identity=expected.identity, issuer=expected.issuer))
    except VerificationError as error:
        raise Refused(f"The Sigstore bundle does not prove who signed the package: {error}") from error
    return Signer(kind="sigstore", identity=expected.identity)


def _message(digest: str) -> bytes:
    if _DIGEST.fullmatch(digest) is None:
        raise Invalid(f"Invalid digest {digest[:80]!r}.", hint="A digest has 64 hexadecimal digits.")
    return _PURPOSE + digest.encode()


def _parse(signature: bytes) -> dict[str, Any]:
    if len(signature) > _MAX_SIGNATURE_BYTES:
        raise _malformed()
    try:
        document: object = json.loads(signature)
    except (ValueError, RecursionError) as error:
        raise _malformed() from error
    if not isinstance(document, dict):
        raise _malformed()
    return cast("dict[str, Any]", document)


def _malformed() -> Invalid:
    return Invalid("The signature is malformed.", hint="Use an ed25519 signature of Prowess, or a Sigstore bundle.")


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _decode(text: str, size: int) -> bytes:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _malformed() from error
    # Two texts for one value would make comparing keys as text unreliable.
    if len(content) != size or _encode(content) != text:
        raise _malformed()
    return content


def _decode_key(key: str) -> bytes:
    try:
        return _decode(key.strip().removeprefix(_PREFIX), _KEY_BYTES)
    except Invalid as error:
        raise Invalid(
            f"Invalid key {key[:24]!r}…", hint="A public key looks like `ed25519:` and 44 characters of base64."
        ) from error


def _read_private(private_key: str) -> Ed25519PrivateKey:
    try:
        seed = _decode(private_key.strip().removeprefix(_PREFIX), _KEY_BYTES)
    except Invalid as error:
        # The text of a private key never appears in a message.
        raise Invalid("The private key is malformed.", hint="Create a new one.") from error
    return _ed25519().Ed25519PrivateKey.from_private_bytes(seed)


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise Unavailable(
            "Signatures cannot be verified: cryptography is not installed.",
            hint="Install it: pip install 'prowess[signing]'",
        ) from error
    return ed25519
