"""Version 1 of the messages between sidecars and their manager; the sidecar owns them.

Decoding validates: every number is finite, every text bounded, and an error names the field. Unknown fields
are ignored, so that either side may be upgraded first. Times are ages (seconds before sending), never
points in time: the clocks of two machines need not agree.
"""

from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate

SCHEMA: Final = 1
MAX_MESSAGE_BYTES: Final = 65536
MAX_PAUSE_SECONDS: Final = 3600.0
MAX_HANG_LINES: Final = 5
MAX_HANG_LINE: Final = 200
MAX_DEVICES: Final = 64

_LABEL = "[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
ReplicaName = Annotated[
    str, Meta(max_length=600, pattern=rf"^{_LABEL}/{_LABEL}/(worker|ps)/(0|[1-9][0-9]{{0,5}})\Z")
]
"""Identity of a replica, `namespace/job/role/index`, stable over moves."""
Identifier = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._:/-]+\Z")]
Text = Annotated[str, Meta(max_length=512)]
Path = Annotated[str, Meta(min_length=1, max_length=4096)]
Count = Annotated[int, Meta(ge=0, le=2**62)]
Age = Annotated[float, Meta(ge=0, le=1e10)]
Amount = Annotated[float, Meta(ge=0, le=1e18)]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class _Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    pass


class Observation(_Message, frozen=True):
    """One sample as it travels: `value` is None where the log had NaN or an infinity."""

    name: Text
    value: float | None
    age: Age
    step: Count | None = None


class Checkpoint(_Message, frozen=True):
    """A saved state of a replica that is complete; verified once its digest was taken."""

    step: Count
    path: Path
    digest: Digest | None = None
    """SHA-256 of the bytes read of it; None while nobody had to rely on it."""
    read: Literal["whole", "sampled"] | None = None
    """How much was read: all of it, or what tells of the rest; None: a sidecar that read all did not say."""
    told: bool = False
    """Whether it tells its step itself: else that is the log's when it was first seen, or nobody said."""

    @property
    def verified(self) -> bool:
        """Whether it was found whole, and the digest taken of the bytes read."""
        return self.digest is not None


class Hang(_Message, frozen=True):
    """What shows that a trainer hangs: no step for many times the usual while its processes wait."""

    age: Age
    """Since when that is known, seconds."""
    silent: Age
    """For how long there was no step, seconds; time in which it was kept from training is left out."""
    usual: Age
    """The usual time between two steps that its log names, seconds."""
    processes: Annotated[str, Meta(max_length=MAX_HANG_LINE)] = ""
    """How many processes are in which state and what they use, in words."""
    lines: Annotated[
        tuple[Annotated[str, Meta(max_length=MAX_HANG_LINE)], ...], Meta(max_length=MAX_HANG_LINES)
    ] = ()
    """The last lines of its log, shortened: for its owner alone."""


class Share(_Message, frozen=True):
    """Whether a trainer whose owner asked for it can run in turns with others on the same GPUs."""

    why: Text = ""
    """Why it cannot; empty: it can."""
    devices: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=128)], ...], Meta(max_length=MAX_DEVICES)
    ] = ()
    """The GPUs that its container has, by names that mean the same in all pods of its node."""


