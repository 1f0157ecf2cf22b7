"""Build artifacts from settings, check them against each other, and report every problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from prowess.errors import Problem
from prowess.skill.forms.data import parse_json
from prowess.skill.forms.form import error, warning
from prowess.skill.forms.sidecar_file import unknown_field_problem
from prowess.skill.kinds import KINDS, Artifact, DspyModule, JsonObject, PromptTemplate, is_plugin_kind, kind_info
from prowess.suggestions import did_you_mean

MAX_ARTIFACTS = 400
"""The maximum number of artifacts per skill."""

_SHOWN = 10
_BY_STORE = frozenset({"id", "skill_id", "revision"})
_STORE_FIELDS = _BY_STORE | {"content"}


def build_artifact(settings: JsonObject, entry: JsonObject, where: str, problems: list[Problem]) -> Artifact | None:
    """Build the artifact from an entry of `agents/prowess.yaml` and the file that it names, or report why not."""
    kind = settings.get("kind")
    if isinstance(kind, str) and kind not in KINDS and is_plugin_kind(kind):
        message = f"{where} has the kind {kind!r}, which is not installed. It is kept, but cannot run."
        problems.append(
            warning("kind-not-installed", message, "Install the plugin that provides this kind.", field=where)
        )
        fields = {name: value for name, value in settings.items() if name not in _BY_STORE}
        return artifact_from(fields, where, problems)
    if not isinstance(kind, str) or kind not in KINDS:
        one_of = f"one of: {', '.join(KINDS)}."
        if kind is None:
            message, hint = f"{where} has no kind, and its path does not say which.", f"Add `kind: …`, {one_of}"
        else:
            message = f"{where} has the unknown kind {kind!r}."
            hint = did_you_mean(str(kind), KINDS, count=1) or f"Use {one_of}"
        problems.append(error("unknown-kind", message, hint, field=where))
        return None
    model = KINDS[kind].model
    known = [name for name in model.model_fields if name not in _STORE_FIELDS]
    unknown = [name for name in entry if name not in known and name != "state"][:_SHOWN]
    problems += [unknown_field_problem(f"{where}.{name}", name, known) for name in unknown]
    # Unknown settings are reported above and dropped, or the model would refuse the whole artifact because of them.
    usable = {name: value for name, value in settings.items() if name in model.model_fields}
    return artifact_from(usable, where, problems)


def artifact_from(settings: JsonObject, where: str, problems: list[Problem]) -> Artifact | None:
    """Build the artifact with these settings, or return None and report why."""
    try:
        return kind_info(settings["kind"]).model.model_validate(settings)
    except ValidationError as invalid:
        for fault in invalid.errors(include_url=False, include_input=False):
            field = ".".join([where, *[str(part) for part in fault["loc"]]])
            message = f"{field}: {fault['msg']}."
            problems.append(error("artifact-invalid", message, "Fix or remove it.", field=field))
        return None


def limit_entries(entries: Sequence[Any], problems: list[Problem]) -> Sequence[Any]:
    """Return at most `MAX_ARTIFACTS` entries, and report if there are more."""
    if len(entries) > MAX_ARTIFACTS:
        message = f"The skill has {len(entries):,} artifacts; the limit is {MAX_ARTIFACTS:,}. The rest are not read."
        problems.append(error("too-many-artifacts", message, "Split it into several skills.", field="artifacts"))
    return entries[:MAX_ARTIFACTS]


def check_artifacts(artifacts: Iterable[Artifact], problems: list[Problem]) -> list[Artifact]:
    """Return the artifacts with each name and variant once, and report inconsistencies."""
    kept: dict[tuple[str, str | None], Artifact] = {}
    for artifact in artifacts:
        key = (artifact.name, artifact.variant)
        if key in kept:
            problems.append(_duplicate_problem(artifact, kept[key]))
        else:
            kept[key] = artifact
    names = {name for name, _ in kept}
    others = names - {artifact.name for artifact in kept.values() if isinstance(artifact, PromptTemplate)}
    for artifact in kept.values():
        _check_fallback(artifact, names, problems)
        if isinstance(artifact, DspyModule):
            _check_dspy(artifact, others, problems)
    _check_cycles(list(kept.values()), problems)
    return list(kept.values())


def _duplicate_problem(artifact: Artifact, other: Artifact) -> Problem:
    variant = f" (variant {artifact.variant})" if artifact.variant else ""
    places = " and ".join(duplicate.path or duplicate.kind for duplicate in (other, artifact))
    message = f"Two artifacts are named {artifact.name!r}{variant}: {places}."
    return error("duplicate-artifact", message, "Rename one of them.", field=artifact.name)


def _check_fallback(artifact: Artifact, names: set[str], problems: list[Problem]) -> None:
    if artifact.fallback is not None and artifact.fallback not in names - {artifact.name}:
        message = (
            f"The fallback of {artifact.name!r} is {artifact.fallback!r}, which is not another artifact of this skill."
        )
        others = sorted(names - {artifact.name})[:_SHOWN]
        hint = f"Use for example: {', '.join(others)}." if others else "Add the missing artifact."
        problems.append(error("unknown-fallback", message, hint, field=artifact.name))


def _check_cycles(artifacts: Sequence[Artifact], problems: list[Problem]) -> None:
    """Report each cycle of fallbacks once."""
    # Variants of one name may have their own fallbacks, so that there can be several ways on.
    after: dict[str, set[str]] = {}
    for artifact in artifacts:
        if artifact.fallback is not None and artifact.fallback != artifact.name:
            after.setdefault(artifact.name, set()).add(artifact.fallback)
    done: set[str] = set()
    for start in after:
        cycle = _find_cycle(start, after, done)
        if cycle:
            message = f"The fallbacks form a cycle: {' → '.join([*cycle, cycle[0]])}."
            hint = f"Remove the fallback of {cycle[-1]!r}, or choose an artifact outside the cycle."
            problems.append(error("fallback-cycle", message, hint, field=cycle[0]))


def _find_cycle(start: str, after: Mapping[str, set[str]], done: set[str]) -> list[str]:
    """Return the first cycle reachable from a name, or []; names in `done` are not visited again."""
    path: list[str] = []
    waiting = [(start, 0)]
    while waiting:
        name, depth = waiting.pop()
        del path[depth:]
        if name in path:
            return path[path.index(name) :]
        if name not in done:
            done.add(name)
            path.append(name)
            waiting += [(follower, len(path)) for follower in sorted(after.get(name, ()))]
    return []


def _check_dspy(artifact: DspyModule, not_templates: set[str], problems: list[Problem]) -> None:
    if artifact.fallback in not_templates:
        message = f"The fallback of the dspy_module {artifact.name!r} is {artifact.fallback!r}, not a prompt_template."
        hint = "Set `fallback` to a prompt_template of this skill."
        problems.append(error("dspy-fallback-kind", message, hint, field=artifact.name))
    if artifact.fallback is None:
        message = f"{artifact.name!r} is a dspy_module without a fallback."
        hint = "Set `fallback` to a prompt_template of this skill, for systems without DSPy."
        problems.append(error("dspy-without-fallback", message, hint, field=artifact.name))
    if not isinstance(artifact.settings.get("template_id"), str):
        message = f"The content of {artifact.name!r} must be a JSON object with a template_id."
        hint = 'For example: {"template_id": "chain_of_thought", "signature": "question -> answer"}.'
        problems.append(warning("dspy-content-invalid", message, hint, field=artifact.name))
    if artifact.state is not None:
        _check_state(artifact.name, artifact.state, problems)


def _check_state(name: str, state: str, problems: list[Problem]) -> None:
    from prowess.skill.dspy_state import read_state  # few skills have one, and its models take time to build

    try:
        read_state(state)
    except ValueError as fault:
        message = f"The saved state of {name!r} cannot be used: {fault}. Its fallback runs instead."
        hint = "Use the JSON that module.save(path, save_program=False) writes, or remove it."
        problems.append(warning("dspy-state-invalid", message, hint, field=name))


def json_object(text: str) -> JsonObject | None:
    """Parse a JSON object, or return None if it is invalid or over the limits."""
    return parse_json("", text.encode("utf-8", "surrogatepass")).object
