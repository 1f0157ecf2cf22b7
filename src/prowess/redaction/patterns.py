"""Recognize unknown secrets by their name (`api_key: …`, `Authorization: Bearer …`) or by the shape vendors give their keys."""

from __future__ import annotations

import re
from base64 import b64decode
from functools import lru_cache, partial
from typing import NamedTuple

from prowess.redaction.regex import Match, compile_linear

_SENSITIVE_KEYS = (
    r"(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key|private[_-]?key|account[_-]?key|auth[_-]?key|"
    r"encryption[_-]?key|signing[_-]?key|client[_-]?secret|secret|token|passw(?:or)?d|passphrase|pwd|credentials?)"
)
_VALUE = r"[^\s\"'`,;<>{}()\[\]&|]{6,}"
_ASSIGNED = (
    rf"(?i)(?P<before>\b(?:[a-z0-9_.-]*[_.-]|[a-z0-9]*)?(?P<name>{_SENSITIVE_KEYS})\\?[\"'`]?\s*(?::=|=>|=|:)\s*\\?[\"'`]?)"
    rf"(?P<value>{_VALUE})(?P<after>\(?)"
)
_OPTION = rf"(?i)(?P<before>(?:^|\s)--?[a-z0-9-]*(?P<name>{_SENSITIVE_KEYS})\s+[\"']?)(?P<value>{_VALUE})"
_HEADER = (
    r"(?i)(?P<before>\bauthorization\\?[\"'`]?\s*[:=]\s*\\?[\"'`]?(?:(?:bearer|basic|token|digest|apikey)\s+)?|\bbearer\s+)"
    r"(?P<value>[A-Za-z0-9._~+/=:-]{8,})"
)
_BASIC = r"(?i)(?P<before>\bbasic\s+\\?[\"'`]?)(?P<value>[A-Za-z0-9+/_-]{4,}={0,2})"
_COOKIE = r"(?i)(?P<before>\b(?:set-)?cookie:\s*)(?P<value>[^\s=;]+=[^\s;]{10,}[^\r\n\"'`]*)"
_LOGIN = r"(?P<before>(?:^|\s)(?:-u|--user)[ =][\"']?[^\s:\"'$<{]+:)(?P<value>[^\s\"'$<{]{3,})"

# Matches wherever one of the patterns above does, and is far cheaper: most texts have no match and are done after it.
NAME_HINT = (
    r"(?i:(?:key(?:[_-]?id)?|secret|token|passw(?:or)?d|passphrase|pwd|credentials?|authorization|cookie)\\?[\"'`]?\s*[:=]"
    rf"|-{_SENSITIVE_KEYS}\s|bearer\s|(?:-u|--user)[ =])"
    # Base64 has capitals or digits after its first letter, and few words have.
    r"|(?i:\bbasic)\s+\\?[\"'`]?[A-Za-z0-9+/_-]+[A-Z0-9=]"
)

_KEY = re.compile(
    r"(?:.*[^a-z])?(?:api_?key|access_?key|secret_?key|private_?key|account_?key|client_?secret|secret|token|password|"
    r"passwd|passphrase|pwd|credentials?|(?:proxy_)?authorization|(?:set_)?cookie)",
    re.DOTALL,
)
# Look-behind, which RE2 does not have: `apiKey` becomes `api_Key`.
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# Placeholders in documentation: some words anywhere in the value, others only as a part of their own.
_PLACEHOLDER = re.compile(
    r"your|example|placeholder|changeme|replace|generate|redacted|abc123|token123|x{3,}|\*{3,}|\.{3}|…|[$%]\w|^[#@/~.\\]|://"
    r"|(?:^|[^a-z0-9])(?:api|config|dummy|env|fake|false|id|input|key|name|none|null|password|sample|secret|settings|"
    r"string|test|todo|token|true|undefined|value)(?:$|[^a-z0-9])",
    re.IGNORECASE,
)
_EXPRESSION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|0x[0-9a-zA-Z]{1,40}")

_WORDS = re.compile(r"[a-z_.:/-]+|[A-Z_]+|.*(?i:your|example|x{4}|\.{3}).*")


@lru_cache(maxsize=4096)
def has_secret_name(name: str) -> bool:
    """Return True if the value under this key of a JSON object is a secret."""
    # `_KEY` is matched with `re`, not RE2, so the length of untrusted input is limited here.
    if len(name) > 200:
        return False
    return _KEY.fullmatch(_CAMEL.sub("_", name).replace("-", "_").replace(" ", "_").lower()) is not None


