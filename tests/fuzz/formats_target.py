"""What the fuzzer feeds: bytes as a log, a pattern or an event file, and what must hold of the outcome.

Beside that each input is made into a long line, whose time one of the readers is measured with.
"""

import tempfile
import zlib
from collections.abc import Iterable

from fuzz.time_target import NAMES, check_search_time, check_time
from specon_sidecar.event_files.event_line import EventLine, decode, encode
from specon_sidecar.event_files.event_reader import EventReader
from specon_sidecar.event_files.event_records import EventRecords
from specon_sidecar.event_files.event_scalars import scalars
from specon_sidecar.following.lines import MAX_LINE_BYTES, LineSplitter
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.table import AUTO, FORMATS, REGULAR_EXPRESSION, Reader, make_reader

# So that chunks end within a line, and within the end of one.
SMALL_CHUNK = 7
PATTERN = r"(?P<name>\w+)=(?P<value>\S+)"
# A pattern that is as slow as it may be takes about a second for a line.
SEARCHED_LINES = 3
EVENT_TAGS = 64
EVENT_LETTERS = 256


def check(data: bytes) -> None:
    """Let every reader read `data`. Raises where one raises, or where what it returns cannot be."""
    lines = split(data, len(data) or 1)
    assert lines == split(data, SMALL_CHUNK), "the chunks change the lines"
    for name in (AUTO, *FORMATS):
        pattern = PATTERN if name == REGULAR_EXPRESSION else None
        read(make_reader(name, FormatOptions(pattern=pattern)), lines)
    search(lines)
    read(EventReader(FormatOptions()), lines)
    read_events(data)
    check_time(data, NAMES[zlib.crc32(data) % len(NAMES)])
    check_search_time(data)


def split(data: bytes, size: int) -> list[bytes]:
    """Return the lines of `data`, fed in chunks of `size` bytes."""
    splitter = LineSplitter()
    lines = [
        line for start in range(0, len(data), size) for line in splitter.feed(data[start : start + size])
    ]
    rest = splitter.flush()
    lines += [] if rest is None else [rest]
    assert all(0 < len(line) <= MAX_LINE_BYTES and not {*b"\r\n\0"} & {*line} for line in lines)
    return lines


def read(reader: Reader, lines: Iterable[bytes]) -> None:
    """Read the lines, and look at all that a reader tells."""
    for sample in (*reader.read(lines), *reader.finish()):
        look_at(sample)
    assert reader.restarts >= 0
    for evidence in reader.evidence:
        assert 0 <= evidence.share_of_lines <= 1
    assert reader.goal in {None, "min", "max"}
    assert reader.unclassifiable is None or reader.unclassifiable


def look_at(sample: Sample) -> None:
    """Raise where a sample holds what the rest of the sidecar could not digest."""
    assert type(sample.value) is float
    for whole in (sample.step, sample.total_steps, sample.total_epochs):
        assert whole is None or type(whole) is int
    sample.name.encode("utf-8")  # lone surrogates could not be sent


def search(lines: list[bytes]) -> None:
    """Take the first line for the pattern and search the next ones."""
    if not lines:
        return
    options = FormatOptions(pattern=lines[0].decode("utf-8", "replace"))
    try:
        reader = make_reader(REGULAR_EXPRESSION, options)
    except ValueError:
        return  # refused, as most patterns are
    read(reader, lines[1 : SEARCHED_LINES + 1])


def read_events(data: bytes) -> None:
    """Take the bytes for an event file, then for one event."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        records = [*EventRecords().read(file.fileno(), len(data))]
    lines = []
    for record in (*records, data):
        found = scalars(record, most=EVENT_TAGS, longest=EVENT_LETTERS)
        if found is not None:
            lines.append(encode(EventLine("train", found.step, found.time, found.values)))
            assert decode(lines[-1]) is not None
    read(EventReader(FormatOptions()), lines)
