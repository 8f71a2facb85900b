"""The last lines of a training log for the status page: bounded, and without what steers a screen."""

from typing import Final

from msgspec import Struct

from specon_manager.views.names import cut

LINES: Final = 40
BYTES: Final = 16_384
"""Of the end of a log, that are read."""
_LONGEST: Final = 300


class LogTail(Struct, frozen=True, kw_only=True):
    """The end of a log, or in words why there is none; the answer to `GET /page/log`."""

    path: str
    """Where the log is: a file of this machine, or the command that prints it."""
    lines: tuple[str, ...] = ()
    """The last ones, oldest first."""
    more: bool = False
    """Whether there are lines before these."""
    note: str = ""
    """Why there are no lines, where there are none."""


def tail_of(path: str, content: bytes, *, whole: bool) -> LogTail:
    """Return the tail of the last `BYTES` of a log; `whole` says that there is nothing before them.

    A progress bar overwrites its line by carriage returns: only what it wrote last counts.
    """
    text = content[-BYTES:].decode("utf-8", errors="replace").replace("\r\n", "\n")
    found = text.split("\n")
    if found and not found[-1]:
        found.pop()
    whole = whole and len(content) <= BYTES
    if not whole and len(found) > 1:
        del found[0]  # begins somewhere within a line
    lines = tuple(cut(line.rstrip("\r").rpartition("\r")[2], _LONGEST) for line in found[-LINES:])
    note = "" if lines else "nothing is written yet"
    return LogTail(path=cut(path), lines=lines, more=not whole or len(found) > LINES, note=note)


def pod_log_tail(replica: str, pod: str | None) -> LogTail:
    """Return where the log of a replica on Kubernetes is: the manager has no right to read it there."""
    namespace = replica.partition("/")[0]
    named = "POD" if pod is None else pod
    note = "The log stays in its pod: this command prints what the trainer writes to standard output."
    return LogTail(path=f"kubectl -n {namespace} logs {named}", note=note)
