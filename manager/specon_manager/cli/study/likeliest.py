"""What a log that nobody recognised could be: the readings that a word of its owner would make possible."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from specon_sidecar.formats.detect import Evidence
from specon_sidecar.formats.metric_names import is_metric
from specon_sidecar.formats.name_words import words
from specon_sidecar.formats.position_keys import position_of
from specon_sidecar.formats.reader import Reader

MOST: Final = 3
_MOST_LINES: Final = 2000
_MOST_BYTES: Final = 4 << 20
_MOST_NAMES: Final = 1024
_TRIED: Final = 12
_LONGEST: Final = 4096
# Words of configurations, of speeds and of machines.
_NO_METRIC: Final = frozenset(
    {
        *(
            "alpha",
            "beta",
            "gamma",
            "epsilon",
            "momentum",
            "decay",
            "dropout",
            "lr",
            "rate",
            "warmup",
            "seed",
        ),
        *(
            "pid",
            "id",
            "rank",
            "port",
            "host",
            "worker",
            "workers",
            "thread",
            "threads",
            "gpu",
            "cpu",
            "cuda",
        ),
        *(
            "size",
            "dim",
            "layers",
            "heads",
            "params",
            "parameters",
            "version",
            "num",
            "number",
            "total",
            "max",
        ),
        *(
            "time",
            "sec",
            "secs",
            "seconds",
            "ms",
            "eta",
            "elapsed",
            "speed",
            "throughput",
            "tokens",
            "samples",
        ),
        *(
            "memory",
            "mem",
            "mb",
            "gb",
            "date",
            "line",
            "lineno",
            "code",
            "status",
            "year",
            "norm",
            "patience",
        ),
    },
)
_PAIR: Final = re.compile(
    rb"([A-Za-z_][\w/.-]{0,60}+(?: [A-Za-z_][\w/.-]{0,60}+){0,2}+)[\"']?\s{0,4}+[:=]\s{0,4}+[\"']?[-+]?\.?\d"
)
_COLUMN: Final = re.compile(rb"[A-Za-z_][\w/. -]{0,60}")


class FormatGuess(Struct, frozen=True):
    """One way to read the log."""

    format: str
    metric: str
    evidence: Evidence


class Names:
    """Keeps the head of a log and counts the names of its numbers."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._bytes = 0
        self._counts: Counter[str] = Counter()

    def take(self, lines: Sequence[bytes]) -> None:
        """Take the next lines; those after the head count no more."""
        for line in lines:
            if len(self.lines) >= _MOST_LINES or self._bytes > _MOST_BYTES:
                return
            self.lines.append(line)
            self._bytes += len(line)
            for name in _names(line[:_LONGEST]):
                if name in self._counts or len(self._counts) < _MOST_NAMES:
                    self._counts[name] += 1

    def readings(self, found: Sequence[Evidence], reader: Callable[[str], Reader]) -> list[FormatGuess]:
        """Return the likeliest readings, best first: what the detection found, then metrics by their name.

        `reader` makes a reader that is told the metric.
        """
        readings = [
            FormatGuess(one.format, one.last.name, one) for one in found[:MOST] if one.last is not None
        ]
        named = [name for name, _ in self._counts.most_common() if is_worth_following(name)]
        for name in sorted(named, key=lambda name: not is_metric(name))[:_TRIED]:
            if len(readings) >= MOST:
                break
            tried = reader(name)
            tried.read(self.lines)
            tried.finish()
            evidence = next(iter(tried.evidence), None)
            if tried.chosen is not None and evidence is not None and _varies(evidence):
                readings.append(FormatGuess(tried.chosen, name, evidence))
        return readings


def is_worth_following(name: str) -> bool:
    """Whether a name may be a metric's: not `alpha`, `pid` or `batch_size`."""
    return _NO_METRIC.isdisjoint(words(name))


def _varies(evidence: Evidence) -> bool:
    first, last = evidence.first, evidence.last
    return first is not None and last is not None and first.value != last.value


def _names(line: bytes) -> Iterator[str]:
    found = {match.decode("utf-8", "replace") for match in _PAIR.findall(line)}
    if not found and b"," in line:
        cells = [cell.strip() for cell in line.split(b",")]
        if all(_COLUMN.fullmatch(cell) for cell in cells):
            found = {cell.decode("utf-8", "replace") for cell in cells}
    yield from (name for name in sorted(found) if position_of(name) is None and name != "run")
