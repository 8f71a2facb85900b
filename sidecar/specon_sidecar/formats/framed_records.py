"""Records in frames: each row has a name and a value, and rules of dashes stand between the records.

As the loggers of OpenAI Baselines, rllab, Stable-Baselines and guided diffusion write them:

    -------------------------
    | episode_reward | -20.5 |
    | frame          | 1280  |
    -------------------------

rlkit and garage leave out the sides of the frame, and keep name and value apart by two blanks or more.
"""

import re
from typing import Final

from specon_sidecar.formats.metric_choice import MetricChoice
from specon_sidecar.formats.parser import FormatOptions, LineParser
from specon_sidecar.formats.prefixes import strip
from specon_sidecar.formats.record import RecordReader
from specon_sidecar.formats.sample import Sample

_LONGEST: Final = 1000
_MOST_ROWS: Final = 256
_SHORTEST_RULE: Final = 3
_GAP: Final = re.compile(rb"\s{2,64}+")
# In a video's table a frame is none of a training; a logger of reinforcement learning counts with it.
_RENAMED: Final = {"frame": "frames"}


class FramedRecords(LineParser):
    """Parser of records whose rows stand in a frame."""

    woken_by: tuple[bytes, ...] = (b"---",)

    def __init__(self, options: FormatOptions) -> None:
        self.choice = MetricChoice(options.metric, last_resorts=True)
        self._records = RecordReader(self.choice)
        self._rows: list[tuple[str, object]] = []
        self._begun = False

    @property
    def is_awake(self) -> bool:
        """Whether a rule has come."""
        return self._begun

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of the record that this line ends."""
        text = strip(line).text.strip() if len(line) <= _LONGEST else b""
        if not _is_rule(text):
            if self._begun:
                self._take_row(text)
            return None
        self._begun = True
        rows, self._rows = self._rows, []
        return self._records.sample(rows) if rows else None

    def _take_row(self, text: bytes) -> None:
        framed = b"|" in text
        cells = [cell.strip() for cell in text.split(b"|")] if framed else [b"", *_GAP.split(text), b""]
        if len(cells) != 4 or cells[0] or cells[3]:  # noqa: PLR2004 - a name, a value, and the frame
            self._rows = []  # something else stands between the rules
            return
        name = cells[1].decode("utf-8", "replace")
        if name and cells[2] and len(self._rows) < _MOST_ROWS:
            self._rows.append((_RENAMED.get(name, name), cells[2]))


def _is_rule(text: bytes) -> bool:
    return len(text) >= _SHORTEST_RULE and not text.strip(b"-=+| ")
