"""Lines that a pattern of the job's owner describes, by named groups."""

from typing import Final

from specon_sidecar.formats.metric_choice import MetricChoice
from specon_sidecar.formats.number import to_float, to_step
from specon_sidecar.formats.parser import FormatOptions, LineParser
from specon_sidecar.formats.safe_pattern import LENGTHS, SafePattern, compile_safely
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.wall_time import wall_time

GROUPS: Final = ("value", "step", "epoch", "total", "time", "name")
# Lines for people are shorter than this; a pattern may allow less (`safe_pattern`).
LONGEST_LINE: Final = LENGTHS[0]
_LONGEST_SHOWN: Final = 80  # characters of a pattern in an error


class RegularExpression(LineParser):
    """Parser of lines with one pattern.

    The group `value` is required; `step`, `epoch`, `total`, `time` and `name` are optional. Without a group
    `name` the samples are named after the metric, or "loss". With both, only the lines whose name is the
    metric's count. Only lines up to a length that `safe_pattern` gives are searched: at most `LONGEST_LINE`.
    """

    def __init__(self, options: FormatOptions) -> None:
        self._expression, self._longest = compile_pattern(options.pattern)
        self._metric = options.metric
        self.choice = MetricChoice(options.metric or "loss")
        self._groups = frozenset(self._expression.groupindex)

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of the first match in this line."""
        if len(line) > self._longest:
            return None
        match = self._expression.search(line)
        if match is None:
            return None
        fields = match.groupdict()
        value = to_float(fields["value"])
        if value is None:
            return None
        name = self._metric or "loss"
        printed = fields.get("name")
        if printed is not None:
            name = printed.decode("utf-8", "replace")
            if self._metric is not None and name.casefold() != self._metric.casefold():
                return None
        epoch = to_float(fields.get("epoch"))
        return Sample(
            name=name,
            value=value,
            step=to_step(fields.get("step")),
            epoch=epoch if epoch is not None and 0 <= epoch < float("inf") else None,
            total_steps=to_step(fields.get("total")),
            time=wall_time(fields.get("time")),
        )


def compile_pattern(pattern: str | None) -> SafePattern:
    """Return the pattern, compiled, and which lines it may search.

    For any text this raises nothing but ValueError, which names the pattern, shortened: where it cannot
    describe a sample, is no regular expression, is too long or too slow. It costs some 20 ms of processor
    time at most. What can be said of any expression is in `safe_pattern`.
    """
    if not pattern:
        raise ValueError(
            "pattern is missing: the format regular-expression needs one with a group (?P<value>...)"
        )
    shown = repr(pattern if len(pattern) <= _LONGEST_SHOWN else f"{pattern[:_LONGEST_SHOWN]}…")
    try:
        safe = compile_safely(pattern)
    except ValueError as error:
        raise ValueError(f"pattern {shown} {error}") from None
    groups = safe.expression.groupindex
    if "value" not in groups:
        raise ValueError(f"pattern {shown} has no group (?P<value>...)")
    strange = sorted(set(groups) - set(GROUPS))
    if strange:
        raise ValueError(f"pattern {shown} has a group {strange[0]!r}; known are {', '.join(GROUPS)}")
    return safe
