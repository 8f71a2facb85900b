"""What became of a message to the manager. Pure, and apart from the client, which loads an HTTP library."""

from enum import Enum


class Outcome(Enum):
    """What became of a message."""

    DELIVERED = "delivered"
    LOST = "lost"
    """Not known to have arrived, or not taken for now: send it again later."""
    REFUSED = "refused"
    """The manager will never take it."""
    GONE = "gone"
    """This incarnation is no longer the current one: nobody wants its reports."""
