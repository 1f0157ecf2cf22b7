"""Find the hosts in a text, and classify them."""

from __future__ import annotations

import re
from typing import Literal

HostKind = Literal["local", "address", "drop", "snippet", "shortener", "tunnel", "installer", "known", "other"]

_URL = re.compile(r"\b(?:https?|wss?|ftp)://([^\s/'\"`<>()\[\]{}\\|,;]+)", re.IGNORECASE)
_BARE = re.compile(r"^(?:[\w\ufffd-]+\.)+[a-z]{2,24}(?::\d+)?(?:/|\?|$)", re.IGNORECASE)
_ADDRESS = re.compile(
    r"^(?:\d{1,3}\.){3}\d{1,3}$|^\[?[0-9a-f]*:[0-9a-f:]+\]?$|^0x[0-9a-f]{8}$|^\d{8,10}$", re.IGNORECASE
)
_PRIVATE = re.compile(
    r"^(?:localhost|.*\.local|.*\.localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|10\.\d+\.\d+\.\d+|192\.168\.\d+\.\d+|172\.(?:1[6-9]|2\d|3[01])\.\d+\.\d+|\[?::1\]?|host\.docker\.internal)$"
)

_SNIPPETS = (
    "pastebin.com", "paste.ee", "hastebin.com", "rentry.co", "rentry.org", "glot.io", "ghostbin.com", "dpaste.com", "dpaste.org", "paste.rs",
    "termbin.com", "controlc.com", "privatebin.net", "ix.io", "0bin.net", "pastes.io", "telegra.ph", "justpaste.it", "write.as", "sprunge.us",
)  # fmt: skip
_DROPS = (
    "transfer.sh", "file.io", "0x0.st", "anonfiles.com", "gofile.io", "mega.nz", "mediafire.com", "catbox.moe", "temp.sh", "bashupload.com",
    "webhook.site", "requestbin.com", "pipedream.net", "beeceptor.com", "hookbin.com", "requestcatcher.com", "interact.sh", "oast.fun", "oast.pro",
    "oast.live", "oast.site", "oast.me", "oastify.com", "burpcollaborator.net", "dnslog.cn", "ceye.io", "canarytokens.com", "wetransfer.com",
    "oshi.at", "keep.sh", "uguu.se", "tmpfiles.org", "filebin.net", "dropmefiles.com", "workupload.com", "ufile.io",
)  # fmt: skip
_SHORTENERS = (
    "bit.ly", "tinyurl.com", "t.co", "is.gd", "v.gd", "cutt.ly", "rb.gy", "ow.ly", "t.ly", "shorturl.at", "goo.gl",
    "s.id", "rebrand.ly", "tiny.cc",
)  # fmt: skip
_TUNNELS = (
    "ngrok.io", "ngrok.app", "ngrok-free.app", "ngrok-free.dev", "trycloudflare.com", "loca.lt", "serveo.net", "localhost.run", "lhr.life", "pinggy.link",
    "duckdns.org", "no-ip.org", "ddns.net", "hopto.org", "onion", "bore.pub", "devtunnels.ms",
)  # fmt: skip
_INSTALLERS = (
    "sh.rustup.rs", "static.rust-lang.org", "bun.sh", "bun.com", "deno.land", "deno.com", "get.docker.com", "download.docker.com", "install.python-poetry.org",
    "astral.sh", "get.pnpm.io", "fly.io", "ollama.com", "ollama.ai", "deb.nodesource.com", "rpm.nodesource.com", "nodejs.org", "claude.ai", "cursor.com",
    "opencode.ai", "mise.run", "mise.jdx.dev", "starship.rs", "tailscale.com", "foundry.paradigm.xyz", "release.solana.com", "release.anza.xyz", "get.sdkman.io",
    "cli.github.com", "get.helm.sh", "dl.k8s.io", "get.k3s.io", "kind.sigs.k8s.io", "sdk.cloud.google.com", "aka.ms", "awscli.amazonaws.com", "code-server.dev",
    "install.determinate.systems", "nixos.org", "get.rvm.io", "pyenv.run", "bootstrap.pypa.io", "install.duckdb.org", "dot.net", "dotnet.microsoft.com",
    "brew.sh", "openclaw.ai", "openclaw.bot", "molt.bot", "clawd.bot", "clawdhub.com", "clawhub.ai", "antigravity.google", "gemini.google.com", "x.ai",
    "get.modular.com", "magic.modular.com", "pixi.sh", "micro.mamba.pm", "repo.anaconda.com", "raw.githubusercontent.com/Homebrew", "raw.githubusercontent.com/nvm-sh",
    "raw.githubusercontent.com/helm", "raw.githubusercontent.com/ohmyzsh", "raw.githubusercontent.com/pypa", "raw.githubusercontent.com/aquasecurity",
    "raw.githubusercontent.com/anchore", "raw.githubusercontent.com/rbenv", "raw.githubusercontent.com/rhysd", "raw.githubusercontent.com/golangci",
    "raw.githubusercontent.com/kubernetes", "raw.githubusercontent.com/k3d-io", "raw.githubusercontent.com/tj", "raw.githubusercontent.com/junegunn",
    "dl.google.com", "packages.microsoft.com", "apt.llvm.org", "dl.yarnpkg.com", "yarnpkg.com", "npmjs.org", "files.pythonhosted.org",
    "get.volta.sh", "fnm.vercel.app", "cli.doppler.com", "packages.cloud.google.com", "get.pulumi.com", "railway.app", "railway.com", "supabase.com", "neon.tech",
    "turso.tech", "get.tur.so", "cli.upstash.com", "install.goreleaser.com", "goreleaser.com", "taskfile.dev", "just.systems", "ghcup.haskell.org",
    "get-ghcup.haskell.org", "getcomposer.org", "get.jetify.com", "get.jetpack.io", "devbox.sh", "get.dagger.io", "dl.dagger.io", "github.com/cli", "fig.io", "warp.dev", "rclone.org",
    "proton.me", "fluxcd.io", "run.linkerd.io", "aspire.dev", "raw.githubusercontent.com/babashka", "raw.githubusercontent.com/render-oss", "install.meteor.com", "get.acme.sh",
)  # fmt: skip
_KNOWN = (
    "github.com", "githubusercontent.com", "gitlab.com", "bitbucket.org", "github.io", "gitee.com", "codeberg.org", "sr.ht", "googleapis.com", "google.com",
    "googlesource.com", "microsoft.com", "azure.com", "windows.net", "amazonaws.com", "aws.amazon.com", "apple.com", "cloudflare.com", "openai.com",
    "anthropic.com", "claude.com", "huggingface.co", "pypi.org", "pythonhosted.org", "npmjs.com", "npmjs.org", "crates.io", "rubygems.org", "golang.org", "go.dev",
    "docker.com", "docker.io", "ghcr.io", "quay.io", "debian.org", "ubuntu.com", "fedoraproject.org", "archlinux.org", "kernel.org", "apache.org", "mozilla.org",
    "python.org", "nodejs.org", "rust-lang.org", "jsdelivr.net", "unpkg.com", "cdnjs.cloudflare.com", "slack.com", "discord.com", "telegram.org", "notion.com",
    "atlassian.com", "atlassian.net", "stripe.com", "vercel.com", "netlify.com", "wttr.in", "wikipedia.org",
)  # fmt: skip