class Report(_Message, frozen=True):
    """What a sidecar says of its replica: at once on a change of category, else as a heartbeat."""

    schema: Literal[1]
    replica: ReplicaName
    incarnation: Identifier
    session: Identifier
    """Names the sidecar process: its sequence numbers start with it."""
    sequence: Count
    """Rises with each report of a session, so that a doubled or late one is harmless."""
    category: Category
    category_age: Age = 0.0
    """Since when the category holds, seconds."""
    reason: Text = ""
    first: Observation | None = None
    """First sample of this incarnation: the proof of a resume."""
    last: Observation | None = None
    former: Observation | None = None
    """How far the incarnation before came, by the log that both write; without a name and a value.

    The manager may have heard less: reports are seconds apart, and none arrives during an outage.
    """
    gain: Amount | None = None
    total_steps: Count | None = None
    expected_gain: Estimate | None = None
    remaining_seconds: Estimate | None = None
    confidence: Annotated[float, Meta(ge=0, le=1)] | None = None
    """How sure the classifier `horizon` is that next to nothing is still to come."""
    remaining_gain: Estimate | None = None
    """Expected gain still to come before the job ends, as a share of its gain so far (`horizon`)."""
    until_converged: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Part of the remaining time after which next to no gain is still to come (`horizon`)."""
    overfitting: bool = False
    """Whether validation got worse again since long; a remark beside the category, which it never changes."""
    lines: Count = 0
    samples: Count = 0
    unparsed: Count = 0
    checkpoint: Checkpoint | None = None
    cpu_seconds: Amount | None = None
    memory_bytes: Count | None = None
    stopped_seconds: Amount | None = None
    """For how long this incarnation was stopped so that others could train; no age above counts that time."""
    format: Text | None = None
    hang: Hang | None = None
    """Set while its trainer hangs; what a sidecar without this field means is that nobody knows."""
    share: Share | None = None
    """Only where the pod asks for slices of time; a sidecar without this field never runs in turns."""
    ended: bool = False
    """The last report of this incarnation: its trainer is gone."""


class CheckpointInstruction(_Message, frozen=True, tag="checkpoint"):
    """Have the trainer write a checkpoint, verify it and acknowledge within so many seconds."""

    id: Identifier
    seconds_left: Age
    pause: Annotated[float, Meta(ge=0, le=MAX_PAUSE_SECONDS)] = 0.0
    """For how long the trainer is to pause once that checkpoint is verified, seconds; 0: it trains on."""


class ReleaseInstruction(_Message, frozen=True, tag="release"):
    """Let a trainer that pauses since a request train on.

    Only a sidecar that acknowledged with `paused` knows of it: an older one refuses all instructions with it.
    """

    id: Identifier
    request: Identifier
    """The id of the instruction that asked it to pause."""


class StopInstruction(_Message, frozen=True, tag="stop"):
    """Say farewell and end; the trainer is not touched."""

    id: Identifier


class IntervalInstruction(_Message, frozen=True, tag="interval"):
    """Send heartbeats every so many seconds from now on."""

    id: Identifier
    seconds: Annotated[float, Meta(ge=0.1, le=3600)]


Instruction = CheckpointInstruction | ReleaseInstruction | StopInstruction | IntervalInstruction


class Instructions(_Message, frozen=True):
    """What the manager wants; repeated until each is acknowledged, and harmless when seen twice."""

    schema: Literal[1]
    instructions: Annotated[tuple[Instruction, ...], Meta(max_length=16)] = ()


class Turn(_Message, frozen=True):
    """A part of each period, seconds."""

    begin: Annotated[float, Meta(ge=0, le=60)]
    length: Annotated[float, Meta(ge=0, le=60)]


class Turns(_Message, frozen=True):
    """When a trainer runs for a few seconds to come; a sidecar that can share asks for it again and again.

    An older sidecar never asks. Without turns nobody is stopped, and neither after those seconds.
    """

    schema: Literal[1]
    id: Annotated[str, Meta(max_length=64, pattern=r"^[a-z0-9]*\Z")] = ""
    """Another one where the turns are others; empty: there are none."""
    period: Annotated[float, Meta(gt=0, le=60)] = 1.0
    """Seconds after which the turns begin again."""
    on: Annotated[tuple[Turn, ...], Meta(max_length=64)] = ()
    """In their order; one may go on at the begin of the next period."""
    clock: Age = 0.0
    """What the manager's clock says as it answers, seconds: turns are on that clock, modulo the period."""
    seconds: Annotated[float, Meta(ge=0, le=10)] = 0.0
    """For how long this holds."""


class Acknowledgement(_Message, frozen=True):
    """The answer to an instruction: done (with the checkpoint that was asked for) or why not."""

    schema: Literal[1]
    replica: ReplicaName
    incarnation: Identifier
    id: Identifier
    done: bool
    checkpoint: Checkpoint | None = None
    reason: Text = ""
    paused: bool = False
    """Whether the trainer is kept from training on, for as long as was asked for, or until it is released."""
    age: Age = 0.0
    """Since when the answer is known, seconds: a manager that was away hears it late, and the trainer trained
    on. A sidecar of version 0.1 does not say; then it counts from its arrival."""


class Resumable(_Message, frozen=True):
    """From which checkpoint an incarnation may go on; none where nothing went before it."""

    schema: Literal[1]
    checkpoint: Checkpoint | None = None


_ENCODER: Final = msgspec.json.Encoder()


def encode(message: Struct) -> bytes:
    """Return the message as JSON."""
    return _ENCODER.encode(message)


class WireError(ValueError):
    """A message that is not of this protocol; the text names the field."""


def decode_report(body: bytes) -> Report:
    """Return the report in `body`; raises WireError naming the field that is wrong."""
    return _decode(_REPORT, body)


def decode_acknowledgement(body: bytes) -> Acknowledgement:
    """Return the acknowledgement in `body`; raises WireError naming the field that is wrong."""
    return _decode(_ACKNOWLEDGEMENT, body)


def decode_instructions(body: bytes) -> Instructions:
    """Return the instructions in `body`; raises WireError naming the field that is wrong."""
    return _decode(_INSTRUCTIONS, body)


def decode_turns(body: bytes) -> Turns:
    """Return the turns in `body`; raises WireError naming the field that is wrong."""
    return _decode(_TURNS, body)


def decode_resumable(body: bytes) -> Resumable:
    """Return from where to go on, as `body` says; raises WireError naming the field that is wrong."""
    return _decode(_RESUMABLE, body)


_RESUMABLE: Final = msgspec.json.Decoder(Resumable)
_TURNS: Final = msgspec.json.Decoder(Turns)
_REPORT: Final = msgspec.json.Decoder(Report)
_ACKNOWLEDGEMENT: Final = msgspec.json.Decoder(Acknowledgement)
_INSTRUCTIONS: Final = msgspec.json.Decoder(Instructions)
_M = TypeVar("_M")


def _decode(decoder: "msgspec.json.Decoder[_M]", body: bytes) -> _M:
    if len(body) > MAX_MESSAGE_BYTES:
        raise WireError(f"message of {len(body)} bytes is longer than {MAX_MESSAGE_BYTES}")
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(str(error)) from error
