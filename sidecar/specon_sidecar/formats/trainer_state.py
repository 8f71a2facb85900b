"""The file `trainer_state.json` of the Hugging Face Trainer: one JSON document with a list of records.

The document is read line by line as it is written, with each key on a line of its own. It is written again
at each checkpoint, so its earlier records come again; `Format.rewritten` makes them count once.
"""

import re
from typing import Final

from specon_sidecar.formats.metric_choice import MetricChoice
from specon_sidecar.formats.parser import FormatOptions, LineParser
from specon_sidecar.formats.record import RecordReader
from specon_sidecar.formats.sample import Sample

_KEY: Final = re.compile(rb'\s*"([\w./ -]{1,200})": (?:"([^"]{0,100})"|([\w.+-]{1,100})),?\s*$')
_BEGIN: Final = b'"log_history": ['
_LONGEST_RECORD: Final = 1000


class TrainerState(LineParser):
    """Parser of the list `log_history`."""

    woken_by: tuple[bytes, ...] = (_BEGIN,)

    def __init__(self, options: FormatOptions) -> None:
        self.choice = MetricChoice(options.metric, ("loss",), closed=True)
        self._records = RecordReader(self.choice)
        self._open: list[tuple[str, object]] | None = None
        self._inside = False

    @property
    def is_awake(self) -> bool:
        """Whether the list has begun."""
        return self._inside

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of the record that this line ends."""
        if not self._inside:
            self._inside = _BEGIN in line
            return None
        text = line.strip()
        if text == b"{":
            self._open = []
        elif text[:1] == b"]":
            self._inside, self._open = False, None
        elif self._open is not None:
            if text[:1] == b"}":
                record, self._open = self._open, None
                return self._records.sample(record)
            found = _KEY.match(line)
            if found is not None and len(self._open) < _LONGEST_RECORD:
                self._open.append((found[1].decode(), found[2] if found[3] is None else found[3]))
        return None
