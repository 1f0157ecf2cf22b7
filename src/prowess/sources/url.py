"""Fetch what a single URL points to: a SKILL.md or another single-file skill, or an archive of skills."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from urllib.parse import unquote, urlsplit

from prowess.errors import Invalid, Problem
from prowess.net.target import parse_target
from prowess.skill.archive import ARCHIVE_SUFFIXES, is_archive, read_archive
from prowess.skill.filenames import SINGLE_FILE_SUFFIXES, is_skill_md
from prowess.skill.limits import Limits
from prowess.skill.package import File, Package
from prowess.sources.download import MAX_SECONDS, Download, RoutedClient, download
from prowess.sources.fetch_context import FetchContext
from prowess.sources.fetched import Fetched, FetchedSkill, SourceState
from prowess.sources.reference import SourceReference
from prowess.storage.clock import now
from prowess.threads import offload

_GITHUB_FILE = re.compile(r"https://(?:www\.)?github\.com/([^/]+)/([^/]+)/(?:blob|raw)/([^?#]+)")
_GITLAB_FILE = re.compile(r"(https://[^/]+/[^?#]+?/-/)blob(/[^?#]+)")
_OPEN_FRONTMATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(?!(?:.*\n)*?---[ \t]*(?:\r?\n|\Z))")
_SUFFIXES = {
    "text/markdown": ".md",
    "text/x-markdown": ".md",
    "application/json": ".json",
    "application/yaml": ".yaml",
    "application/x-yaml": ".yaml",
    "text/yaml": ".yaml",
}
_ACCEPT = (*_SUFFIXES, "application/zip", "application/gzip", "application/*", "text/*")


async def fetch_url(reference: SourceReference, context: FetchContext, last: SourceState | None = None) -> Fetched:
    """Return the skill at a URL, or all skills of the archive there; `unchanged` if it has the same bytes as last time.

    A page of GitHub or GitLab that shows a file stands for the file. Raise what `download` raises, and `Invalid` if the file
    is not a skill.
    """
    address, limits = file_url(reference.url), context.limits
    file = await download(
        RoutedClient(context.client, context.routes),
        address,
        etag=last.etag if last else "",
        max_bytes=min(max(limits.archive_bytes, limits.file_bytes), context.max_bytes),
        seconds=min(context.seconds, MAX_SECONDS),
        accept=_ACCEPT,
    )
    if file.unchanged and last:
        return Fetched(state=replace(last, url=file.url, etag=file.etag, checked_at=now()), unchanged=True)
    state = SourceState(url=file.url, revision=content_revision(file.body), etag=file.etag, checked_at=now())
    warnings = moved_warning(last, state)
    # A new ETag for the same bytes, as after a restart of a server that derives it from the file's date.
    if last and last.revision == state.revision:
        return Fetched(state=state, unchanged=True, warnings=warnings)
    packages = await offload(_read_packages, file, address, limits)
    skills = tuple(
        FetchedSkill(package=package, path=package.name if len(packages) > 1 else "", revision=package.digest)
        for package in packages
    )
    return Fetched(state=state, skills=skills, warnings=warnings)


def file_url(url: str) -> str:
    """Return the URL of the file that a page of GitHub or GitLab shows; any other URL as it is."""
    if found := _GITHUB_FILE.match(url):
        owner, repository, path = found.groups()
        return f"https://raw.githubusercontent.com/{owner}/{repository}/{path}"
    if found := _GITLAB_FILE.match(url):
        return f"{found[1]}raw{found[2]}"
    return url.partition("#")[0]


def content_revision(body: bytes) -> str:
    """Return the revision of a source that is one file: the SHA-256 of its bytes."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def moved_warning(last: SourceState | None, state: SourceState) -> tuple[Problem, ...]:
    """Return a warning if a source is now served by another host: someone else may control it."""
    before, after = (parse_target(url).shown if url else "" for url in (last.url if last else "", state.url))
    if not before or before == after:
        return ()
    return (
        Problem(
            code="source-moved",
            severity="warning",
            message=f"The source is now served by {after}; before, it was served by {before}.",
            hint="Check that both belong to the same people before you accept the skills.",
        ),
    )


def text_file(path: str, body: bytes) -> File:
    """Return a downloaded text file; raise `Invalid` if it is empty, not UTF-8 or cut short, as after a broken transfer."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise Invalid(
            f"{path} is not UTF-8 text (byte {error.start}).", hint="Save it as UTF-8 at its source."
        ) from None
    if not text.strip():
        raise Invalid(f"{path} is empty.", hint="Check the URL.")
    if path.lower().endswith(".md") and _OPEN_FRONTMATTER.match(text):
        raise Invalid(
            f"{path} ends in the middle of its frontmatter.", hint="Try again, or check the file at its source."
        )
    return File(path=path, content=body)


def _read_packages(file: Download, address: str, limits: Limits) -> list[Package]:
    name = _file_name(address) or _file_name(file.url)
    if is_archive(file.body):
        return read_archive(file.body, name or parse_target(address).host, limits)
    suffix = _suffix(name, file)
    if not suffix:
        raise Invalid(
            "The file is not a skill: it is not Markdown, a JSON or YAML package, or an archive.",
            hint="Use the URL of a SKILL.md, a .json or .yaml package, or a .zip or .tar.gz archive.",
        )
    stem = name[: -len(suffix)] if name.lower().endswith(suffix) else name
    # Without its own name, a file is named after its folder, and at the top of a site after the site.
    if not stem or is_skill_md(name):
        stem = _folder_name(address) or parse_target(address).host.replace(".", "-")
    path = name if name.lower().endswith(suffix) else f"{name}{suffix}" if name else f"SKILL{suffix}"
    content = text_file(path, file.body)
    if suffix == ".json":
        _check_json(file.body)
    return [Package.of(stem, [content], limits)]


def _suffix(name: str, file: Download) -> str:
    """Return the suffix that says how to read a file: of its name, else by its content type, else by its first character."""
    lower = name.lower()
    if found := next((suffix for suffix in SINGLE_FILE_SUFFIXES if lower.endswith(suffix)), ""):
        return found
    if lower.endswith(ARCHIVE_SUFFIXES):
        return ""
    if found := _SUFFIXES.get(file.content_type, ""):
        return found
    head = file.body[:64].removeprefix(b"\xef\xbb\xbf").lstrip()
    return ".md" if head.startswith((b"---", b"#")) else ".json" if head.startswith(b"{") else ""


def _check_json(body: bytes) -> None:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        raise Invalid("The file is not valid JSON, or nested too deeply.", hint="Check the URL.") from None


def _file_name(url: str) -> str:
    return unquote(urlsplit(url).path).rpartition("/")[2]


def _folder_name(url: str) -> str:
    return unquote(urlsplit(url).path).rpartition("/")[0].rpartition("/")[2]
