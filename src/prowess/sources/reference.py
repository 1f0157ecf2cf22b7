"""Source strings: what a person pastes to name a place with skills, read as the skills CLI (npm `skills`) reads it.

    owner/repo[/path][@skill][#ref[@skill]]     github:owner/repo     gitlab:group/project
    https://github.com/owner/repo[/tree/ref[/path]]                   https://host/group/project/-/tree/ref[/path]
    git@host:path.git · ssh://git@host/path.git · https://host/path.git
    https://example.com                         a site with a well-known index
    https://example.com/SKILL.md · …/skill.zip  a file or an archive
    ./folder · /folder · ./skill.zip            on this machine

It differs from the CLI where the CLI reads something that cannot work or that the text does not say:

- `github.com` counts only as the host. The CLI finds it anywhere, so `https://evil.example/github.com/a/b` reads as `a/b`.
- `ssh://git@github.com/…` stays ssh, and `http://` is refused instead of being sent unencrypted.
- `/blob/ref/path` names that file, `owner/repo/path@skill` splits at the `@`, and `#ref@skill` also works after a URL.
- A URL that ends like a file or an archive is one. A bare word is an error: it would never be a repository.
- User names and passwords in https URLs are refused, since sources are recorded and shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote_to_bytes, urlsplit

from prowess.errors import Invalid
from prowess.net.target import Target, parse_target
from prowess.paths import expand_user
from prowess.skill.archive import ARCHIVE_SUFFIXES
from prowess.skill.filenames import SINGLE_FILE_SUFFIXES, is_skill_md

SourceKind = Literal["local", "github", "gitlab", "git", "well-known", "file", "archive"]
GIT_KINDS: frozenset[SourceKind] = frozenset({"github", "gitlab", "git"})

MAX_CHARS = 2_000
ALIASES = {
    "coinbase/agentWallet": "coinbase/agentic-wallet-skills",
    "vercel-labs/vercel-skills": "vercel-labs/agent-skills",
}
"""Repositories that were renamed, as the skills CLI knows them."""

_EXAMPLES = "Use owner/repo, a URL such as https://github.com/owner/repo, or a path such as ./skills."

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DRIVE = re.compile(r"[a-zA-Z]:[/\\]")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)(://|::)")
# Names that GitHub gives out. A leading hyphen would read as an option.
_OWNER = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,98})", re.ASCII)
_REPO = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}", re.ASCII)
_SEGMENT = re.compile(r"[A-Za-z0-9_.~][A-Za-z0-9_.~+-]{0,254}", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_HOST = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?", re.ASCII)
_REGISTRY_ID = re.compile(r"(?:skills\.sh|clawhub|prowess):[\w.@/-]+", re.ASCII)
# git-check-ref-format(1), without the ways to name an object by an expression.
_BAD_REF = re.compile(r"^[-/]|\.\.|//|@\{|[ ~^:?*\[\\\x00-\x1f\x7f]|(?:^|/)\.|\.lock(?:/|$)|[./]$|^@$")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_HOSTED_ARTIFACT = re.compile(r"/[^/]+/[^/]+/(archive|raw|releases/download|releases/latest/download)/.+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReference:
    """A place with skills. For git, the repository is `url`, and `ref`, `path` and `skill` select in it; '' selects everything."""

    kind: SourceKind
    url: str
    """The address to fetch, without credentials; for `local`, an absolute path."""
    ref: str = ""
    """A branch, a tag or a full commit id; '' for the default branch."""
    path: str = ""
    """A folder or a file in the repository."""
    skill: str = ""
    """The name of one skill."""

    def at(self, *, ref: str = "", path: str = "", skill: str = "") -> SourceReference:
        """Return the reference with another ref, path or skill where one is given; raise `Invalid` for a malformed one."""
        return replace(
            self,
            ref=_checked_ref(ref) if ref else self.ref,
            path=_checked_path(path) if path else self.path,
            skill=skill or self.skill,
        )

    @property
    def is_git(self) -> bool:
        """True for a git repository on any host."""
        return self.kind in GIT_KINDS

    @property
    def is_pinned(self) -> bool:
        """True if the ref is a full commit id, which always names the same files."""
        return _COMMIT.fullmatch(self.ref) is not None

    @property
    def source(self) -> str:
        """The short name that lock files record: `owner/repo` on GitHub and gitlab.com, otherwise the URL or path."""
        parts = urlsplit(self.url) if self.kind in ("github", "gitlab") else None
        if parts and parts.hostname in ("github.com", "gitlab.com"):
            return parts.path.strip("/").removesuffix(".git")
        return self.url

    def __str__(self) -> str:
        """Return a text to show. `parse_source` reads it as the same reference, except for a path in a plain git repository."""
        text, ref = self.source if self.kind == "github" else self.url, self.ref
        if self.kind == "gitlab" and (self.path or self.source == self.url):
            # One segment of the URL is the ref, so one with slashes follows as a fragment.
            text = f"{self.url.removesuffix('.git')}/-/tree/{'HEAD' if '/' in ref else ref or 'HEAD'}"
            ref = ref if "/" in ref else ""
        text += f"/{self.path}" if self.path else ""
        fragment = quote(ref, safe="/") + (f"@{quote(self.skill)}" if self.skill else "")
        return f"{text}#{fragment}" if fragment else text


def parse_source(text: str, *, base: Path | None = None) -> SourceReference:
    """Read a source string; raise `Invalid` for one that names no source, or that tries to be something else.

    Nothing is looked up: a local path need not exist. `base` is the folder of relative paths, by default the current one.
    """
    address = text.strip()
    _check_characters(address)
    if _is_local(address):
        return _local(address, base)
    rest, ref, skill = _split_fragment(address)
    rest = ALIASES.get(rest, rest)
    rest = re.sub(r"\Agitlab:", "https://gitlab.com/", rest.removeprefix("github:"))
    reference = _parse_repository(rest)
    if not reference.is_git:
        return reference
    # The ref in the path of a URL wins over the fragment, and the skill of the fragment over the one after `@`.
    return reference.at(ref=reference.ref or ref, skill=skill)


def _check_characters(text: str) -> None:
    if not text:
        raise Invalid("The source is empty.", hint=_EXAMPLES)
    if len(text) > MAX_CHARS:
        raise Invalid(f"The source has {len(text):,} characters, more than the limit of {MAX_CHARS:,}.", hint=_EXAMPLES)
    _check_printable(text)
    # git would read it as an option, and some options name a program to run.
    if text.startswith("-"):
        raise Invalid(f"The source {text[:200]!r} starts with a hyphen, like an option.", hint=_EXAMPLES)


def _check_printable(text: str) -> None:
    if _CONTROL.search(text):
        raise Invalid(f"The source {text[:200]!r} contains control characters.", hint=_EXAMPLES)


def _is_local(text: str) -> bool:
    return text in (".", "..", "~") or text.startswith(("/", "./", "../", "~/")) or _DRIVE.match(text) is not None


def _local(text: str, base: Path | None) -> SourceReference:
    folder = (base or Path.cwd()) / expand_user(text)
    # Not `resolve`: a link that the person named is looked at when it is read.
    return SourceReference(kind="local", url=str(Path(*_without_dots(folder.absolute()))))


def _without_dots(path: Path) -> list[str]:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and len(parts) > 1:
            parts.pop()
        elif part != "..":
            parts.append(part)
    return parts


def _split_fragment(text: str) -> tuple[str, str, str]:
    """Return the text before `#`, the ref and the skill of the fragment; all of it as it is if it does not look like git."""
    before, _, fragment = text.partition("#")
    if not fragment or not _looks_like_git(before):
        return text, "", ""
    ref, _, skill = fragment.partition("@")
    return before, _decode(ref), _decode(skill)


def _decode(text: str) -> str:
    try:
        decoded = unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        return text  # not percent-encoded, as JavaScript's decodeURIComponent would say
    _check_printable(decoded)
    return decoded


def _looks_like_git(text: str) -> bool:
    if text.startswith(("github:", "gitlab:", "git@", "ssh://", "file://")):
        return True
    if re.match(r"https?://", text):
        host, _, path = text.partition("://")[2].partition("/")
        known = host.lower().removeprefix("www.") in ("github.com", "gitlab.com")
        return (known and "/" in path) or re.search(r"\.git(?:$|[/?])", text) is not None or "/-/tree/" in path
    return ":" not in text and re.fullmatch(r"[^/]+/[^/]+(?:/.+)?", text) is not None


def _parse_repository(text: str) -> SourceReference:
    if text.startswith("-"):
        raise Invalid(f"The source {text[:200]!r} starts with a hyphen, like an option.", hint=_EXAMPLES)
    if re.match(r"(?:www\.)?(?:github|gitlab)\.com/", text):
        text = f"https://{text}"
    scheme = _SCHEME.match(text)
    if scheme is None:
        return _scp_address(text) if ":" in text else _shorthand(text)
    name = scheme[1].lower()
    if scheme[2] == "::" or name not in _BY_SCHEME:
        raise Invalid(
            f"The transport {scheme[1][:40]!r} is not supported.",
            hint="Use https, or ssh for your own private repositories.",
        )
    return _BY_SCHEME[name](text)


def _shorthand(text: str) -> SourceReference:
    owner, _, rest = text.partition("/")
    repo, _, path = rest.rstrip("/").partition("/")
    skill = ""
    if not path:
        repo, _, skill = repo.partition("@")
    elif "@" in (last := path.rpartition("/")[2])[1:]:
        # Not at the start of a segment: `packages/@scope/skill` is a path.
        skill = last[1:].partition("@")[2]
        path = path.removesuffix(f"@{skill}")
    if not repo or not _OWNER.fullmatch(owner):
        raise Invalid(f"{text[:200]!r} is not a source.", hint=f"{_EXAMPLES} For a local folder, use ./{text[:80]}.")
    return _github(owner, repo, path=path, skill=skill)


def _github(owner: str, repo: str, *, ref: str = "", path: str = "", skill: str = "") -> SourceReference:
    repo = repo.removesuffix(".git")
    if not _OWNER.fullmatch(owner) or not _REPO.fullmatch(repo) or repo in (".", ".."):
        raise Invalid(f"{f'{owner}/{repo}'[:200]!r} is not a GitHub repository.", hint=_EXAMPLES)
    url = f"https://github.com/{owner}/{repo}.git"
    return SourceReference(kind="github", url=url).at(ref=ref, path=path, skill=skill)


def _scp_address(text: str) -> SourceReference:
    """Read `git@host:path`, the short form of ssh."""
    if _REGISTRY_ID.fullmatch(text):
        raise Invalid(
            f"{text[:200]!r} is the id of a skill in a registry.", hint=f"Run `prowess registry install {text[:200]}`."
        )
    user, at, rest = text.partition("@")
    host, _, path = rest.partition(":")
    segments = path.strip("/").split("/")
    if not at or not _USER.fullmatch(user) or not _HOST.fullmatch(host) or not all(map(_is_segment, segments)):
        raise Invalid(f"{text[:200]!r} is not a git address.", hint="Use git@host:owner/repo.git.")
    return SourceReference(kind="git", url=text)


def _is_segment(segment: str) -> bool:
    return _SEGMENT.fullmatch(segment) is not None and segment not in (".", "..")


def _ssh(text: str) -> SourceReference:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid(f"{text[:200]!r} is not a git address.", hint="Use ssh://git@host/owner/repo.git.") from None
    if parts.password is not None:
        raise _credentials_error()
    if parts.username is not None and not _USER.fullmatch(parts.username):
        raise Invalid("The user name of the ssh address is not valid.", hint="Use ssh://git@host/owner/repo.git.")
    segments = parts.path.strip("/").split("/")
    if not _HOST.fullmatch(host) or not all(map(_is_segment, segments)) or parts.query or parts.fragment:
        raise Invalid(f"{text[:200]!r} is not a git address.", hint="Use ssh://git@host/owner/repo.git.")
    user = f"{parts.username}@" if parts.username else ""
    address = f"ssh://{user}{host}{f':{port}' if port else ''}{parts.path}"
    return SourceReference(kind="git", url=address)


def _file(text: str) -> SourceReference:
    path = text.partition("://")[2]
    if not path.startswith("/") or not path.strip("/") or ".." in path.split("/"):
        raise Invalid(f"{text[:200]!r} is not a git address.", hint="Use file:///folder/repo.git.")
    return SourceReference(kind="git", url=f"file://{path}")


def _web(text: str) -> SourceReference:
    if "@" in text.partition("://")[2].partition("/")[0]:
        raise _credentials_error()
    target = parse_target(text)
    host = target.host.removeprefix("www.")
    path = target.path.partition("?")[0]
    segments = [_decode(segment) for segment in path.strip("/").split("/") if segment]
    if ".." in segments:
        raise Invalid(f"{text[:200]!r} contains '..'.", hint=_EXAMPLES)
    if host == "github.com" and not _HOSTED_ARTIFACT.fullmatch(path):
        return _github_page(segments, text)
    if host == "raw.githubusercontent.com" or (_HOSTED_ARTIFACT.fullmatch(path) and host == "github.com"):
        return _download(target, path)
    if "-" in segments and segments[segments.index("-") + 1 :][:1] in (["tree"], ["blob"]):
        return _gitlab_page(target, segments)
    if host == "gitlab.com" and "/-/" not in path:
        return _gitlab(target, segments)
    _check_encrypted(target, text)
    if path.rstrip("/").endswith(".git"):
        return SourceReference(kind="git", url=target.url.rstrip("/"))
    return _download(target, path)


def _github_page(segments: list[str], text: str) -> SourceReference:
    owner, repo, view, ref, *path = [*segments, "", "", "", ""][: max(4, len(segments))]
    if not repo:
        raise Invalid(f"{text[:200]!r} is not a repository.", hint="Use https://github.com/owner/repo.")
    if view not in ("tree", "blob") or not ref:
        return _github(owner, repo)
    return _github(owner, repo, ref=ref, path=_folder_of_skill(path) if view == "blob" else "/".join(path))


def _gitlab_page(target: Target, segments: list[str]) -> SourceReference:
    dash = segments.index("-")
    view, ref, *path = [*segments[dash + 1 :], ""][: max(2, len(segments) - dash - 1)]
    inside = _folder_of_skill(path) if view == "blob" else "/".join(path)
    reference = _gitlab(target, segments[:dash])
    # HEAD is the default branch, whatever its name.
    return reference.at(ref="" if ref == "HEAD" else ref, path=inside)


def _gitlab(target: Target, segments: list[str]) -> SourceReference:
    """Return a project on any GitLab server; it may be in groups of groups."""
    _check_encrypted(target, target.url)
    if segments:
        segments = [*segments[:-1], segments[-1].removesuffix(".git")]
    if len(segments) < 2 or not all(map(_is_segment, segments)):
        raise Invalid(f"{'/'.join(segments)[:200]!r} is not a GitLab project.", hint="Use https://host/group/project.")
    return SourceReference(kind="gitlab", url=f"https://{target.shown}/{'/'.join(segments)}.git")


def _folder_of_skill(path: list[str]) -> str:
    """Return the folder of a SKILL.md, or the path of any other file."""
    return "/".join(path[:-1] if path and is_skill_md(path[-1]) else path)


def _download(target: Target, path: str) -> SourceReference:
    _check_encrypted(target, target.url)
    lower = path.lower()
    if lower.endswith(ARCHIVE_SUFFIXES):
        return SourceReference(kind="archive", url=target.url)
    if lower.endswith(SINGLE_FILE_SUFFIXES):
        return SourceReference(kind="file", url=target.url)
    return SourceReference(kind="well-known", url=target.url)


def _check_encrypted(target: Target, text: str) -> None:
    if target.scheme != "https":
        raise Invalid(
            f"{text[:200]!r} is not encrypted.", hint=f"Use https://{target.shown}{target.path.partition('?')[0]}"
        )


_BY_SCHEME: dict[str, Callable[[str], SourceReference]] = {"https": _web, "http": _web, "ssh": _ssh, "file": _file}


def _checked_ref(ref: str) -> str:
    if len(ref.encode(errors="replace")) > 255 or _BAD_REF.search(ref) or _CONTROL.search(ref):
        raise Invalid(f"{ref[:200]!r} is not a branch, tag or commit.", hint="Use a name such as main or v1.2.0.")
    return ref


def _checked_path(path: str) -> str:
    """Return a path inside a repository, without outer slashes."""
    segments = [segment for segment in path.replace("\\", "/").split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise Invalid(f"The path {path[:200]!r} contains '..'.", hint="Use a path inside the repository.")
    if _CONTROL.search(path):
        raise Invalid(f"The path {path[:200]!r} contains control characters.", hint="Use a path inside the repository.")
    return "/".join(segments)


def _credentials_error() -> Invalid:
    # The address is not shown: it holds a secret.
    return Invalid(
        "The URL contains a user name or password, which would be recorded with the source.",
        hint="Leave it out. For a private repository, git takes credentials from your credential helper or ssh key.",
    )
