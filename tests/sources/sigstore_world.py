"""A Sigstore of our own, without a network: an authority, two logs, and bundles that the real verifier accepts."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
LOG = "log.example.com"
_ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_TIMESTAMPS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class _Key:
    def __init__(self) -> None:
        self.private = ec.generate_private_key(ec.SECP256R1())
        self.public = self.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.id = hashlib.sha256(self.public).digest()

    def sign(self, content: bytes) -> bytes:
        return self.private.sign(content, ec.ECDSA(hashes.SHA256()))

    def as_log(self) -> dict[str, Any]:
        key = {
            "rawBytes": _text(self.public),
            "keyDetails": "PKIX_ECDSA_P256_SHA_256",
            "validFor": {"start": _date(BEGAN)},
        }
        return {
            "baseUrl": f"https://{LOG}",
            "hashAlgorithm": "SHA2_256",
            "publicKey": key,
            "logId": {"keyId": _text(self.id)},
        }


def _date(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class SigstoreWorld:
    """Issues certificates for identities, and records signatures."""

    def __init__(self) -> None:
        self._authority, self._certificates, self._signatures = _Key(), _Key(), _Key()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self._root = self._issue(
            name,
            self._authority,
            (x509.BasicConstraints(ca=True, path_length=0), True),
            (_usage(key_cert_sign=True), True),
            days=3650,
            name=name,
        )

    def trusted_root(self) -> str:
        """Return the file with the roots of trust."""
        authority = {
            "subject": {"organization": "example", "commonName": "authority"},
            "uri": "https://authority.example.com",
            "certChain": {"certificates": [{"rawBytes": _text(self._root.public_bytes(Encoding.DER))}]},
            "validFor": {"start": _date(BEGAN)},
        }
        return json.dumps(
            {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [self._signatures.as_log()],
                "certificateAuthorities": [authority],
                "ctlogs": [self._certificates.as_log()],
                "timestampAuthorities": [],
            }
        )

    def sign(self, digest: str, *, identity: str, issuer: str) -> bytes:
        """Return a bundle with which an identity signs the artifact of this SHA-256."""
        key, moment = _Key(), BEGAN + timedelta(days=30)
        certificate = self._certify(key, identity, issuer, moment)
        signed = key.private.sign(bytes.fromhex(digest), ec.ECDSA(Prehashed(hashes.SHA256())))
        body = _canonical(
            {
                "apiVersion": "0.0.1",
                "kind": "hashedrekord",
                "spec": {
                    "data": {"hash": {"algorithm": "sha256", "value": digest}},
                    "signature": {
                        "content": _text(signed),
                        "publicKey": {"content": _text(certificate.public_bytes(Encoding.PEM))},
                    },
                },
            }
        )
        recorded = {
            "body": _text(body),
            "integratedTime": int(moment.timestamp()),
            "logID": self._signatures.id.hex(),
            "logIndex": 0,
        }
        # The tree of the log has one leaf, so its hash is the root.
        root = hashlib.sha256(b"\0" + body).digest()
        note = f"{LOG} - 1\n1\n{_text(root)}\n"
        signature = _text(self._signatures.id[:4] + self._signatures.sign(note.encode()))
        entry = {
            "logIndex": "0",
            "logId": {"keyId": _text(self._signatures.id)},
            "kindVersion": {"kind": "hashedrekord", "version": "0.0.1"},
            "integratedTime": str(recorded["integratedTime"]),
            "inclusionPromise": {"signedEntryTimestamp": _text(self._signatures.sign(_canonical(recorded)))},
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": _text(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n\u2014 {LOG} {signature}\n"},
            },
            "canonicalizedBody": _text(body),
        }
        return json.dumps(
            {
                "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
                "verificationMaterial": {
                    "certificate": {"rawBytes": _text(certificate.public_bytes(Encoding.DER))},
                    "tlogEntries": [entry],
                },
                "messageSignature": {
                    "messageDigest": {"algorithm": "SHA2_256", "digest": _text(bytes.fromhex(digest))},
                    "signature": _text(signed),
                },
            }
        ).encode()

    def _certify(self, key: _Key, identity: str, issuer: str, moment: datetime) -> x509.Certificate:
        """Issue a certificate for ten minutes, with proof that it is in the log of certificates."""
        serial = x509.random_serial_number()
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (_usage(digital_signature=True), True),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), False),
            (x509.SubjectAlternativeName([x509.RFC822Name(identity)]), True),
            (x509.UnrecognizedExtension(_ISSUER, issuer.encode()), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(self._authority.private.public_key()), False),
        ]

        def issue(*more: tuple[x509.ExtensionType, bool]) -> x509.Certificate:
            return self._issue(
                x509.Name([]), key, *extensions, *more, began=moment, minutes=10, serial=serial, name=self._root.subject
            )

        milliseconds = int(moment.timestamp() * 1000).to_bytes(8, "big")
        unlogged = issue().tbs_certificate_bytes
        entry = (
            b"\0\0"
            + milliseconds
            + b"\0\1"
            + self._authority.id
            + len(unlogged).to_bytes(3, "big")
            + unlogged
            + b"\0\0"
        )
        signature = self._certificates.sign(entry)
        timestamp = b"\0" + self._certificates.id + milliseconds + b"\0\0" + b"\4\3" + _sized(signature)
        listed = _sized(_sized(timestamp))
        return issue((x509.UnrecognizedExtension(_TIMESTAMPS, b"\x04" + bytes([len(listed)]) + listed), False))

    def _issue(
        self,
        subject: x509.Name,
        key: _Key,
        *extensions: tuple[x509.ExtensionType, bool],
        name: x509.Name,
        began: datetime = BEGAN,
        days: int = 0,
        minutes: int = 0,
        serial: int = 1,
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(name)
            .public_key(key.private.public_key())
            .serial_number(serial)
            .not_valid_before(began)
            .not_valid_after(began + timedelta(days=days, minutes=minutes))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.private.public_key()), critical=False)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self._authority.private, hashes.SHA256())


def _sized(content: bytes) -> bytes:
    return len(content).to_bytes(2, "big") + content


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
