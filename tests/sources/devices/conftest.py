"""Sync locations of every kind, each of them empty: a folder, a bare git repository, and a bucket of a real server."""

from __future__ import annotations

import logging
import subprocess
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prowess.net.scripted import ScriptedHttpClient
from prowess.sources.devices.location import Location, open_location
from prowess.sources.fetch_context import FetchContext


@pytest.fixture(scope="session")
def bucket_service() -> Iterator[str]:
    """The address of a server that speaks S3, on loopback."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket_environment(request: pytest.FixtureRequest) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": request.getfixturevalue("bucket_service"),
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test-secret",
        "AWS_REGION": "us-east-1",
    }


@pytest.fixture(params=["folder", "git", "bucket"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty location."""
    if request.param == "folder":
        folder = tmp_path / "shared folder"
        folder.mkdir()
        return str(folder)
    if request.param == "git":
        repository = tmp_path / "skills.git"
        subprocess.run(["git", "init", "--quiet", "--bare", str(repository)], check=True)
        return f"file://{repository}"
    environment = request.getfixturevalue("bucket_environment")
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    urllib.request.urlopen(urllib.request.Request(f"{environment['AWS_ENDPOINT_URL']}/{name}", method="PUT")).close()
    return f"s3://{name}/my/skills"


@pytest.fixture
def open_device(request: pytest.FixtureRequest, address: str, tmp_path: Path) -> Callable[[str], Location]:
    """Return a function that opens the location as another device does, with its own cache."""
    environment = request.getfixturevalue("bucket_environment") if address.startswith("s3:") else {}

    def opened(device: str) -> Location:
        cache = tmp_path / "caches" / device
        context = FetchContext(client=ScriptedHttpClient(), cache=cache, environment=environment, seconds=60)
        return open_location(address, context)

    return opened
