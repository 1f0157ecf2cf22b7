"""Every code of the problems that rendering reports itself, in one line each."""

from __future__ import annotations

CODES: dict[str, str] = {
    "template-include": "A template asks for another template, and there is none to be had.",
    "template-undefined": "A template uses something that is not among its inputs.",
    "template-unknown": "A template uses a filter, test, function or method that is unknown.",
    "template-value": "A template does something with an input that cannot be done with it.",
    "template-values": "The inputs of a template are not plain JSON, or are too large.",
}