def find_urls(text: str) -> list[str]:
    """Return the hosts (with port) of all URLs in a text, in order, once each."""
    return list(dict.fromkeys(found[1].rpartition("@")[2].rstrip(".:") for found in _URL.finditer(text)))


def read_host(text: str) -> str:
    """Return the host of a URL, or of a text that looks like one without its scheme; '' otherwise."""
    found = _URL.search(text)
    if found:
        return found[1].rpartition("@")[2].lower()
    stripped = text.strip().removeprefix("//")
    return re.split(r"[/?]", stripped, maxsplit=1)[0].lower() if _BARE.match(stripped) else ""


def looks_like_url(text: str) -> bool:
    """Return True for a URL, also one without a scheme."""
    return bool(_URL.search(text[:300])) or bool(_BARE.match(text.strip()[:300]))


def _dotted(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f".{name}" for name in names)


def classify_host(url: str) -> HostKind:
    """Return the kind of the host of a URL."""
    host = read_host(url) or url.lower()
    bare = re.sub(r":\d+$", "", host) if not host.startswith("[") else host.partition("]")[0] + "]"
    if _PRIVATE.match(bare):
        return "local"
    if _ADDRESS.match(bare):
        return "address"
    for kind, endings in _TABLE:
        if f".{bare}".endswith(endings):
            return kind
    if re.sub(r"^\w+://", "", url).startswith(_INSTALLER_PATHS):
        return "installer"
    return "known" if f".{bare}".endswith(_KNOWN_ENDINGS) else "other"


