"""What a family of logs is: a declaration, which `family_parser` reads lines by.

Adding one is an entry in a module of `families` and a file in `tests/sidecar/formats/samples`.
"""

from typing import Final

import msgspec

from specon_sidecar.formats.number import NUMBER

SIGNED: Final = "signed"
"""Pairs as in `loss: 0.5` and `loss=0.5`."""
BLANK: Final = "blank"
"""Pairs as in `loss 0.5`."""
NUM: Final = "(?:" + NUMBER.decode() + ")"
"""A number, for the expressions of an entry."""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """How the lines of one framework are recognised, and what they hold.

    The expressions are searched in the line without its prefixes (`prefixes.strip`), so one that must stand
    at the start needs its `^`. The time of a search grows no faster than the line: text sought once
    (`^(?>.*?begin).*end`) is not sought again from each place where it could begin. Their named groups say
    the place: `step` and `total` of the whole training, `i` of `n` within an epoch, `epoch`, `epochs` (the
    total). Without any of these the names on the line say it. `name` and `value` are the metric itself;
    without them it is chosen among the pairs.
    """

    name: str
    writers: str
    """What prints it, for people."""
    needles: tuple[bytes, ...]
    """Bytes that are all in each line with a sample: looked for before anything else."""
    line: str
    """Recognises a line with a sample of the training."""
    also: str = ""
    """Recognises further lines, of validation, that count only where a metric was named."""
    pair: str = SIGNED
    """How names and numbers stand: `SIGNED`, `BLANK`, or an expression with two groups."""
    metrics: tuple[str, ...] = ()
    """Expressions over whole names, in order of preference, before the general rule."""
    only: bool = False
    """Whether nothing but `metrics` counts."""
    place: str = ""
    """A second expression for the place, where it stands in no fixed order with the rest."""
    context: tuple[bytes, str] | None = None
    """A needle, and the expression of a line whose place holds for the lines that follow."""
    above: str = ""
    """Expression over whole names whose values stand above the context that places them: rows of a table."""
    skip_after: bytes = b""
    """A line with these bytes says that the next sample is a repetition."""
    last_of_epoch: bool = False
    """Whether values are running means of the epoch, so that its last one counts."""
    is_bar: bool = False
    """Whether `i` of `n` is a bar, which may count the training or begin again in each epoch."""
    bar_beside: bool = False
    """Whether a bar that is written behind each record tells its step."""
    goal_known: bool = True
    """Whether the name of the metric tells if less or more is better."""
    weight: int = 3
    """How much a sample counts as evidence, beside 1 of the generic formats."""

    def sought(self) -> tuple[bytes, ...]:
        """Return byte strings; each line that the family has a use for contains one of them."""
        context = () if self.context is None else (self.context[0],)
        bars = (b"%|", b"% ") if self.bar_beside else ()
        return tuple(one for one in (self.needles[0], *context, self.skip_after, *bars) if one)
