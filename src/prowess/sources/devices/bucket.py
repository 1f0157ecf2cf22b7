"""A bucket of an S3-compatible service as a sync location. Needs the extra `devices`."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from prowess.errors import Invalid, NotFound, ProwessError, Refused, TooLarge, TryLater, Unavailable
from prowess.net.target import parse_target
from prowess.sources.devices.location import StoredFile, changed_meanwhile
from prowess.sources.fetch_context import FetchContext

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Store

_ADDRESS = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([A-Za-z0-9._/-]*))?", re.ASCII)
_MAX_RETRIES = 2


class BucketLocation:
    """Keeps files in a bucket. Address, region and credentials come from the usual `AWS_…` variables.

    The service must support conditional writes (`If-Match`), as Amazon S3, Cloudflare R2 and MinIO do: they are what keeps two
    devices that push at once from overwriting each other.
    """

    def __init__(self, address: str, context: FetchContext) -> None:
        found = _ADDRESS.fullmatch(address)
        if found is None:
            raise Invalid(
                f"{address[:200]!r} is not the address of a bucket.", hint="Use s3://BUCKET or s3://BUCKET/PREFIX."
            )
        bucket, prefix = found[1], (found[2] or "").strip("/")
        self.shown = f"s3://{bucket}/{prefix}".rstrip("/")
        self._store = _open_store(bucket, prefix, context)

    def read(self, name: str, max_bytes: int) -> StoredFile | None:
        """Return a file, or None."""
        with self._errors():
            try:
                found = self._store.get(name)
            except FileNotFoundError:
                return None
            if found.meta["size"] > max_bytes:
                raise TooLarge(f"{name} in {self.shown} exceeds the limit of {max_bytes:,} bytes.", hint="Remove it.")
            return StoredFile(data=bytes(found.bytes()), tag=found.meta["e_tag"] or "")

    def add(self, name: str, data: bytes) -> None:
        """Store a file."""
        with self._errors():
            self._store.put(name, data)

    def replace(self, name: str, data: bytes, tag: str) -> None:
        """Store a file, replacing the one with this tag, by a conditional write."""
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._errors():
            try:
                self._store.put(name, data, mode={"e_tag": tag} if tag else "create")
            except (AlreadyExistsError, PreconditionError):
                raise changed_meanwhile(self.shown) from None

    @contextmanager
    def _errors(self) -> Generator[None]:
        """Turn the errors of the client into ours. Its messages contain whole responses, so they are not shown."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except ProwessError:
            raise
        except (PermissionDeniedError, UnauthenticatedError):
            raise Refused(
                f"No access to {self.shown}.",
                hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and check their permissions.",
            ) from None
        except FileNotFoundError:
            raise NotFound(
                f"The bucket of {self.shown} does not exist.", hint="Create it, or check its name."
            ) from None
        except (BaseError, OSError) as error:
            if "NoSuchBucket" in str(error):
                raise NotFound(f"The bucket of {self.shown} does not exist.", hint="Create it.") from None
            raise TryLater(
                f"{self.shown} cannot be reached ({type(error).__name__}).",
                hint="Check AWS_ENDPOINT_URL and the network, then try again.",
            ) from None


def _open_store(bucket: str, prefix: str, context: FetchContext) -> S3Store:
    try:
        from obstore.store import S3Store
    except ImportError:
        raise Unavailable("Buckets need an extra.", hint="Run `pip install 'prowess[devices]'`.") from None
    environment = context.environment
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
    config: S3Config = {"region": environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"}
    if endpoint:
        config["endpoint"] = endpoint
    if key := environment.get("AWS_ACCESS_KEY_ID"):
        config["access_key_id"] = key
        config["secret_access_key"] = environment.get("AWS_SECRET_ACCESS_KEY", "")
    if token := environment.get("AWS_SESSION_TOKEN"):
        config["session_token"] = token
    seconds = timedelta(seconds=context.seconds)
    return S3Store(
        bucket,
        prefix=prefix or None,
        config=config,
        # A person sets the endpoint, so it may be on this machine and unencrypted.
        client_options={"allow_http": bool(endpoint) and parse_target(endpoint).scheme == "http", "timeout": seconds},
        retry_config={"max_retries": _MAX_RETRIES, "retry_timeout": seconds},
    )
