"""The file `trainer_state.json` of the Hugging Face Trainer: one JSON document with a list of records.

It is written again at each checkpoint. Around the list stand results, which are no records of the training.
"""

from typing import Final

from specon_sidecar.formats.json_records import JsonRecords
from specon_sidecar.formats.metric_choice import MetricChoice
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.record import RecordReader
from specon_sidecar.formats.sample import Sample

_BEGIN: Final = b'"log_history": ['


class TrainerState(JsonRecords):
    """Parser of the list `log_history`."""

    woken_by: tuple[bytes, ...] = (_BEGIN,)

    def __init__(self, options: FormatOptions) -> None:
        super().__init__(options)
        self.choice = MetricChoice(options.metric, ("loss",), closed=True)
        self.records = RecordReader(self.choice)
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
        if line.lstrip()[:1] == b"]":
            self._inside = False
            self._open.clear()
            return None
        return self._read(line)