# Compared in one call each: a skill may name tens of thousands of hosts.
_TABLE: tuple[tuple[HostKind, tuple[str, ...]], ...] = (
    ("snippet", _dotted(_SNIPPETS)),
    ("drop", _dotted(_DROPS)),
    ("shortener", _dotted(_SHORTENERS)),
    ("tunnel", _dotted(_TUNNELS)),
    ("installer", _dotted(_INSTALLERS)),
)
_INSTALLER_PATHS = tuple(f"{name}/" for name in _INSTALLERS if "/" in name)
_KNOWN_ENDINGS = _dotted(_KNOWN)
UNTRUSTED: tuple[HostKind, ...] = ("address", "drop", "snippet", "shortener", "tunnel")
"""Kinds of hosts that anyone may be behind."""

# The owner of a well-known variable, to tell a key that goes to its own service from one that goes elsewhere.
_OWNERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"^(GITHUB|GH)_(TOKEN|PAT|ENTERPRISE_TOKEN)", ("github", "ghcr", "localhost")),
    (r"^AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN)", ("amazonaws", "aws", "localhost")),
    (r"^OPENAI_API_KEY", ("openai", "azure", "localhost")),
    (r"^ANTHROPIC_(API_KEY|AUTH_TOKEN)", ("anthropic", "claude", "localhost")),
    (r"^(NPM_TOKEN|NODE_AUTH_TOKEN)", ("npmjs", "npm", "github")),
    (r"^(PYPI_TOKEN|TWINE_PASSWORD)", ("pypi",)),
    (r"^(GOOGLE_API_KEY|GEMINI_API_KEY|GOOGLE_APPLICATION_CREDENTIALS)", ("google", "gemini")),
    (r"^SLACK_(BOT_)?TOKEN", ("slack",)),
    (r"^STRIPE_(SECRET|API)_KEY", ("stripe",)),
    (r"^(HF_TOKEN|HUGGINGFACE_TOKEN|HUGGING_FACE_HUB_TOKEN)", ("huggingface", "hf.co")),
    (r"^(GITLAB_TOKEN|CI_JOB_TOKEN)", ("gitlab",)),
    (r"^(DATABASE_URL|PGPASSWORD|MYSQL_PWD|SSH_AUTH_SOCK|KUBECONFIG|VAULT_TOKEN|PRIVATE_KEY|MNEMONIC|SEED_PHRASE|WALLET_PRIVATE_KEY|SECRET_KEY|JWT_SECRET)$", ()),
)  # fmt: skip
_COMPILED_OWNERS = tuple((re.compile(pattern), names) for pattern, names in _OWNERS)
_TOKEN_NAME = re.compile(
    r"(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|PRIVATE_KEY|ACCESS_KEY|CREDENTIAL|MNEMONIC|SEED_PHRASE)", re.IGNORECASE
)


def is_token_name(variable: str) -> bool:
    """Return True for an environment variable that holds a secret by its name."""
    return bool(_TOKEN_NAME.search(variable)) or any(pattern.search(variable) for pattern, _ in _COMPILED_OWNERS)


def is_foreign_secret(variable: str, host: str) -> bool:
    """Return True if a well-known secret is sent to a host that does not need it."""
    for pattern, owners in _COMPILED_OWNERS:
        if pattern.search(variable):
            return not any(owner in host for owner in owners)
    return False
