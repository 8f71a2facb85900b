"""Why no sample of a log has come, in words for its owner: the observation, and what to set. Pure."""

from typing import Final, Literal, NamedTuple

from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import FORMATS
from specon_sidecar.observing.observer import Observer

_LONGEST_LINE: Final = 80
_LONGEST_PATH: Final = 120
_LONGEST_NAME: Final = 40
_PATH: Final = "set specon.io/log-path (log in a job file, --log) to what the trainer writes"
_READING: Final = (
    "set specon.io/metric, or specon.io/format and specon.io/pattern (metric, format, pattern in a job file);"
    " specon classify advises which"
)

TroubleKind = Literal["missing", "directory", "unreadable", "empty", "file", "events"]


class Sight(NamedTuple):
    """The state of the place of a log."""

    kind: TroubleKind
    path: str
    detail: str = ""
    """The obstacle, or the existing part of the path."""
    unfinished: int = 0
    """Bytes behind the last complete line."""


class Trouble(NamedTuple):
    """Why there is no sample; of one kind once is enough."""

    kind: str
    text: str


def explain(
    observer: Observer, sight: Sight | None, options: FormatOptions, oversized: int
) -> Trouble | None:
    """Return why there is no sample so far.

    None where there is one, where the log can have none, or where it was not read yet.
    """
    if sight is None or observer.samples or observer.unclassifiable is not None:
        return None
    path = _shorten_path(sight.path)
    if observer.lines:
        return _not_understood(observer, path, options)
    if oversized:
        return Trouble("oversized", f"every line of {path} is too long to be read; {_PATH}")
    if sight.kind == "missing":
        return Trouble("missing", f"no log at {path}{sight.detail}; {_PATH}")
    if sight.kind == "directory":
        return Trouble("directory", f"no log in the folder {path} that is known as one; {_PATH}")
    if sight.kind == "unreadable":
        return Trouble("unreadable", f"{path} cannot be read: {sight.detail}; {_PATH}")
    if sight.kind == "events":
        return Trouble("events", f"no scalar in the event files at {path}; {_PATH}")
    if sight.kind == "empty":
        return Trouble("empty", f"the log {path} is empty; {_PATH}")
    if sight.unfinished:
        return Trouble("unfinished", f"{sight.unfinished} bytes and no line with an end in {path}; {_PATH}")
    return Trouble("unchanged", f"nothing was added to {path} since the trainer started; {_PATH}")


def _not_understood(observer: Observer, path: str, options: FormatOptions) -> Trouble:
    found = observer.likeliest
    if found is not None and found.last is not None and not observer.curve.count:
        metric = _quote(found.last.name, _LONGEST_NAME)
        what = (
            f"too few numbers in {path} to be sure; the likeliest is {found.format} with the metric {metric}"
        )
        settles = f"; specon.io/format (format in a job file): {found.format} settles it"
        return Trouble("undecided", what + (settles if found.format in FORMATS else ""))
    what = "is understood"
    if options.pattern is not None:
        what = "holds a number where the pattern wants it"
    elif options.metric is not None:
        what = f"names the metric {_quote(options.metric, _LONGEST_NAME)}"
    shown = " ... ".join(dict.fromkeys(_quote(line, _LONGEST_LINE) for line in observer.ends))
    return Trouble("not understood", f"no line of {path} {what}{': ' * bool(shown)}{shown}; {_READING}")


def _shorten_path(path: str) -> str:
    shown = _escape(path)
    return shown if len(shown) <= _LONGEST_PATH else f"...{shown[-_LONGEST_PATH:]}"


def _quote(text: str, longest: int) -> str:
    shown = _escape(text[:longest])
    cut = len(text) > longest or len(shown) > longest
    return f"'{shown[:longest]}{'...' if cut else ''}'"


def _escape(text: str) -> str:
    """Return the text on one line, harmless on a terminal and in any encoding."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
