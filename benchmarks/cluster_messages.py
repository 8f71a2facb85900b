"""What `cluster.py` and the processes that it starts say to each other: a line of JSON each."""

from msgspec import Struct


class Order(Struct, frozen=True, kw_only=True):
    """To the API server: create so many Jobs and their pods, which run at once; none: only count."""

    create: int = 0


class Answer(Struct, frozen=True, kw_only=True):
    """Requests so far by method and resource, and when the orders were done (monotonic clock)."""

    requests: dict[str, int]
    began_at: float
    done_at: float


class Noticed(Struct, frozen=True, kw_only=True):
    """Measurements of the manager so far; times in seconds, moments on the monotonic clock.

    The longest of something is that since the answer before.
    """

    idle_cpu: float
    """Processor time that was used before anything was asked for: imports."""
    leads_at: float | None
    ready: bool
    events: dict[str, int]
    news_at: float
    """When the last job or start of a replica was told."""
    longest_block: float
    """Between two beats of the pulse, beyond its pause."""
    longest_block_cpu: float
    """The most processor time that the loop's thread used between two beats."""
    longest_collection: float
    """Of the garbage collector, in processor time."""


class Read(Struct, frozen=True):
    """How many pods, or events of pods, a bare client read, and the processor time that they took."""

    count: int
    cpu_seconds: float


class Poll(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Let so many sidecars wait for instructions."""

    poll: int
    port: int


class Polled(Struct, frozen=True):
    """How long it took until they were all connected, and how many times one was let go before."""

    seconds: float
    lost: int
