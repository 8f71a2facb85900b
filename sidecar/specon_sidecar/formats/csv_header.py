"""Tables whose header line names the columns: `epoch,step,loss`.

Cells may be padded, quoted or empty; separators are comma, semicolon and tab. The header may come again in
the middle (a resumed run, or a file that was rewritten with a new column), also with other columns.
"""

import csv
import re
from typing import Final

from specon_sidecar.formats.metric_choice import MetricChoice
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.record import RecordReader
from specon_sidecar.sample import Sample

_SEPARATORS: Final = (",", ";", "\t")
# What a column is called. A sentence with commas is no header.
_NAME: Final = re.compile(r"[^\W\d][\w./@%()+-]*(?: [\w./@%()+-]+){0,3}")
_MOST_COLUMNS: Final = 1024


class CsvWithHeader:
    """Parser of tables with a header line."""

    def __init__(self, options: FormatOptions) -> None:
        self._choice = MetricChoice(options.metric)
        self._records = RecordReader(self._choice)
        self._separator = ","
        self._columns: list[str] = []

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of this row; take the line for the new header if it looks like one."""
        # Cheap for what is no table at all.
        columns = self._columns
        if columns and line.count(self._separator.encode()) >= len(columns) - 1:
            text = line.decode("utf-8", "replace")
            cells = _cells(text, self._separator)
            if len(cells) == len(columns):
                # A header that comes again has no number under the metric's name.
                sample = self._records.sample(zip(columns, cells, strict=True))
                if sample is not None:
                    return sample
        if self._choice.needle in line.lower():
            self._take_header(line.decode("utf-8", "replace"))
        return None

    def _take_header(self, text: str) -> None:
        text = text.removeprefix("\ufeff")
        for separator in _SEPARATORS:
            columns = _cells(text, separator)
            if (
                1 < len(columns) <= _MOST_COLUMNS
                and all(_NAME.fullmatch(name) for name in columns)
                and any(self._choice.candidate(name) for name in columns)
            ):
                self._separator, self._columns = separator, columns
                return


def _cells(text: str, separator: str) -> list[str]:
    if '"' in text:
        try:
            cells = next(csv.reader([text], delimiter=separator), [])
        except csv.Error:
            return []
    else:
        cells = text.split(separator)
    return [cell.strip() for cell in cells]
