"""What can go wrong? One tree, drawn here; every message says what to do next.

OnhandError
├── InputError      what the caller passed cannot be used (a door answers "invalid argument")
│   ├── ConfigError a configuration file, variable or flag cannot be used
│   └── NotFound    there is nothing of the name that the caller gave
├── StoreError      where documents are kept cannot be used: damaged, read-only, full, too new
├── EmbedderError   what a text means cannot be worked out: no model, another model, a bad vector
├── UpstreamError   a server that stands behind us cannot be used now
├── MissingExtra    a feature needs packages that are not installed
└── ToolError       text addressed to the model: what it should change in its next call
"""


def install_command(extra: str) -> str:
    """What to type to have the packages of an extra."""
    return f"pip install 'onhand[{extra}]'"


class OnhandError(Exception):
    """Base of every error that onhand raises on purpose."""


class InputError(OnhandError):
    """The caller passed something that cannot be used."""


class ConfigError(InputError):
    """A configuration file, environment variable or flag cannot be used."""


class NotFound(InputError):
    """There is nothing of the name that the caller gave."""


class StoreError(OnhandError):
    """Where documents are kept cannot be used."""


class EmbedderError(OnhandError):
    """What a text means cannot be worked out, or not by the model that the index was made with."""


class UpstreamError(OnhandError):
    """A server that stands behind us cannot be used now, or not at all."""


class MissingExtra(OnhandError):
    """A feature needs packages of an extra that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        self.feature = feature
        self.extra = extra
        super().__init__(f"{feature} needs the '{extra}' extra: {install_command(extra)}")


class ToolError(OnhandError):
    """A tool refuses or fails; the text is for the model."""