def redact_named(text: str) -> str:
    """Return the text with values named as secrets replaced, unless they are placeholders or expressions."""
    for pattern, replacement in _REPLACEMENTS:
        text = compile_linear(pattern).sub(replacement, text)
    return text


def _replace_unless_placeholder(match: Match) -> str:
    named = match.groupdict()
    after = named.get("after") or ""
    before, value = named.get("before") or "", named.get("value") or ""
    # `after` is an opening parenthesis: `token = read_token(` is a call, not a value. Public keys are not secret.
    if after or "public" in before.lower() or not _looks_secret(value):
        return match.group()
    return f"{before}[redacted]"


def _replace_unless_words(match: Match) -> str:
    """Replace any long value where a credential is expected, unless it is plain words."""
    named = match.groupdict()
    before, value = named.get("before") or "", named.get("value") or ""
    # After `Authorization:` even a value without digits is a credential if it is this long.
    if len(value) >= 16 and not _WORDS.fullmatch(value):
        return f"{before}[redacted]"
    return _replace_unless_placeholder(match)


def _replace_login(match: Match) -> str:
    """Replace a value after `Basic` if it is the base64 of a name and a password, which no word of a text is."""
    named = match.groupdict()
    before, value = named.get("before") or "", named.get("value") or ""
    try:
        login = b64decode(
            value.rstrip("=") + "=" * (-len(value.rstrip("=")) % 4), altchars=b"-_" if set(value) & {"-", "_"} else None
        )
        text = login.decode()
    except ValueError:
        return match.group()
    return f"{before}[redacted]" if ":" in text and text.isprintable() else match.group()


def _looks_secret(value: str) -> bool:
    """Return True unless the value is a word, an expression of a program, or a placeholder of documentation."""
    if _PLACEHOLDER.search(value) or _EXPRESSION.fullmatch(value):
        return False
    # Generated secrets have digits and letters. Plain words and plain numbers stay, or documentation would be altered.
    return any(character.isdigit() for character in value) and any(character.isalpha() for character in value)


_REPLACEMENTS = (
    (_BASIC, _replace_login),
    (_HEADER, _replace_unless_words),
    (_COOKIE, _replace_unless_placeholder),
    (_LOGIN, _replace_unless_placeholder),
    (_OPTION, _replace_unless_placeholder),
    (_ASSIGNED, _replace_unless_placeholder),
)


class SecretShape(NamedTuple):
    """A kind of secret: its pattern, and hints of which every text with such a secret contains one.

    The group `before` of a pattern is kept. `quick_pattern` matches wherever the pattern does, and fast; a pattern that starts
    with arbitrary letters is slow.
    """

    kind: str
    hints: tuple[str, ...]
    pattern: str
    quick_pattern: str


def _shape(kind: str, hints: str, pattern: str, quick_pattern: str = "") -> SecretShape:
    return SecretShape(kind, tuple(hints.split()), pattern, quick_pattern or pattern)


