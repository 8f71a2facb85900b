"""Which log a path means: a file, the event files of a directory, or the best log in it.

Of a directory and those below it, in this order: a table with a column to follow (`*.csv`), JSON lines
(`*.jsonl`, `metrics.json`, `scalars.json`, `result.json`), the state that the Hugging Face Trainer writes
into each checkpoint (`checkpoint-N/trainer_state.json`), the loss of an MLflow file store (`metrics/loss`),
TensorBoard event files, and last files written for people (`*.log`, `*.out`, `*.txt`). Of several of a
kind the one changed last.
"""

import codecs
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

from specon_sidecar.formats.csv_header import CsvWithHeader
from specon_sidecar.formats.metric_names import is_loss
from specon_sidecar.formats.mlflow import MLFLOW_LINE
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.regular_file import open_regular

MOST_ENTRIES: Final = 10_000
_HEAD_BYTES: Final = 65_536
_EVENT_MARK: Final = b"brain.Event:"  # in the first record of each event file
_MARK_BYTES: Final = 256
_JSON_LINES: Final = frozenset({"metrics.json", "scalars.json", "result.json"})
_TEXT: Final = (".log", ".out", ".txt")
# Not zeros: a log that was truncated under its writer has a hole of them, and UTF-16 has one per letter.
_CONTROL: Final = bytes({*range(1, 32)} - {7, 8, 9, 10, 11, 12, 13, 27})
_MOST_CONTROL: Final = 0.02  # a text log has fewer such bytes

SourceKind = Literal["file", "events", "later"]


class Log(NamedTuple):
    """The followed log: one file by its lines, or all event files at or below `path`.

    The kind `later` is a directory that holds no log yet.
    """

    kind: SourceKind
    path: Path
    reason: str = "the path that was named"
    note: str | None = None
    """What the owner should know: that the directory was too large to be seen whole."""


class Entry(NamedTuple):
    """A file below a directory, by its path from there."""

    name: str
    status: os.stat_result


def choose_log(path: str | os.PathLike[str]) -> Log:
    """Return what `path` means now; a path that does not exist is a file that comes later."""
    path = Path(path)
    if not path.is_dir():
        return Log("events" if is_event_file(path) else "file", path)
    entries, whole = list_files(path)
    note = None if whole else f"{path} has more than {MOST_ENTRIES} entries: not all were looked at"
    newest = sorted(entries, key=lambda entry: entry.status.st_mtime_ns, reverse=True)
    for kind, reason, found in (
        ("file", "a table with a column to follow", (e for e in newest if _is_table(path, e))),
        ("file", "a file of JSON lines", (e for e in newest if _is_json_lines(e))),
        ("file", "the Trainer's state in its last checkpoint", (e for e in newest if _is_state(e))),
        ("file", "a metric of MLflow's file store", (e for e in newest if _is_mlflow(path, e))),
        ("events", "TensorBoard event files", (e for e in newest if is_event_name(e.name))),
        ("file", "the log that was changed last", (e for e in newest if _is_text(path, e))),
    ):
        entry = next(found, None)
        if entry is not None:
            chosen = path if kind == "events" else path / entry.name
            return Log("events" if kind == "events" else "file", chosen, reason, note)
    return Log("later", path, "no log in it yet", note)


def is_event_name(name: str) -> bool:
    """Return whether a file is named as TensorBoard's writers name theirs."""
    return "tfevents" in name.rpartition("/")[2]


def is_event_file(path: Path) -> bool:
    """Return whether a file is one of TensorBoard's, by its name or its first record."""
    if is_event_name(path.name):
        return True
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return False
    try:
        return _EVENT_MARK in os.pread(file, 64, 0)
    except OSError:
        return False
    finally:
        os.close(file)


def list_files(directory: Path) -> tuple[list[Entry], bool]:
    """Return the files at and below a directory, and whether that is all; links to directories are left out.

    What cannot be read is left out, and of more than `MOST_ENTRIES` entries the rest.
    """
    found: list[Entry] = []
    left = MOST_ENTRIES
    waiting = [""]
    while waiting:
        above = waiting.pop(0)
        for entry in _scan(directory / above):
            if not left:
                return found, False
            left -= 1
            name = f"{above}/{entry.name}" if above else entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    if ".specon" not in entry.name:  # a manager's own files are no log of a trainer
                        waiting.append(name)
                elif entry.is_file():
                    found.append(Entry(name, entry.stat()))
            except OSError:
                continue
    return found, True


def _scan(directory: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            yield from entries
    except OSError:
        return


def _is_table(directory: Path, entry: Entry) -> bool:
    if not entry.name.endswith((".csv", ".tsv")) or not entry.status.st_size:
        return False
    try:
        with (directory / entry.name).open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    parser = CsvWithHeader(FormatOptions())
    lines = head.splitlines()
    # The header alone makes no sample; each line of a table that can be followed makes one.
    return any(parser.parse(line) is not None for line in lines)


def _is_json_lines(entry: Entry) -> bool:
    name = entry.name.rpartition("/")[2]
    return bool(entry.status.st_size) and (name.endswith((".jsonl", ".ndjson")) or name in _JSON_LINES)


def _is_state(entry: Entry) -> bool:
    return bool(entry.status.st_size) and entry.name.rpartition("/")[2] == "trainer_state.json"


def _is_mlflow(directory: Path, entry: Entry) -> bool:
    above, found, name = entry.name.rpartition("metrics/")
    if not found or (above and not above.endswith("/")) or not is_loss(name) or not entry.status.st_size:
        return False
    try:
        with (directory / entry.name).open("rb") as file:
            return MLFLOW_LINE.match(file.readline(_MARK_BYTES)) is not None
    except OSError:
        return False


def _is_text(directory: Path, entry: Entry) -> bool:
    if not entry.status.st_size or not entry.name.endswith(_TEXT):
        return False
    try:
        with open_regular(directory / entry.name) as file:
            return not is_binary(file.read(_HEAD_BYTES) or b"")
    except OSError:
        return False


def is_binary(head: bytes) -> bool:
    """Return whether the first bytes of a file have more control characters than a text log has."""
    marked = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = head.decode("utf-16", "replace").encode() if marked else head.replace(b"\0", b"")
    return len(text) - len(text.translate(None, _CONTROL)) > _MOST_CONTROL * len(text)
