"""What launchers, collectors and loggers put before a line: taken off, the rank and the time kept."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from specon_sidecar.formats.wall_time import leading_stamp

# Sequences of terminals: colours and cursor moves (CSI), titles and links (OSC), character sets.
_TERMINAL: Final = re.compile(
    rb"\x1b(?:\[[0-?]{0,32}+[ -/]{0,8}+[@-~]|\][^\x07\x1b]{0,1024}+(?:\x07|\x1b\\)"
    rb"|[()][0-9A-Z]|[=>78cDEHMNO])"
)

# A bar above that is written again: what follows stands on another line.
_UP: Final = re.compile(rb"\x1b\[\d{0,3}+A")

_COUNT: Final = re.compile(rb"\s{1,4}+\d{1,12}+/\d{1,12}+\s{0,4}+")

_CLOCK: Final = rb"\d\d:\d\d:\d\d(?:[.,]\d{1,9}+)?"
_LEVEL: Final = rb"(?:DEBUG|INFO|WARNING|WARN|ERROR|NOTICE)"
# Each alternative ends where the next prefix, or the text, begins. Repeats are possessive or short.
PREFIX: Final = re.compile(
    rb"\s*+(?:"
    # mpirun and Horovod: job and rank
    rb"\[\d{1,6},(?P<mpi>\d{1,6})\]<std(?:out|err)>:"
    # torchrun, DeepSpeed, accelerate
    rb"|\[(?:rank|Rank|RANK|default|GPU)[ :=-]?(?P<torch>\d{1,6})(?:/\d{1,6})?\]:?"
    # srun -l; a tab after the colon is CatBoost's iteration, two numbers behind it are Darknet's
    rb"|(?P<slurm>\d{1,6}):(?= )(?!  \s*learn| -?[\d.]{1,20}, [\d.]{1,20} avg)"
    rb"|\[(?P<bare>\d{1,6})\](?= :::)"
    # docker compose, but not `Valid | Epoch 3` or `0012 | loss 0.5`; kubectl --prefix
    rb"|(?!(?i:val|valid|validation|eval|evaluation|test|dev) |\d{1,15} )[\w.-]{1,64}+ {1,40}\|(?= )"
    rb"|\[pod/[^\]\s]{1,300}+\]"
    rb"|(?:stdout|stderr) [FP](?= )"
    # date and time, in brackets or not, with a level, a logger or both inside the brackets
    rb"|\[?(?:(?:\d{4}[-/.])?\d\d[-/]\d\d|\d{4}\.\d\d\.\d\d|\d\d[-/.]\d\d[-/.](?:\d\d){1,2}+)[T |]"
    + _CLOCK
    + rb"(?: ?(?:Z|[+-]\d\d:?\d\d))?(?: "
    + _LEVEL
    + rb"| [\w.]{1,64}+(?=\]))?(?:\]:?|(?:,|:(?:"
    + _LEVEL
    + rb":)?)?(?=[\s\[]|(?i:iter|step|epoch|train|loss)))"
    rb"|\[" + _CLOCK + rb"\]"
    # a compact date and the time
    rb"|\[?20\d{6}[-_T ]" + _CLOCK + rb"\]?:?(?=\s)"
    # logging: `INFO:root:`, `- name - INFO -`, `name INFO:`, `[name][INFO] -`, `{bash.py:173} INFO -`
    # and `INFO:0-epoch (99/400)`
    rb"|" + _LEVEL + rb":(?:[\w.]{1,64}+:|(?=\S))"
    rb"|- (?:[\w.]{1,64}+ - )?" + _LEVEL + rb" -(?: (?=\w{0,64}[._])[\w.]{1,64}+ -)?(?= )"
    rb"|[\w.]{1,64}+ " + _LEVEL + rb":"
    rb"|(?:\[[\w.]{1,64}+\]){1,2}+(?: -)(?= )|\{[\w.]{1,64}+:\d{1,6}\}(?= )"
    # where it was printed: `[train.py:185] `, `(train.py:185) `
    rb"|[\[(][\w./-]{1,128}+(?<=\.py):\d{1,6}[\])](?= )"
    rb"|\[?" + _LEVEL + rb"\]?(?: -|:)?(?= )"
    # loguru: `| INFO     | module:function:line - `
    rb"|\| ?(?:TRACE|SUCCESS|CRITICAL|"
    + _LEVEL[3:-1]
    + rb") {1,8}\|(?: [\w.<>]{1,128}+(?::[\w.<>]{1,64}+){1,2}+ -)?(?= )"
    # Tensorpack: date, clock, module and line
    rb"|\[\d{4} " + _CLOCK + rb" @[\w./-]{1,128}+:\d{1,6}\]"
    # NeMo: level, date, clock and module in one pair of brackets
    rb"|\[NeMo [DIWEC] \d{4}-\d\d-\d\d " + _CLOCK + rb"(?: [\w./-]{1,128}+:\d{1,6})?+\]"
    # absl and glog
    rb"|[IWEF](?:\d{4}){1,2}+ " + _CLOCK + rb" +\d{1,20} (?:[\w.-]{1,64}+ )?+[\w./-]{1,128}+:\d{1,6}\]"
    rb")"
)
"""One prefix."""
PREFIX_EXPRESSION: Final = re.sub(rb"\(\?P<\w+>", rb"(?:", PREFIX.pattern)
"""The same without groups, for a part of another expression."""
_MOST: Final = 8
_NAMED_RANK: Final = re.compile(rb"(?i:(?<![\w.-])(?:global_)?rank)[\"']?[ =:]{1,3}(\d{1,6})(?![\w.])")


class Line(NamedTuple):
    """The text of a line, who wrote it and when, as far as its prefixes say."""

    text: bytes
    rank: int | None
    time: float | None


def strip_terminal(line: bytes) -> bytes:
    """Return what the line shows: no sequences of the terminal, and only the text written last over it."""
    if b"\b" in line:
        # A progress bar that went back over its line: what it wrote last is what counts, unless that is no
        # more than the count in the middle of the bar.
        before, _, last = line.rstrip(b"\b").rpartition(b"\b")
        line = last if _COUNT.fullmatch(last) is None else before.rstrip(b"\b").rpartition(b"\b")[2] + last
    if b"\x1b" not in line:
        return line
    if b"A" in line:
        above = _UP.split(line)
        line = next((one for one in reversed(above) if _TERMINAL.sub(b"", one).strip()), line)
    return _TERMINAL.sub(b"", line)


# Several formats ask for the same line, and the code around them does too.
@lru_cache(maxsize=4)
def strip(line: bytes) -> Line:
    """Take off what terminals, launchers and loggers added. The blanks before the text stay."""
    line = strip_terminal(line)
    start, rank, time = 0, None, None
    for _ in range(_MOST):
        found = PREFIX.match(line, start)
        if found is None or found.end() == start:
            break
        if found.lastgroup is not None:
            rank = int(found[found.lastgroup])
        elif time is None:
            time = leading_stamp(line[start:].lstrip())
        start = found.end()
    return Line(line[start:] if start else line, rank, time)


def read_rank(text: bytes) -> int | None:
    """Return the rank that a line tells among its values: `rank=3`."""
    found = _NAMED_RANK.search(text)
    return int(found[1]) if found is not None else None
