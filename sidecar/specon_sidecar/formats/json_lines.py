"""One JSON object per line, as most trackers and many trainers write: `{"step": 10, "loss": 2.31}`.

A prefix before the object is allowed (`[2026-01-16 07:32:24][INFO] - {...}`), numbers may be strings,
objects may be nested one deep (`{"train": {"loss": 2.31}}` is `train/loss`).
"""

import json
from typing import Any

import msgspec

from specon_sidecar.formats.metric_choice import MetricChoice
from specon_sidecar.formats.parser import FormatOptions, LineParser
from specon_sidecar.formats.record import RecordReader
from specon_sidecar.formats.sample import Sample


class JsonLines(LineParser):
    """Parser of JSON lines."""

    def __init__(self, options: FormatOptions) -> None:
        self.choice = MetricChoice(options.metric, last_resorts=True)
        self._records = RecordReader(self.choice)

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of the object on this line."""
        start = line.find(b"{")
        # A name that JSON writes with escapes (beyond ASCII) has no needle.
        if start < 0 or not self.choice.may_count(line.lower()):
            return None
        record = _decode(line[start:] if start else line)
        if record is None:
            return None
        return self._records.sample(record.items()) or self._read_nested(record)

    def _read_nested(self, record: dict[str, Any]) -> Sample | None:
        inner = [(key, value) for key, value in record.items() if isinstance(value, dict)]
        if not inner:
            return None
        flat = dict(record)
        for key, values in inner:
            flat |= {f"{key}/{name}": value for name, value in values.items()}
        return self._records.sample(flat.items())


def _decode(text: bytes) -> dict[str, Any] | None:
    try:
        record = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # The standard library also reads NaN, Infinity and 1e999. They are no JSON, but Python writes them,
        # and a diverged run is worth reporting.
        try:
            record = json.loads(text)
            if b"\\u" in text:
                # It lets halves of surrogate pairs through, and a name with one could not be reported.
                record = json.loads(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return record if isinstance(record, dict) else None
