"""What can be wrong with a template, or with a conversation under it."""

from ...errors import ConvertError


class Beyond(ConvertError):
    """The template does what rules cannot."""


class Rejected(Exception):
    """The template raised an error of its own for a conversation."""


class NoRule(Exception):
    """The rules have no form for a conversation."""
