"""What goes wrong with a provider, in our words: one translation for every provider, in which no key survives."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from pydantic_ai import exceptions as theirs

from prowess.errors import AnswerUnusable, ProwessError, RunFailed, TryLater, Unavailable

_TRANSIENT = frozenset({408, 409, 425, 429})
_NOT_OURS = frozenset({401, 402, 403, 404})
_PASSING = (
    theirs.ModelConnectionError,
    theirs.ModelRateLimitError,
    theirs.ModelUnavailableError,
    theirs.ModelServerError,
)
_SHOWN = 300
_FRAGMENT = 8
"""So many characters of a key in a row give it away."""


def translated(
    error: Exception, *, model: str, secrets: Sequence[str], key_hint: str, answered: bool = False
) -> ProwessError:
    """The error of ours that tells of this one. It does not hold on to the original, which may have a key in it.

    Where the provider has `answered`, what went wrong is its answer, and no refusal of the request.
    """
    own = next((one for one in _chain(error) if isinstance(one, ProwessError)), None)
    if own is not None:
        return own
    said = _said(error, secrets)
    if isinstance(error, theirs.ModelHTTPError):
        return _of_status(error, model, said, key_hint, answered=answered)
    if isinstance(error, _PASSING) or _is_transport(error):
        return TryLater(
            f"{model} cannot be reached{said}.",
            hint="Check the network and the address of the server, or try again later.",
            retry_after=getattr(error, "retry_after", None),
        )
    if isinstance(error, theirs.ContentFilterError):
        return AnswerUnusable(f"{model} refuses to answer{said}.", hint="Change the request, or use another model.")
    if answered or isinstance(error, theirs.UnexpectedModelBehavior):
        return AnswerUnusable(
            f"The answer of {model} cannot be read{said}.", hint="Check that the server speaks the API."
        )
    return RunFailed(f"{model} did not take the request{said}.", hint="Change the request, or use another model.")


def broken_off(error: ProwessError, *, model: str) -> ProwessError:
    """The same for what went wrong after a part of the answer was there: nobody is asked again for the rest of it."""
    if isinstance(error, RunFailed):
        return error
    return AnswerUnusable(f"The answer of {model} broke off: {error.message}", hint=error.hint)


def _of_status(error: theirs.ModelHTTPError, model: str, said: str, key_hint: str, *, answered: bool) -> ProwessError:
    status = error.status_code
    if isinstance(error, theirs.ModelQuotaExceededError) or status in _NOT_OURS:
        hint = "Check the name of the model, and that the key may use it." if status == 404 else key_hint
        return Unavailable(f"{model} is not to be had: status {status}{said}.", hint=hint)
    if status in _TRANSIENT or status >= 500:
        return TryLater(
            f"{model} is overloaded or out of order: status {status}{said}.",
            hint="Try again later, or use another model.",
            retry_after=error.retry_after,
        )
    kind = AnswerUnusable if answered else RunFailed
    return kind(
        f"{model} refuses the request: status {status}{said}.", hint="Change the request, or use another model."
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _is_transport(error: BaseException) -> bool:
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore2")


def _said(error: Exception, secrets: Sequence[str]) -> str:
    """What the provider says about it, as ` (…)`, or '' where it says nothing or repeats a key."""
    # The further lines of an error are about the insides of a library.
    is_answer = isinstance(error, theirs.ModelHTTPError)
    message = _message(error.body) if is_answer else str(error).strip().partition("\n")[0]
    plain = " ".join("".join(letter if letter.isprintable() else " " for letter in message[:4_000]).split())
    if any(_gives_away(secret, plain) for secret in secrets):
        return " (what it says is left out, since it repeats the key)"
    cut = plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}…"
    return f" ({cut.rstrip('.')})" if cut else ""


def _message(body: object) -> str:
    if isinstance(body, str):
        return body
    if not isinstance(body, Mapping):
        return ""
    fields = cast("Mapping[str, Any]", body)
    inner = fields.get("error")
    if isinstance(inner, Mapping):
        return _message(cast("Mapping[str, Any]", inner))
    message = fields.get("message") or inner
    return message if isinstance(message, str) else ""


def _gives_away(secret: str, text: str) -> bool:
    size = min(_FRAGMENT, len(secret))
    if not size:
        return False
    forms = (secret, base64.b64encode(secret.encode()).decode())
    return any(form[start : start + size] in text for form in forms for start in range(len(form) - size + 1))
