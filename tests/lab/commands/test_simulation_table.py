"""The table of a simulation."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from specon_lab.commands.simulation_table import format_mean, print_report, troubles
from specon_lab.results.report import condense, report_on
from specon_lab.results.statistics import Interval
from support.lab.outcomes import job, outcome

pytest.importorskip("scipy")


def run(policy, *seconds, seed=0, **fields):
    jobs = [job(number, each, **fields) for number, each in enumerate(seconds)]
    return condense(outcome(*jobs), policy, seed=seed)


def printed(report, width=120, **console):
    file = io.StringIO()
    print_report(report, Console(file=file, width=width, **console), title="by-hand: 2 jobs")
    return file.getvalue()


def row(text, title):
    """Return the cells of a line, without the spaces between them."""
    (line,) = [line for line in text.splitlines() if line.startswith(title)]
    return [cell.strip() for cell in line[len(title) :].split("  ") if cell.strip()]


@pytest.mark.parametrize(
    ("interval", "unit", "signed", "expected"),
    [
        (None, "s", False, "-"),
        (Interval(mean=12.34, low=None, high=None, runs=1), "s", False, "12.3"),
        (Interval(mean=12.34, low=11.34, high=13.34, runs=3), "s", False, "12.3 ± 1.0"),
        (Interval(mean=5000.4, low=4000.4, high=6000.4, runs=3), "s", False, "5,000 ± 1,000"),
        (Interval(mean=0.5, low=0.4, high=0.6, runs=3), "share", False, "50.0 ± 10.0 %"),
        (Interval(mean=-3.0, low=-4.0, high=-2.0, runs=3), "percent", True, "-3.0 ± 1.0 %"),
        (Interval(mean=3.0, low=None, high=None, runs=1), "percent", True, "+3.0 %"),
        (Interval(mean=1234.0, low=1234.0, high=1234.0, runs=3), "count", False, "1,234"),
        (Interval(mean=2.5, low=1.5, high=3.5, runs=3), "count", False, "2.5 ± 1.0"),
        (Interval(mean=1.234, low=None, high=None, runs=1), "ratio", False, "1.23"),
    ],
)
def test_a_figure_is_shown_with_its_spread_in_its_unit(interval, unit, signed, expected):
    """As many places for the one number as for the other."""
    assert format_mean(interval, unit, signed=signed) == expected


def test_policies_stand_side_by_side():
    """A column each, a line per figure."""
    text = printed(report_on([run("specon", 100.0, 300.0), run("srpt", 50.0, 100.0)]))
    assert "by-hand: 2 jobs" in text
    assert row(text, "completion time, average (s)") == ["200.0", "75.0"]
    assert row(text, "slowdown, best-effort, p50") == ["4.00", "1.50"]
    assert row(text, "used for training") == ["60.0 %", "60.0 %"]
    assert "against" not in text


def test_what_never_happened_has_no_line():
    """No trial, no preemption, no failure; but waiting is told though nobody waited."""
    text = printed(report_on([run("specon", 100.0)]))
    for absent in ("trial", "preempt", "scale", "failed", "unfinished"):
        assert absent not in text
    assert row(text, "waiting, average (s)") == ["0.0"]


def test_a_baseline_is_marked_and_the_others_are_compared_with_it():
    """Differences in percent, and how many jobs were helped and hurt."""
    text = printed(
        report_on([run("specon", 50.0, 102.0), run("round-robin", 100.0, 100.0)], baseline="round-robin")
    )
    assert "baseline" in text
    assert row(text, "  completion time, average") == ["-24.0 %", "-"]
    assert row(text, "  jobs helped (over 1 %)") == ["1 (50.0 %)", "-"]
    assert row(text, "  jobs hurt (over 1 %)") == ["1 (50.0 %)", "-"]


def test_only_a_difference_beyond_doubt_has_a_colour():
    """Green where the interval is on the better side, red on the worse, none where it holds 0."""
    seeds = range(4)
    better = [run("better", 50.0 + seed, 50.0, seed=seed) for seed in seeds]
    worse = [run("worse", 200.0 + seed, 200.0, seed=seed) for seed in seeds]
    unsure = [run("unsure", 100.0 + 30.0 * (-1) ** seed, 100.0, seed=seed) for seed in seeds]
    base = [run("base", 100.0, 100.0, seed=seed) for seed in seeds]
    report = report_on([*better, *worse, *unsure, *base], baseline="base")
    text = printed(report, force_terminal=True, color_system="standard", width=160)
    (line,) = [line for line in text.splitlines() if "  completion time, average" in line]
    cells = line.split("%")
    assert "\x1b[32m" in cells[0]
    assert "\x1b[31m" in cells[1]
    assert "\x1b[3" not in cells[2]


def test_many_policies_are_divided_into_tables_that_fit():
    """No line is wider than the terminal, and none is missing."""
    names = [f"policy-number-{number}" for number in range(9)]
    text = printed(report_on([run(name, 100.0) for name in names]), width=80)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert all(name in text for name in names)
    assert text.count("completion time, average (s)") > 1


def test_jobs_that_did_not_complete_are_named_with_their_reason():
    """Ten at most, then their number."""
    report = report_on([run("specon", *[None] * 12), run("srpt", *[1.0] * 12)])
    lines = troubles(report)
    assert lines[0] == "specon: 12 jobs did not complete"
    assert lines[1] == "  seed 0, job-0, unfinished: waited until the end for 0 GPUs"
    assert lines[-1] == "  and 2 more"
    assert len(lines) == 12


def test_a_name_steers_no_terminal():
    """Control characters of a reason are not printed."""
    report = report_on([run("specon", None, reason="bad\x1b[2Jword")])
    assert "\x1b" not in "".join(troubles(report))
