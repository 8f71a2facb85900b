"""The pictures of the results pages: bars of figures that a table of the same page prints. Pure.

Each is drawn from the page's own text, so no picture can say what no table says. A picture follows the
reader's light or dark scheme; its description has every figure, for those who cannot see it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from msgspec import Struct

_LABELS: Final = 265  # px, as all lengths here
_BARS: Final = 380
_WIDTH: Final = _LABELS + _BARS + 80
_BAR: Final = 12
_GAP: Final = 10
_HEAD: Final = 56
_NUMBER: Final = re.compile(r"-?[\d,]+(?:\.\d+)?")
_READ: Final = 'role="img" aria-labelledby="t d"'
_STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.v{font-size:11px;fill:#57606a}.h{font-weight:600}"
    ".p{fill:#fff}.s0{fill:#6e7781}.s1{fill:#bf8700}.s2{fill:#0969da}.l{stroke:#57606a;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.v{fill:#9da7b3}.p{fill:#0d1117}.s0{fill:#8b949e}"
    ".s1{fill:#d29922}.s2{fill:#4493f8}.l{stroke:#9da7b3}}"
)


class Picture(Struct, frozen=True, kw_only=True):
    """One picture, and the table that it shows."""

    page: str
    """Below docs/results, without its ending."""
    name: str
    title: str
    heading: str
    """Of the section whose first table is drawn."""
    columns: tuple[tuple[str, str, int], ...]
    """Title of a column, its name in the legend, and the number of its colour."""
    rows: str = ""
    """A text in the labels of the drawn rows; it is left out of their labels."""
    of: str | None = None
    """A column whose figures are 100 %: the others are drawn in percent of it."""


_PAPER: Final = (
    ("paper", "figure of the paper", 0),
    ("literal", "its algorithm as printed", 1),
    ("default", "as specon ships it", 2),
)
PICTURES: Final = (
    Picture(
        page="ours",
        name="ours",
        title="Average completion time under progress, in % of the paper's own policy (shorter is better)",
        heading="## Average completion time beside the paper's policy",
        columns=(("default", "progress", 2),),
        of="paper",
    ),
    Picture(
        page="convergence",
        name="convergence",
        title="Share of right first verdicts, and recall, at 50 intervals and 2 % (longer is better)",
        heading="### 50 intervals, converged within 2%",
        columns=(("first right", "first verdict right", 2), ("recall", "recall", 1)),
    ),
    Picture(
        page="specon",
        name="specon",
        title="SpeCon, figure 7: 30 mixed jobs, what moves change (%)",
        heading="## Figure 7: 30 mixed jobs at random within 600 s, 4 workers",
        columns=_PAPER,
        rows=r" \(%\)$",
    ),
    Picture(
        page="fitgpp",
        name="fitgpp",
        title="FitGpp, table 1: slowdown, 95th percentile (shorter is better)",
        heading="## Table 1: slowdowns",
        columns=_PAPER,
        rows=r", 95th percentile$",
    ),
    Picture(
        page="elastic",
        name="dragon",
        title="DRAGON, figure 7: parts of a job's elapsed time, in units of Kubeflow's (shorter is better)",
        heading="## Figure 7: elapsed time of a job, in units of Kubeflow's",
        columns=_PAPER,
        rows=r"(?<=ing)$",
    ),
    Picture(
        page="elastic",
        name="kod2",
        title="KOD2, figure 7: how much shorter the average completion time is (%; batches of 8 and 128)",
        heading="### Figure 7: average completion time, reduction by KOD2",
        columns=_PAPER,
        rows=r"^reduction, (?=.*(?:batch 8|batch 128) )",
    ),
    Picture(
        page="kubeflow",
        name="kubeflow",
        title="Kubeflow's dynamic scheduler: time saved, mean of three scenarios (%, longer is better)",
        heading="## Time saved against the default scheduler, placement spread",
        columns=_PAPER,
        rows=r", mean of 3 scenarios \(%\)$",
    ),
    Picture(
        page="version-0-1",
        name="version-0-1",
        title="What the present version takes, in % of version 0.1 (shorter is better)",
        heading="## Slower or faster than version 0.1?",
        columns=(("now", "now", 2),),
        of="version 0.1",
        rows=r"^(?!Steps lost)|, [^,]*$",
    ),
)


class BarRow(Struct, frozen=True):
    """The bars beside one label."""

    label: str
    values: tuple[float | None, ...]
    printed: tuple[str, ...]
    """As the table, or the picture of percents, has them."""


def rows_of(page: str, picture: Picture) -> tuple[BarRow, ...]:
    """Return the values to draw; raises ValueError where the page has no such table, column or row."""
    lines = iter(page.splitlines())
    if picture.heading not in lines:  # goes on behind it
        raise ValueError(f"{picture.page}: there is no heading {picture.heading!r}")
    table = [_cells(line) for line in _first_table(lines)]
    if not table:
        raise ValueError(f"{picture.page}: there is no table below {picture.heading!r}")
    head = table[0]
    missing = {name for name, _, _ in picture.columns if name not in head} | ({picture.of} - {None, *head})
    if missing:
        raise ValueError(
            f"{picture.page}: no column {', '.join(map(str, missing))} below {picture.heading!r}"
        )
    chosen = [cells for cells in table[2:] if re.search(picture.rows, cells[0])]
    if not chosen:
        raise ValueError(f"{picture.page}: no row {picture.rows!r} below {picture.heading!r}")
    return tuple(_row(cells, head, picture) for cells in chosen)


def _first_table(lines: Iterator[str]) -> Iterator[str]:
    begun = False
    for line in lines:
        if line.startswith("|"):
            begun = True
            yield line
        elif begun or line.startswith("#"):
            return


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _row(cells: Sequence[str], head: Sequence[str], picture: Picture) -> BarRow:
    values: list[float | None] = []
    printed: list[str] = []
    whole = None if picture.of is None else _number(cells[head.index(picture.of)])
    for name, _, _ in picture.columns:
        cell = cells[head.index(name)]
        value = _number(cell)
        if value is not None and whole is not None:
            value = 100 * value / whole
            cell = f"{value:.0f} %"
        values.append(value)
        printed.append(cell)
    label = re.sub(picture.rows, "", cells[0]) if picture.rows else cells[0]
    return BarRow(re.sub(r" \((?:s|%)\)$", "", label), tuple(values), tuple(printed))


def _number(cell: str) -> float | None:
    found = _NUMBER.fullmatch(cell)
    return None if found is None else float(found[0].replace(",", ""))


def draw(page: str, picture: Picture) -> str:
    """Return the SVG; raises ValueError as `rows_of` does."""
    rows = rows_of(page, picture)
    most = max(value for row in rows for value in row.values if value is not None)
    scale = _BARS / max(most, 100.0 if picture.of else 0.0)
    step = _BAR * len(picture.columns) + _GAP
    height = _HEAD + step * len(rows) + _GAP
    size = f"{_WIDTH} {height}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{_WIDTH}" {_READ}>',
        f'<title id="t">{escape(picture.title)}</title>',
        f'<desc id="d">{escape(_describe(rows, picture))}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="p" width="{_WIDTH}" height="{height}"/>',
        f'<text class="h" x="10" y="20">{escape(picture.title)}</text>',
        *_legend(picture),
    ]
    for number, row in enumerate(rows):
        parts += _bars(row, picture, _HEAD + step * number, scale)
    if picture.of is not None:
        x = f"{_LABELS + 100 * scale:.0f}"
        parts.append(f'<line class="l" x1="{x}" x2="{x}" y1="{_HEAD - 6}" y2="{height - _GAP}"/>')
    return "\n".join([*parts, "</svg>", ""])


def _legend(picture: Picture) -> Iterator[str]:
    x = _LABELS
    for _, name, colour in picture.columns:
        yield f'<rect class="s{colour}" x="{x}" y="31" width="10" height="10"/>'
        yield f'<text class="v" x="{x + 15}" y="40">{escape(name)}</text>'
        x += 30 + 6 * len(name)


def _bars(row: BarRow, picture: Picture, top: int, scale: float) -> Iterator[str]:
    middle = top + _BAR * len(row.values) / 2 + 4
    yield f'<text x="{_LABELS - 10}" y="{middle:.0f}" text-anchor="end">{escape(row.label)}</text>'
    for number, ((_, _, colour), value, printed) in enumerate(
        zip(picture.columns, row.values, row.printed, strict=True)
    ):
        if value is None:
            continue
        y, width = top + _BAR * number, max(1.0, value * scale)
        yield f'<rect class="s{colour}" x="{_LABELS}" y="{y}" width="{width:.1f}" height="{_BAR - 1}"/>'
        x = _LABELS + (width if picture.of is None else _BARS) + 5  # the line of 100 % stays free
        yield f'<text class="v" x="{x:.0f}" y="{y + _BAR - 2}">{escape(printed)}</text>'


def _describe(rows: Sequence[BarRow], picture: Picture) -> str:
    names = [name for _, name, _ in picture.columns]
    said = (
        f"{row.label}: "
        + ", ".join(f"{name} {cell}" for name, cell in zip(names, row.printed, strict=True) if cell != "-")
        for row in rows
    )
    return "; ".join(said) + "."


def path_of(picture: Picture) -> str:
    """Return the path of a picture from the root of the project."""
    return f"docs/images/results-{picture.name}.svg"


def line_of(picture: Picture) -> str:
    """Return what the page shows it with."""
    return f"![{picture.title}](../images/results-{picture.name}.svg)\n"
