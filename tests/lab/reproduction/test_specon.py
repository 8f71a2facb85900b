"""SpeCon's reproduction: rows follow from what was measured, and SpeCon gains in the literal mode."""

from collections import defaultdict
from statistics import fmean

import pytest

from specon_lab.reproduction.experiment import Section
from specon_lab.reproduction.specon import REPRODUCTION
from specon_lab.reproduction.specon_runs import EXPERIMENTS, JOB, LITERAL, NO_CONTENTION, TABLE_3
from specon_lab.reproduction.specon_tables import (
    average_reduction,
    best,
    faster,
    gain_seconds,
    loss_percent,
    makespan_reduction,
    values,
    verdict,
)
from support.lab.quick_runs import measure_quick_runs

QUICK_KEYS = {
    "fixed/round-robin",
    "fixed/specon/literal",
    "fixed/specon/default",
    "fixed/specon/gate",
    "random/round-robin",
    "random/specon/literal",
    "random/specon/default",
    "mixed-20/round-robin",
    "mixed-20/specon/literal",
    "mixed-20/specon/default",
    "fixed-contention-0/round-robin",
    "fixed-contention-0/specon/literal",
    "fixed-contention-0/specon/default",
}


@pytest.fixture(scope="module")
def collected():
    """Measures of the quick runs."""
    return measure_quick_runs(REPRODUCTION)


def section(sections, beginning) -> Section:
    return next(each for each in sections if each.title.startswith(beginning))


def made_up(seed, *times, makespan=100.0):
    jobs = {f"{JOB}{index}": time for index, time in enumerate(times)}
    return {"seed": float(seed), "makespan": makespan, "moves": 1.0, "paused": 5.0, "incomplete": 0.0, **jobs}


def test_quick_runs_are_those_of_the_sections(collected):
    """Every quick key is measured, all jobs complete, and the full set has these keys and more."""
    assert set(collected) == QUICK_KEYS
    assert all(measures["incomplete"] == 0 for runs in collected.values() for measures in runs)
    assert {run.key for run in REPRODUCTION.runs(False)} > QUICK_KEYS


def test_full_runs_have_twenty_seeds_of_each_experiment_of_the_paper():
    """Each experiment and each cell of Table III is run with the same 20 seeds, with and without moves."""
    seeds = defaultdict(list)
    for run in REPRODUCTION.runs(False):
        seeds[run.key].append(run.seed)
    for cell in (*EXPERIMENTS, *TABLE_3):
        assert seeds[cell.baseline_key] == seeds[cell.key(LITERAL)] == list(range(20))


def test_literal_mode_knows_no_gate_and_no_repair():
    """As printed means policy and classifier; the gate is off in every mode but the one that is called so."""
    for run in REPRODUCTION.runs(False):
        if run.policy == "round-robin":
            continue
        literal = run.key.endswith("/literal")
        assert (run.parameters.get("literal", False), run.classifier.literal) == (literal, literal)
        assert run.settings.gate.enabled == run.key.endswith("/gate")


def test_the_rows_of_the_paper_are_there(collected):
    """Figure 5 has the paper's numbers and both modes; with two seeds nothing is called reproduced."""
    figure_5 = section(REPRODUCTION.sections(collected), "Figure 5")
    rows = {(row.what, row.unit): row for row in figure_5.rows}
    assert rows["average, reduction", "%"].paper == 14.7
    assert rows["best job, reduction", "%"].paper == 37.6
    assert all(row.literal is not None and row.default is not None for row in figure_5.rows)
    assert {row.reproduced for row in figure_5.rows} == {None}


def test_specon_is_faster_than_no_moves(collected):
    """In the literal mode average and makespan shrink in all three quick experiments."""
    for cell in EXPERIMENTS[:3]:
        for figure in (average_reduction, makespan_reduction):
            assert fmean(values(collected, cell, LITERAL, figure)) > 0


def test_contention_is_where_much_of_the_gain_is_from(collected):
    """Without contention the fixed run gains less than with it."""
    with_it, without = (
        fmean(values(collected, cell, LITERAL, average_reduction))
        for cell in (EXPERIMENTS[0], NO_CONTENTION[0])
    )
    assert without < with_it


def test_missing_runs_leave_their_tables_out():
    """Without any run only Figure 1 is left, which needs none."""
    assert [each.title[:8] for each in REPRODUCTION.sections({})] == ["Figure 1"]


def test_a_changed_measure_changes_its_row(collected):
    """A makespan that is twice as long is seen in the table, and only there where it belongs."""
    key = "fixed/specon/literal"
    changed = collected | {key: [run | {"makespan": 2 * run["makespan"]} for run in collected[key]]}
    before, after = (
        {(row.what, row.unit): row for row in section(REPRODUCTION.sections(runs), "Figure 5").rows}
        for runs in (collected, changed)
    )
    assert after["makespan", "s"].literal == pytest.approx(2 * before["makespan", "s"].literal)
    assert after["makespan, reduction", "%"].literal < 0
    assert after["makespan", "s"].default == before["makespan", "s"].default
    assert after["average, reduction", "%"] == before["average, reduction", "%"]


def test_figures_of_two_runs():
    """Gains count those that are faster, losses those that are slower, and equal ones are neither."""
    run, baseline = made_up(0, 50.0, 110.0, 70.0, makespan=75.0), made_up(0, 100.0, 100.0, 70.0)
    assert average_reduction(run, baseline) == pytest.approx(100 * 40 / 270)
    assert makespan_reduction(run, baseline) == pytest.approx(25.0)
    assert faster(run, baseline) == pytest.approx(100 / 3)
    assert best(run, baseline) == pytest.approx(50.0)
    assert gain_seconds(run, baseline) == pytest.approx(50.0)
    assert loss_percent(run, baseline) == pytest.approx(10.0)
    assert loss_percent(baseline, baseline) is None


def test_runs_are_compared_by_seed():
    """A seed without its baseline is left out, and the order of the runs does not matter."""
    cell = EXPERIMENTS[0]
    runs = {
        cell.baseline_key: [made_up(2, 100.0), made_up(1, 200.0)],
        cell.key(LITERAL): [made_up(1, 100.0), made_up(2, 90.0), made_up(3, 1.0)],
    }
    assert values(runs, cell, LITERAL, average_reduction) == pytest.approx([50.0, 10.0])
    assert values(runs, cell, LITERAL, average_reduction, {2.0}) == pytest.approx([10.0])


def test_verdict():
    """The paper's run lies among single runs, a gain is one on average, few seeds tell nothing."""
    around_ten = [8.0, 9.0, 10.0, 11.0, 12.0, 9.5, 10.5, 10.0]
    around_none = [-4.0, 4.0, -3.0, 3.0, -2.0, 2.0, -1.0, 1.0]
    assert verdict(around_ten, 12.5, gain=True) is True
    assert verdict(around_ten, 20.0, gain=True) is False
    assert verdict(around_none, 1.0, gain=False) is True
    assert verdict(around_none, 1.0, gain=True) is False
    assert verdict(around_ten[:4], 10.0, gain=True) is None
    assert verdict(around_ten, None, gain=True) is None
