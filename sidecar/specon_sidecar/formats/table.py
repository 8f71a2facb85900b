"""The formats there are, and how a reader of one is made."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from specon_sidecar.formats.csv_header import CsvWithHeader
from specon_sidecar.formats.detect import Detection
from specon_sidecar.formats.json_lines import JsonLines
from specon_sidecar.formats.key_value import KeyValue
from specon_sidecar.formats.parser import Format, FormatOptions, Parser
from specon_sidecar.formats.regular_expression import RegularExpression
from specon_sidecar.sample import Sample

AUTO: Final = "auto"
REGULAR_EXPRESSION: Final = "regular-expression"

# In the order in which the detection breaks ties: the more particular first.
_FORMATS: Final = (
    Format("json-lines", "one JSON object per line", JsonLines),
    Format("csv", "a table whose header line names the columns", CsvWithHeader),
    Format("key-value", "lines with key=value or key: value", KeyValue),
    Format(REGULAR_EXPRESSION, "a pattern with named groups", RegularExpression, detectable=False),
)
FORMATS: Final[Mapping[str, Format]] = MappingProxyType({one.name: one for one in _FORMATS})


class Reader(Protocol):
    """Reads the lines of one log in their order."""

    @property
    def chosen(self) -> str | None:
        """The format in use, or None as long as it is not decided."""
        ...

    def read(self, lines: Iterable[bytes]) -> list[Sample]:
        """Return the samples that these lines complete. No bytes whatever make it raise."""
        ...

    def finish(self) -> list[Sample]:
        """Return what was held back, for the log has ended."""
        ...


class FixedReader:
    """Reader of a format that was named."""

    def __init__(self, name: str, parser: Parser) -> None:
        self.chosen: Final = name
        self._parse = parser.parse

    def read(self, lines: Iterable[bytes]) -> list[Sample]:
        """Return the samples of these lines."""
        parse = self._parse
        return [sample for line in lines if (sample := parse(line)) is not None]

    def finish(self) -> list[Sample]:
        """Return nothing: nothing is held back."""
        return []


def make_parser(name: str, options: FormatOptions) -> Parser:
    """Return a new parser of a format. Raises ValueError for an unknown name or unfit options."""
    try:
        found = FORMATS[name]
    except KeyError:
        raise ValueError(f"format {name!r} is unknown; known are {', '.join(FORMATS)}, {AUTO}") from None
    if options.pattern is not None and name != REGULAR_EXPRESSION:
        raise ValueError(
            f"pattern {options.pattern!r} is for the format {REGULAR_EXPRESSION}, not for {name!r}"
        )
    return found.make(options)


def make_reader(name: str, options: FormatOptions) -> Reader:
    """Return a reader of a format of the table, or with "auto" one that finds it out.

    "auto" with a pattern is the format regular-expression. Raises ValueError as `make_parser` does.
    """
    if name != AUTO:
        return FixedReader(name, make_parser(name, options))
    if options.pattern is not None:
        return FixedReader(REGULAR_EXPRESSION, make_parser(REGULAR_EXPRESSION, options))
    return Detection({one.name: one.make(options) for one in _FORMATS if one.detectable})
