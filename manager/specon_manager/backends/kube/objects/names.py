"""Names of the custom resources that belong to replicas and moves. Pure."""

import hashlib
from typing import Final

from msgspec import Struct

from specon_manager.model.transactions import Transaction

_LONGEST: Final = 63
"""Of a label's value, and so of a Migration's name, which labels the pod that holds room for it."""
_HASH: Final = 8
EARLIER_OWNER: Final = "specon.io/owner"
"""In the template of a job as an earlier manager wrote it down, until its owner describes it again: kind and
UID of that owner, both empty where there was none. Another one of that name has another job."""


class Name(Struct, frozen=True, gc=False):
    """Where an object is."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def namespace_of(replica: str) -> str:
    """Return the namespace in the name `namespace/job/role/index`."""
    return replica.partition("/")[0]


def slug(replica: str, longest: int = _LONGEST) -> str:
    """Return a DNS label of at most `longest` characters, another one for each replica of a namespace.

    It is `job-role-index` where that is a label and short enough, else a part of it with a hash.
    """
    plain = "-".join(replica.split("/")[1:])
    label = plain.replace(".", "-")
    if label == plain and len(label) <= longest:
        return label
    digest = hashlib.sha256(replica.encode()).hexdigest()[:_HASH]
    return f"{label[: longest - _HASH - 1].rstrip('-')}-{digest}"


def migration_name(move: Transaction) -> Name:
    """Return where the Migration of a move is, or is to be made.

    A move that somebody asked for has the object it was asked with, whose name is its id. The others are
    called by their replica and the number of the move.
    """
    namespace, asked, name = move.id.partition("/")
    if asked:
        return Name(namespace, name)
    number = move.id.rpartition("-")[2]
    if not (number.isascii() and number.isdigit() and len(number) < 20):  # noqa: PLR2004  (digits of 2**64)
        number = hashlib.sha256(move.id.encode()).hexdigest()[:_HASH]
    return Name(namespace_of(move.replica), f"{slug(move.replica, _LONGEST - len(number) - 1)}-{number}")


def other_name(name: Name, move: Transaction) -> Name:
    """Return a name for the same move where somebody else's object has that one."""
    digest = hashlib.sha256(f"{name}\n{move.id}\n{move.replica}".encode()).hexdigest()[:_HASH]
    return Name(name.namespace, f"{name.name[: _LONGEST - _HASH - 1].rstrip('-')}-{digest}")
