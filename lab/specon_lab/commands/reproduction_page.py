"""A reproduction as a page of documentation: what the command printed, word for word the same each time.

One line of it is about the computer and differs from run to run; it says so itself.
"""

from collections.abc import Iterator

from specon_lab.commands.reproduction_figures import (
    counts_of,
    difference,
    error,
    format_figure,
    format_value,
    title,
    verdict,
)
from specon_lab.commands.reproduction_run import Reproduced
from specon_lab.reproduction.experiment import Line, Row
from specon_manager import __version__
from specon_manager.views.names import printable
from specon_sidecar.counts import format_count

_COLUMNS = "| | paper | literal | default | ± | difference | error | verdict | counts as reproduced | note |"
_RULE = "|---|--:|--:|--:|--:|--:|--:|---|---|---|"
CLOCK_MARK = "(the only line that differs from run to run)"


def page(reproduced: Reproduced, *, command: str, wall_seconds: float) -> str:
    """Return the page as Markdown that ends in a newline.

    `wall_seconds` is how long the command took that made it, perhaps together with other papers.
    """
    return "\n".join(_lines(reproduced, command, wall_seconds)) + "\n"


def _lines(reproduced: Reproduced, command: str, wall_seconds: float) -> Iterator[str]:
    reproduction = reproduced.reproduction
    yield f"# Reproduction: {_cell(reproduction.title)}"
    yield ""
    yield "This page is the output of"
    yield ""
    yield "```text"
    yield f"$ {command}"
    yield "```"
    yield ""
    yield f"by specon {__version__}: {format_count(len(reproduced.runs), 'run')}, {_seeds(reproduced)}."
    yield ""
    verdicts, rest = counts_of(reproduced.sections, printed=reproduction.printed).words
    yield f"**{verdicts}**{rest}."
    yield ""
    yield (
        f"Time of the computer {CLOCK_MARK}: {reproduced.cpu_seconds:.1f} s of CPU; "
        f"the command took {wall_seconds:.1f} s of wall-clock time."
    )
    yield ""
    yield (
        "`literal` is the paper's algorithm as printed; `default` is the repaired one as it ships. Figures "
        "are means over the seeds; `±` is half of their 95 % interval. Difference and error (in percent of "
        "the paper's figure) are those of the literal figure, where there is one."
    )
    for section in reproduced.sections:
        yield ""
        yield f"## {_cell(section.title)}"
        yield ""
        if section.rows:
            yield _COLUMNS
            yield _RULE
            yield from map(_row, section.rows)
        if section.rows and section.lines:
            yield ""
        if section.lines:
            yield f"| | {' | '.join(map(_cell, section.columns))} |"
            yield f"|---|{'--:|' * len(section.columns)}"
            yield from map(_line, section.lines)
        for remark in section.remarks:
            yield ""
            yield printable(remark)
    if reproduction.remarks:
        yield ""
        yield "## Remarks"
        for remark in reproduction.remarks:
            yield ""
            yield printable(remark)


def _row(row: Row) -> str:
    numbers = [format_value(each, row) for each in (row.paper, row.literal, row.default, row.spread)]
    cells = [title(row), *numbers, difference(row), error(row), verdict(row), row.tolerance, row.note]
    return f"| {' | '.join(map(_cell, cells))} |"


def _line(line: Line) -> str:
    return f"| {' | '.join((_cell(line.what), *map(format_figure, line.figures)))} |"


def _cell(text: str) -> str:
    """Return the text as it can stand in a table."""
    return printable(text).replace("|", r"\|")


def _seeds(reproduced: Reproduced) -> str:
    seeds = sorted({run.seed for run in reproduced.runs})
    if not seeds:
        return "no seed"
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    spans: list[list[int]] = []
    for seed in seeds:
        if spans and seed == spans[-1][-1] + 1:
            spans[-1].append(seed)
        else:
            spans.append([seed])
    named = [str(span[0]) if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans]
    return f"seeds {' and '.join(named)}"
