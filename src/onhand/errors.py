"""Every exception that onhand raises on purpose; each message says what to do next.

OnhandError
├── InputError       the caller passed something invalid (a door answers "invalid argument")
│   ├── ConfigError  a configuration file, environment variable or flag is invalid
│   └── NotFound     nothing has the given name
├── StoreError       the store is unusable: damaged, read-only, full or too new
├── EmbedderError    a text cannot be embedded: no model, another model, an invalid vector
├── ModelError       a model cannot be reached or does not answer properly
├── SandboxError     a command cannot be sandboxed as requested, so it was not started
├── UpstreamError    an upstream MCP server is unavailable
├── MissingExtra     a feature needs packages that are not installed
├── Cancelled        the caller is gone or its deadline has passed
├── Busy             too many requests at once
├── Unauthenticated  the caller did not authenticate
├── RemoteError      a server could not be reached, or failed
└── ToolError        text addressed to the model: what it should change in its next call
"""


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'onhand[{extra}]'"


class OnhandError(Exception):
    """Base of every error that onhand raises on purpose."""


class InputError(OnhandError):
    """The caller passed something invalid; `field` names the argument if it is known."""

    def __init__(self, message: str = "", field: str = "") -> None:
        self.field = field
        super().__init__(message)


class ConfigError(InputError):
    """A configuration file, environment variable or flag is invalid."""


class NotFound(InputError):
    """Nothing has the name that the caller gave."""


class StoreError(OnhandError):
    """The store is unusable: damaged, read-only, full or too new."""


class EmbedderError(OnhandError):
    """A text cannot be embedded, or not by the model that the index was built with."""


class ModelError(OnhandError):
    """A model cannot be reached or does not answer properly."""


class SandboxError(OnhandError):
    """A command cannot be sandboxed as requested, so it was not started."""


class UpstreamError(OnhandError):
    """An upstream MCP server is unavailable."""


class MissingExtra(OnhandError):
    """A feature needs packages of an extra that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        self.feature = feature
        self.extra = extra
        super().__init__(f"{feature} needs the '{extra}' extra: {install_command(extra)}")


class Cancelled(OnhandError):
    """The caller no longer waits for the result."""


class Busy(OnhandError):
    """There are too many requests at once."""


class Unauthenticated(OnhandError):
    """The caller did not authenticate."""


class RemoteError(OnhandError):
    """A server could not be reached, or failed; `code` is its protocol's status code."""

    def __init__(self, message: str, code: str = "") -> None:
        self.code = code
        super().__init__(message)


class ToolError(OnhandError):
    """A tool refuses or fails; the text is for the model, and `structured` may say the same as JSON."""

    def __init__(self, message: str = "", structured: object = None) -> None:
        self.structured = structured
        super().__init__(message)
