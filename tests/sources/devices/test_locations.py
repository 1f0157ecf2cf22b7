"""What every sync location promises: files by name, and bundles that no device overwrites unseen."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from prowess.errors import Conflict, Invalid, NotFound, ProwessError, TooLarge, Unavailable
from prowess.net.scripted import ScriptedHttpClient
from prowess.sources.devices.folder import FolderLocation
from prowess.sources.devices.location import open_location
from prowess.sources.fetch_context import FetchContext

NAME = "bundles/account.json"


@pytest.mark.few(2)
def test_a_new_location_is_empty(open_device):
    assert open_device("a").read(NAME, 100) is None


def test_what_one_device_stores_another_reads(open_device):
    first = open_device("a")
    first.add("packages/one.zip", b"\x00\xff\r\n")
    first.replace(NAME, b"first", "")
    second = open_device("b")
    assert second.read(NAME, 100).data == b"first"
    assert second.read("packages/one.zip", 100).data == b"\x00\xff\r\n"
    second.add("packages/two.zip", b"two")
    second.replace(NAME, b"second", second.read(NAME, 100).tag)
    third = open_device("a")
    assert third.read(NAME, 100).data == b"second"
    assert (third.read("packages/one.zip", 100).data, third.read("packages/two.zip", 100).data) == (
        b"\x00\xff\r\n",
        b"two",
    )


def test_a_device_that_was_slower_does_not_overwrite(open_device):
    open_device("a").replace(NAME, b"first", "")
    fast, slow = open_device("a"), open_device("b")
    seen_by_fast, seen_by_slow = fast.read(NAME, 100).tag, slow.read(NAME, 100).tag
    fast.replace(NAME, b"fast", seen_by_fast)
    with pytest.raises(Conflict, match="just pushed"):
        slow.replace(NAME, b"slow", seen_by_slow)
    assert open_device("c").read(NAME, 100).data == b"fast"


def test_the_first_push_is_not_repeated_by_a_second_device(open_device):
    fast, slow = open_device("a"), open_device("b")
    assert (fast.read(NAME, 100), slow.read(NAME, 100)) == (None, None)
    fast.replace(NAME, b"fast", "")
    with pytest.raises(Conflict):
        slow.replace(NAME, b"slow", "")


def test_two_bundles_in_one_push(open_device):
    device = open_device("a")
    device.replace("bundles/account.json", b"1", "")
    device.replace("bundles/workspace-x.json", b"2", "")
    again = open_device("b")
    assert (again.read("bundles/account.json", 9).data, again.read("bundles/workspace-x.json", 9).data) == (b"1", b"2")


def test_a_file_over_the_limit_is_not_read(open_device):
    device = open_device("a")
    device.replace(NAME, b"x" * 100, "")
    with pytest.raises(TooLarge):
        open_device("b").read(NAME, 99)


@pytest.mark.parametrize("address", ["git"], indirect=True)
def test_other_files_on_a_branch_stay_as_they_are(open_device, address, tmp_path):
    open_device("a").replace(NAME, b"first", "")
    clone = tmp_path / "clone"

    def git(*arguments: str) -> str:
        author = ("-c", "user.name=ann", "-c", "user.email=ann@localhost", "-c", "core.quotePath=false")
        command = ["git", *author, "-C", str(clone), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    subprocess.run(["git", "clone", "--quiet", "--branch=prowess-sync", address, str(clone)], check=True)
    (clone / "tools/deep/er").mkdir(parents=True)
    (clone / "tools/deep/er/notes.txt").write_text("notes")
    for name in ("run.sh", "bundles/run.sh"):
        (clone / name).write_text("echo")
        (clone / name).chmod(0o755)
    (clone / "ünusual\n name").write_text("x")
    (clone / "link").symlink_to("run.sh")
    git("add", "--all")
    git("commit", "--quiet", "--message=Mine")
    git("push", "--quiet")
    device = open_device("b")
    device.add("packages/one.zip", b"one")
    device.replace(NAME, b"second", device.read(NAME, 100).tag)
    git("fetch", "--quiet")
    changed = git("diff", "--name-status", "HEAD", "origin/prowess-sync").splitlines()
    assert changed == [f"M\t{NAME}", "A\tpackages/one.zip"]


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("", Invalid),
        ("a\nb", Invalid),
        ("ftp://example.com/x", Invalid),
        ("s3://", Invalid),
        ("s3://UPPER/x", Invalid),
        ("s3://bucket/../x?y", Invalid),
        ("https://user:canary@example.com/x.git", Invalid),
        ("https://example.com/skills", Invalid),
        ("ssh://-oProxyCommand=x/y", Invalid),
        ("./no-such-folder", NotFound),
    ],
)
def test_an_address_that_is_no_location_is_refused(address, error, tmp_path):
    with pytest.raises(error) as caught:
        open_location(address, FetchContext(client=ScriptedHttpClient(), cache=tmp_path))
    assert caught.value.hint
    assert "canary" not in caught.value.message


@pytest.mark.parametrize("kind", ["missing repository", "missing bucket", "no server"])
def test_a_location_that_cannot_be_reached_is_an_error_of_ours(kind, tmp_path: Path, request):
    environment = {} if kind == "missing repository" else request.getfixturevalue("bucket_environment")
    if kind == "no server":
        environment = {**environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    address = f"file://{tmp_path}/none.git" if kind == "missing repository" else "s3://no-such-bucket"
    context = FetchContext(client=ScriptedHttpClient(), cache=tmp_path, environment=environment, seconds=5)
    with pytest.raises(ProwessError) as caught:
        open_location(address, context).replace(NAME, b"x", "")
    assert caught.value.hint
    assert "Debug" not in caught.value.message


def test_a_folder_with_a_link_in_place_of_a_file_is_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("canary")
    (tmp_path / "shared/bundles").mkdir(parents=True)
    (tmp_path / "shared" / NAME).symlink_to(secret)
    device = open_location(str(tmp_path / "shared"), FetchContext(client=ScriptedHttpClient(), cache=tmp_path))
    with pytest.raises(ProwessError) as caught:
        device.read(NAME, 100)
    assert "canary" not in caught.value.message


def test_a_pipe_in_place_of_a_file_is_read_as_empty_and_not_waited_for(tmp_path):
    (tmp_path / "bundles").mkdir()
    os.mkfifo(tmp_path / NAME)
    writer = os.open(tmp_path / NAME, os.O_RDWR)
    try:
        assert FolderLocation(tmp_path).read(NAME, 100).data == b""
    finally:
        os.close(writer)


def test_a_folder_that_another_process_has_locked_is_not_waited_for_without_end(tmp_path):
    FolderLocation(tmp_path).replace("account.json", b"first", "")
    with (tmp_path / ".lock").open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = FolderLocation(tmp_path, patience=0)
        with pytest.raises(Unavailable) as raised:
            waiting.replace("account.json", b"second", waiting.read("account.json", 100).tag)
    told = f"The sync location {waiting.shown!r} is locked by another program"
    # Some file systems, such as an overlay, do not say who holds a lock.
    assert raised.value.message in (f"{told} (process {os.getpid()}).", f"{told}.")
    assert waiting.read("account.json", 100).data == b"first"
    waiting.replace("account.json", b"second", waiting.read("account.json", 100).tag)
    assert waiting.read("account.json", 100).data == b"second"