# The order matters where one shape contains another: `sk-ant-…` and `sk-or-…` come before the general `sk-…`, so that
# the kind in the mark is right.
SHAPES: tuple[SecretShape, ...] = (
    _shape(
        "private-key",
        "-----BEGIN",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?s:.{0,400}?)[A-Za-z0-9+/=]{40}[A-Za-z0-9+/=\s\\]*"
        r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)?",
        "PRIVATE KEY",
    ),
    _shape("jwt", "eyJ", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
    _shape(
        "url-password",
        "//",
        # A password may contain `@`, `?` and `#` unescaped: it ends at the last `@` before the path.
        r"(?P<before>(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?//[^\s/?#:@\"'`<>]*:)(?P<value>[^\s/\"'`<>{}$][^\s/\"'`<>{}]{2,})@",
        r"//[^\s/?#:@\"'`<>]*:[^\s/\"'`<>{}$][^\s/\"'`<>{}]{2,}@",
    ),
    _shape("url-token", "//", r"(?P<before>//)(?P<value>[A-Za-z0-9_~.-]{16,})@", r"//[A-Za-z0-9_~.-]{16,}@"),
    _shape("anthropic", "sk-ant-", r"\bsk-ant-[A-Za-z0-9_-]{16,}"),
    _shape("openrouter", "sk-or-", r"\bsk-or-(?:v\d-)?[A-Za-z0-9]{24,}"),
    _shape("openai", "sk-", r"\bsk-(?:proj-|svcacct-|admin-|None-)?[A-Za-z0-9_-]{20,}"),
    _shape("stripe", "_live_ _test_", r"\b[srp]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    _shape("webhook-secret", "whsec_", r"\bwhsec_[A-Za-z0-9+/=]{24,}"),
    _shape("github", "gh", r"\bgh[opsur]_[A-Za-z0-9]{30,}"),
    _shape("github", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,}"),
    _shape("gitlab", "gl", r"\bgl(?:pat|ptt|dt|rt|rtr|cbt|soat|ft|imt|agent|oas|ffct)-[A-Za-z0-9_.-]{20,}"),
    _shape("aws", "A", r"\b(?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AROA|ANPA)[A-Z0-9]{16}\b"),
    _shape("slack", "xox xapp-", r"\b(?:xox[abceoprs]|xapp)-[A-Za-z0-9-]{10,}"),
    _shape(
        "slack-webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}"
    ),
    _shape("discord-webhook", "api/webhooks", r"discord(?:app)?\.com/api/webhooks/\d{10,}/[A-Za-z0-9_-]{30,}"),
    _shape("teams-webhook", "webhook.office.com", r"webhook\.office\.com/webhookb2/[A-Za-z0-9@/_-]{30,}"),
    _shape(
        "discord",
        ".",
        r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}\b",
        r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}",
    ),
    _shape("google", "AIza", r"\bAIza[A-Za-z0-9_-]{35}"),
    _shape("google-oauth", "ya29. 1//0 GOCSPX-", r"\b(?:ya29\.|1//0|GOCSPX-)[A-Za-z0-9_-]{20,}"),
    _shape("npm", "npm_", r"\bnpm_[A-Za-z0-9]{30,}"),
    _shape("pypi", "pypi-", r"\bpypi-[A-Za-z0-9_-]{50,}"),
    _shape("huggingface", "hf_ api_org_", r"\b(?:hf|api_org)_[A-Za-z0-9]{30,}"),
    _shape("digitalocean", "_v1_", r"\bdo[opr]_v1_[a-f0-9]{60,}"),
    _shape("sendgrid", "SG.", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    _shape("twilio", "SK AC", r"\b(?:SK|AC)[0-9a-f]{32}\b"),
    _shape("mailgun", "key-", r"\bkey-[0-9a-f]{32}\b"),
    _shape("mailchimp", "-us", r"\b[0-9a-f]{32}-us\d{1,2}\b", r"[0-9a-f]-us\d"),
    _shape("brevo", "xkeysib-", r"\bxkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    _shape("square", "sq0 EAAA", r"\b(?:sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,}|EAAA[A-Za-z0-9_-]{60})"),
    _shape("shopify", "shp", r"\bshp(?:at|ca|pa|ss|tka)_[A-Fa-f0-9]{32}"),
    _shape("telegram", ":A", r"\b\d{8,10}:A[A-Za-z0-9_-]{34}\b", r"\d:A[A-Za-z0-9_-]{34}"),
    _shape("dropbox", "sl.", r"\bsl\.(?:u\.)?[A-Za-z0-9_-]{100,}"),
    _shape("linear", "lin_", r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    _shape("notion", "ntn_ secret_", r"\b(?:ntn_|secret_)[A-Za-z0-9]{40,}"),
    _shape("figma", "figd_ figo_", r"\bfig[do]_[A-Za-z0-9_-]{36,}"),
    _shape("atlassian", "ATATT ATCTT ATBB", r"\b(?:ATATT3|ATCTT3|ATBB)[A-Za-z0-9_=-]{24,}"),
    _shape("databricks", "dapi", r"\bdapi[0-9a-f]{32}(?:-\d)?"),
    _shape("vault", "hv", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    _shape("terraform", ".atlasv1.", r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{50,}", r"\.atlasv1\."),
    _shape("planetscale", "pscale_", r"\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{30,}"),
    _shape("postman", "PMAK-", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _shape("newrelic", "NRAK- NRJS-", r"\bNR(?:AK|JS)-[A-Za-z0-9]{19,}"),
    _shape("sentry", "sntry", r"\bsntry[su]_[A-Za-z0-9+/=_]{40,}"),
    _shape("grafana", "glsa_ glc_", r"\b(?:glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|glc_[A-Za-z0-9+/=]{32,})"),
    _shape("doppler", "dp.", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}"),
    _shape("rubygems", "rubygems_", r"\brubygems_[0-9a-f]{48}"),
    _shape("crates", "cio", r"\bcio[A-Za-z0-9]{32}\b"),
    _shape("docker", "dckr_", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}"),
    _shape("age", "AGE-SECRET-KEY-1", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _shape("prowess", "prw_", r"\bprw_[A-Za-z0-9_-]{43}"),
    _shape("groq", "gsk_", r"\bgsk_[A-Za-z0-9]{40,}"),
    _shape("replicate", "r8_", r"\br8_[A-Za-z0-9]{37}"),
    _shape("perplexity", "pplx-", r"\bpplx-[A-Za-z0-9]{40,}"),
    _shape("xai", "xai-", r"\bxai-[A-Za-z0-9]{60,}"),
    _shape("nvidia", "nvapi-", r"\bnvapi-[A-Za-z0-9_-]{50,}"),
    _shape("tavily", "tvly-", r"\btvly-(?:dev-|prod-)?[A-Za-z0-9]{20,}"),
    _shape("langsmith", "lsv2_", r"\blsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    _shape("pinecone", "pcsk_", r"\bpcsk_[A-Za-z0-9_]{40,}"),
    _shape("supabase", "sbp_ sb_secret_", r"\b(?:sbp_[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{20,})"),
    _shape("netlify", "nfp_", r"\bnfp_[A-Za-z0-9]{36}"),
    _shape("fly", "fm1 fm2 fo1_", r"\b(?:fm[12][ar]?_[A-Za-z0-9+/=]{50,}|fo1_[A-Za-z0-9_-]{40,})"),
    _shape("airtable", "pat", r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    _shape("hubspot", "pat-", r"\bpat-[a-z]{2}\d-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    _shape("azure-storage", "AccountKey=", r"(?P<before>AccountKey=)[A-Za-z0-9+/]{40,}={0,2}"),
    _shape("azure-signature", "sig=", r"(?P<before>[?&]sig=)[A-Za-z0-9%+/]{30,}={0,2}"),
    _shape("azure-client", "Q~", r"\b[A-Za-z0-9_.~-]{3}\dQ~[A-Za-z0-9_.~-]{31,34}", r"\dQ~[A-Za-z0-9]"),
    _shape("alibaba", "LTAI", r"\bLTAI[A-Za-z0-9]{16,24}\b"),
    _shape("tencent", "AKID", r"\bAKID[A-Za-z0-9]{32}\b"),
    _shape("facebook", "EAA", r"\bEAA[A-Za-z0-9]{80,}"),
    _shape("pulumi", "pul-", r"\bpul-[0-9a-f]{40}"),
    _shape("dynatrace", "dt0", r"\bdt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    _shape("onepassword", "ops_eyJ", r"\bops_eyJ[A-Za-z0-9_=-]{60,}"),
    _shape("sonar", "sqp_ squ_ sqa_", r"\bsq[pua]_[0-9a-f]{40}"),
    _shape("tailscale", "tskey-", r"\btskey-[a-z]+-[A-Za-z0-9]{10,}-[A-Za-z0-9]{20,}"),
    _shape("contentful", "CFPAT-", r"\bCFPAT-[A-Za-z0-9_-]{40,}"),
    _shape("sourcegraph", "sgp_", r"\bsgp_(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{40}"),
)

# A name of a group may occur only once in a pattern, so the groups lose theirs.
SHAPE_HINT = "|".join(shape.quick_pattern.replace("?P<before>", "?:") for shape in SHAPES)
"""Matches in every text with a shaped secret."""

_EXAMPLE_PASSWORDS = {
    "admin",
    "changeme",
    "example",
    "guest",
    "mypassword",
    "pass",
    "passwd",
    "password",
    "postgres",
    "pw",
}.union(("pwd", "root", "secret", "test", "token", "user", "xxx", "xxxx", "yourpassword"))


_PORT = re.compile(r"\d{1,5}[?#]")
"""The start of a query or fragment after a port, as in `//host:80?to=a@b`."""


def redact_shapes(text: str) -> str:
    """Return the text with values that have the shape of a secret replaced."""
    for shape in SHAPES:
        # Searching for a fixed text is much cheaper than running some seventy patterns.
        if any(hint in text for hint in shape.hints):
            text = compile_linear(shape.pattern).sub(partial(_replace_shape, shape.kind), text)
    return text


def _replace_shape(kind: str, match: Match) -> str:
    whole, parts = match.group(), match.groupdict()
    value = parts.get("value") or ""
    if (kind == "url-token" and not _looks_secret(value)) or _PORT.match(value) or _is_placeholder(whole, value):
        return whole
    before = parts.get("before") or ""
    # The pattern needs the `@` to tell a password from a port, so the match includes it.
    after = "@" if kind in ("url-password", "url-token") else ""
    return f"{before}[redacted:{kind}]{after}"


def _is_placeholder(whole: str, password: str) -> bool:
    """Return True if the value is an example as in documentation: one repeated letter, plain words, a usual password."""
    if password:
        return password.lower() in _EXAMPLE_PASSWORDS
    return len(set(whole)) < 8 or (whole.replace("-", "").replace("_", "").isalpha() and whole.islower())
