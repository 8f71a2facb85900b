"""Something to tell of a replica or of a job. Pure."""

from msgspec import Struct


class Note(Struct, frozen=True, kw_only=True):
    """Something to tell of a replica, or of a job as a whole."""

    replica: str
    """The replica, or the job where it is `whole`."""
    reason: str
    """In one CamelCase word, for machines."""
    action: str
    """The action, in one CamelCase word."""
    text: str
    warning: bool = False
    topic: str = ""
    """Notes of one reason and topic say the same, whatever numbers are in their words; empty: the text."""
    whole: bool = False
    """Whether it is about a job as a whole."""
