"""The registries that there are, one row each, and how a text names a skill of one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from prowess.errors import Invalid
from prowess.net.request import HttpClient
from prowess.net.target import parse_target
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.sources.registries import clawhub, prowess_registry, skills_sh
from prowess.sources.registries.registry import Registry, check_id

DEFAULT_REGISTRY = skills_sh.NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """Where registries are, and which one is used by default."""

    default: str = DEFAULT_REGISTRY
    skills_sh_key: str = field(default="", repr=False)
    prowess_url: str = ""
    prowess_key: str = ""
    prowess_token: str = field(default="", repr=False)
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Variables that the registries' own command lines read: SKILLS_API_URL, SKILLS_DOWNLOAD_URL, CLAWHUB_REGISTRY."""
    limits: Limits = DEFAULT_LIMITS


def _open_skills_sh(settings: RegistrySettings, client: HttpClient) -> Registry:
    return skills_sh.SkillsShRegistry(
        client,
        api_url=settings.environment.get("SKILLS_API_URL", "").strip(),
        download_url=settings.environment.get("SKILLS_DOWNLOAD_URL", "").strip(),
        key=settings.skills_sh_key,
        limits=settings.limits,
    )


def _open_clawhub(settings: RegistrySettings, client: HttpClient) -> Registry:
    url = settings.environment.get("CLAWHUB_REGISTRY", "").strip()
    return clawhub.ClawHubRegistry(client, url=url, limits=settings.limits)


def _open_prowess(settings: RegistrySettings, client: HttpClient) -> Registry:
    return prowess_registry.ProwessRegistry(
        client, url=settings.prowess_url, key=settings.prowess_key, token=settings.prowess_token, limits=settings.limits
    )


REGISTRIES: Mapping[str, Callable[[RegistrySettings, HttpClient], Registry]] = {
    skills_sh.NAME: _open_skills_sh,
    clawhub.NAME: _open_clawhub,
    prowess_registry.NAME: _open_prowess,
}
"""Every registry, by the name that people give it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySkill:
    """A skill of a registry that someone named."""

    registry: Registry
    id: str


def open_registry(name: str, settings: RegistrySettings, client: HttpClient) -> Registry:
    """Return a registry by its name, or the default one for ''."""
    chosen = name or settings.default
    opener = REGISTRIES.get(chosen)
    if opener is None:
        raise Invalid(f"Unknown registry {chosen[:80]!r}.", hint=f"Use one of: {', '.join(REGISTRIES)}.")
    return opener(settings, client)


def find_registry_skill(
    source: str, settings: RegistrySettings, client: HttpClient, *, skill_id: str = "", registry: str = ""
) -> RegistrySkill:
    """Return which skill a text names: `owner/repo/skill`, `owner/repo` with `skill_id`, `REGISTRY:ID`, or its page's URL.

    Raise `Invalid` if no registry has such ids. Nothing is asked.
    """
    text = source.strip()
    if "://" in text:
        parse_target(text)
        for name in REGISTRIES:
            opened = open_registry(name, settings, client)
            found = opened.find_id(text)
            if found is not None:
                return RegistrySkill(registry=opened, id=found)
        raise Invalid(
            f"{text[:200]!r} is not a page of a skill in a registry.",
            hint=f"Use an id from `prowess registry search`, or a page of: {', '.join(REGISTRIES)}.",
        )
    prefix, colon, rest = text.partition(":")
    if colon:
        registry, text = prefix, rest
    elif text in REGISTRIES:
        registry, text = text, ""
    opened = open_registry(registry, settings, client)
    whole = "/".join(part for part in (text, skill_id.strip()) if part)
    return RegistrySkill(registry=opened, id=check_id(whole, "owner/repo/skill"))
