"""The state of an observation, as one sidecar hands it to the next. Pure; `state_file` keeps it."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from specon_sidecar.classify import Judgement
from specon_sidecar.classify.curve import CurveState
from specon_sidecar.classify.overfitting import Validation
from specon_sidecar.following.file_position import FilePosition
from specon_sidecar.formats.metric_names import Goal
from specon_sidecar.wire import Observation

_Natural = Annotated[int, Meta(ge=0)]


class Kept(Struct, frozen=True):
    """A checkpoint that its trainer called complete."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    step: _Natural
    fingerprint: Annotated[tuple[int, ...], Meta(min_length=5, max_length=6)] | None = None
    """How it looked then, as `checkpoints.find.Fingerprint` has it; None: an older sidecar did not look."""


class State(Struct, frozen=True, kw_only=True):
    """The state of one replica's observation; times are ages, for the next machine has another clock."""

    schema: Literal[1] = 1
    incarnation: str
    format: str
    """The format that was found; a log without a known format leaves no state."""
    place: FilePosition
    """How far the log was read."""
    event_files: dict[str, FilePosition] = {}
    """How far each event file was read, by its name below the directory; then `place` means nothing."""
    curve: CurveState
    judgement: Judgement
    """With `since` as an age in seconds."""
    goal: Goal | None = None
    """What `judgement` took for better; None was written before goals were found out, and means less."""
    first: Observation | None = None
    """The first sample of the incarnation."""
    former: Observation | None = None
    """How far the incarnation before came, as far as its log shows it; without a name and a value."""
    validation: Validation = Validation()
    """The values of validation beside the curve."""
    lines: _Natural = 0
    samples: _Natural = 0
    kept: Annotated[tuple[Kept, ...], Meta(max_length=16)] = ()
    """The last checkpoints that the trainer announced, oldest first, for the next incarnation."""
    gaps: tuple[float, ...] = ()
    """The latest times between two steps, seconds: for a successor in the same incarnation alone."""
    at: float | None = None
    """When it was taken, on this machine's steady clock: for a successor in the same incarnation alone."""
