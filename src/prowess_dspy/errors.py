"""The errors of the sidecar. The name of the class is the `type` of the error in the answer.

SidecarError
├── InvalidMessage     a line that is not a message
├── InvalidSignature
├── InvalidState
├── InvalidOptions
├── InvalidParams
├── InvalidData        training or validation rows
├── UnknownTemplate
├── CallFailed         a call was answered with an error; reported with the type that the answer had
├── InvalidOutput      the model's answer does not have the fields of the signature
└── TemplateFailed     the template or the optimizer ended without a result
Stopped                not an Exception, so that DSPy's `except Exception` cannot swallow it
"""

from __future__ import annotations


class SidecarError(Exception):
    """An error that is answered with its type and message."""

    @property
    def type(self) -> str:
        """Return the name that the answer has for this error."""
        return type(self).__name__


class InvalidMessage(SidecarError):
    """The line is not a message."""


class InvalidSignature(SidecarError):
    """The signature is malformed, or has a name or type that is not allowed."""


class InvalidState(SidecarError):
    """The state is malformed, or was made for another program."""


class InvalidOptions(SidecarError):
    """An option is unknown, or has a value that is not allowed."""


class InvalidParams(SidecarError):
    """The parameters lack an input of the signature."""


class InvalidData(SidecarError):
    """A row of data lacks an input of the signature, or there are no rows."""


class UnknownTemplate(SidecarError):
    """No template has this id."""


class InvalidOutput(SidecarError):
    """The model's answer does not have the fields of the signature."""


class TemplateFailed(SidecarError):
    """The template or the optimizer ended without a result."""


class CallFailed(SidecarError):
    """A call to the parent was answered with an error."""

    def __init__(self, type: str, message: str) -> None:
        super().__init__(message)
        self._type = type

    @property
    def type(self) -> str:
        """Return the type that the parent gave."""
        return self._type


class Stopped(BaseException):
    """The request was cancelled, or reached a limit of calls."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
