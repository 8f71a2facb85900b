"""A report as one page of HTML, which needs nothing from elsewhere: its figures, pictures and list. Pure."""

from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Final

from specon_manager.model.transactions import TransactionState
from specon_manager.views.report import Report, figures
from specon_manager.views.transactions import TransactionRow
from specon_sidecar.counts import format_count

_WIDTH: Final = 720
_HEIGHT: Final = 160
_LEFT: Final = 56
_BELOW: Final = 28
_BARS: Final = 24
_MOST_ROWS: Final = 500
_GOOD: Final = str(TransactionState.SUCCEEDED)
_STYLE: Final = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:760px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8886;vertical-align:top}
p,.figures td{overflow-wrap:anywhere}th[scope=row]{font-weight:600;width:45%}
.scroll td{min-width:9rem}.scroll td:first-child,.scroll td:nth-child(4){white-space:nowrap;min-width:0}
svg{width:100%;height:auto}text{font:18px system-ui,sans-serif;fill:currentColor}
.good{fill:#2da44e}.bad{fill:#cf222e}.axis{stroke:currentColor;stroke-opacity:.4}.scroll{overflow-x:auto}
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: Report) -> str:
    """Return the page."""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in figures(report)
    )
    notes = "".join(f"<li>{escape(each)}</li>" for each in report.unknown)
    listed = "".join(_row(row) for row in report.rows[-_MOST_ROWS:])
    left = len(report.rows) - _MOST_ROWS
    more = f"<p>{left} older ones are left out: -o json has all of them.</p>" if left > 0 else ""
    since, until = escape(report.since or ""), escape(report.until or "")
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>specon: what it did</title><style>{_STYLE}</style></head><body><main>",
            f"<h1>What specon did</h1><p>{escape(report.manager)}, {since} to {until}</p>",
            f'<table class="figures"><tbody>{rows}</tbody></table>',
            f"<h2>Missing information</h2><ul>{notes}</ul>" if notes else "",
            f"<h2>Moves and changes over time</h2>{ends_picture(report)}",
            f"<h2>Downtime of each move</h2>{downtimes(report)}",
            '<h2>List</h2><div class="scroll" tabindex="0" role="region" aria-label="Moves and changes">',
            "<table><thead><tr><th>ended</th><th>of</th><th>what</th><th>state</th><th>why</th></tr></thead>",
            f"<tbody>{listed}</tbody></table></div>{more}</main></body></html>\n",
        )
    )


def ends_picture(report: Report) -> str:
    """Return how many moves and changes ended when, as SVG; those that succeeded stand below."""
    begin, end = _time(report.since), _time(report.until)
    counts = [[0, 0] for _ in range(_BARS)]
    for row in report.rows:
        at = int((_time(row.ended_at) - begin) / max(1e-9, end - begin) * _BARS)
        counts[min(_BARS - 1, max(0, at))][row.state != _GOOD] += 1
    most = max((sum(each) for each in counts), default=0)
    words = f"The highest of {_BARS} bars stands for {most}."
    wide = (_WIDTH - _LEFT) / _BARS
    bars = []
    for number, (good, bad) in enumerate(counts):
        high = _HEIGHT * good / max(1, most)
        low = _HEIGHT * bad / max(1, most)
        x = _LEFT + number * wide + 1
        bars += [_bar("good", x, _HEIGHT - high, wide - 2, high)] * bool(good)
        bars += [_bar("bad", x, _HEIGHT - high - low, wide - 2, low)] * bool(bad)
    return _picture("Moves and changes that ended, over time", words, bars, str(most), report)


def downtimes(report: Report) -> str:
    """Return the downtime of each move that has one, as SVG: a bar each, in the order of their ends."""
    known = [(row, row.downtime_seconds) for row in report.rows if row.downtime_seconds is not None][-200:]
    most = max((seconds for _, seconds in known), default=0.0)
    words = (
        f"{format_count(len(known), 'move')}, the longest {most:.1f} seconds."
        if known
        else "No downtime is known."
    )
    wide = (_WIDTH - _LEFT) / max(1, len(known))
    bars = []
    for number, (row, seconds) in enumerate(known):
        high = _HEIGHT * seconds / max(1e-9, most)
        kind = "good" if row.state == _GOOD else "bad"
        bars.append(_bar(kind, _LEFT + number * wide, _HEIGHT - high, max(1.0, wide - 1), high))
    return _picture("Downtime of each move, seconds", words, bars, f"{most:.0f} s", None)


def _picture(title: str, words: str, bars: Sequence[str], top: str, report: Report | None) -> str:
    """Return a picture with its axis; with a report the axis below is its time."""
    since, until = ("", "") if report is None else ((report.since or "")[:16], (report.until or "")[:16])
    label = escape(f"{title}. {words}")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + _BELOW}" role="img" aria-label="{label}">'
        f'<line class="axis" x1="{_LEFT}" y1="{_HEIGHT}" x2="{_WIDTH}" y2="{_HEIGHT}"/>'
        f'<text x="{_LEFT - 6}" y="16" text-anchor="end">{escape(top)}</text>'
        f'<text x="{_LEFT}" y="{_HEIGHT + 22}">{escape(since)}</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT + 22}" text-anchor="end">{escape(until)}</text>'
        f"{''.join(bars)}</svg><p>{escape(words)} Green succeeded, red did not.</p>"
    )


def _bar(kind: str, x: float, y: float, wide: float, high: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}"/>'


def _row(row: TransactionRow) -> str:
    ended = (row.ended_at or "")[:16].replace("T", " ")
    cells = (ended, row.label, f"{row.kind}: {row.what}", row.state, row.reason or row.note)
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _time(at: str | None) -> float:
    try:
        return datetime.fromisoformat(at or "").timestamp()
    except ValueError:
        return 0.0
