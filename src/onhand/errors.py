"""What can go wrong? One tree, drawn here; every message says what to do next.

OnhandError
├── InputError      what the caller passed cannot be used (a door answers "invalid argument")
│   ├── ConfigError a configuration file, variable or flag cannot be used
│   └── NotFound    there is nothing of the name that the caller gave
├── StoreError      where documents are kept cannot be used: damaged, read-only, full, too new
├── EmbedderError   what a text means cannot be worked out: no model, another model, a bad vector
├── ModelError      a model cannot be asked, or does not answer as it should
├── SandboxError    a command cannot be confined as asked, so it was not started
├── UpstreamError   a server that stands behind us cannot be used now
├── MissingExtra    a feature needs packages that are not installed
├── Unwanted        whoever asked has gone, or its time is over
├── Busy            too much was asked for at once
├── Refused         the caller did not show that it may ask
├── RemoteError     a server could not be asked, or failed
└── ToolError       text addressed to the model: what it should change in its next call
"""


def install_command(extra: str) -> str:
    """What to type to have the packages of an extra."""
    return f"pip install 'onhand[{extra}]'"


class OnhandError(Exception):
    """Base of every error that onhand raises on purpose."""


class InputError(OnhandError):
    """The caller passed something that cannot be used; `field` names the argument, where that is known."""

    def __init__(self, message: str = "", field: str = "") -> None:
        self.field = field
        super().__init__(message)


class ConfigError(InputError):
    """A configuration file, environment variable or flag cannot be used."""


class NotFound(InputError):
    """There is nothing of the name that the caller gave."""


class StoreError(OnhandError):
    """Where documents are kept cannot be used."""


class EmbedderError(OnhandError):
    """What a text means cannot be worked out, or not by the model that the index was made with."""


class ModelError(OnhandError):
    """A model cannot be asked, or does not answer as it should."""


class SandboxError(OnhandError):
    """A command cannot be confined as it was asked to be, so it was not started."""


class UpstreamError(OnhandError):
    """A server that stands behind us cannot be used now, or not at all."""


class MissingExtra(OnhandError):
    """A feature needs packages of an extra that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        self.feature = feature
        self.extra = extra
        super().__init__(f"{feature} needs the '{extra}' extra: {install_command(extra)}")


class Unwanted(OnhandError):
    """Nobody waits for the answer any more."""


class Busy(OnhandError):
    """Too much was asked for at once."""


class Refused(OnhandError):
    """The caller did not show that it may ask."""


class RemoteError(OnhandError):
    """A server could not be asked, or failed; `code` is what its protocol calls that."""

    def __init__(self, message: str, code: str = "") -> None:
        self.code = code
        super().__init__(message)


class ToolError(OnhandError):
    """A tool refuses or fails; the text is for the model, and a JSON value may say the same to programs."""

    def __init__(self, message: str = "", structured: object = None) -> None:
        self.structured = structured
        super().__init__(message)
