"""DRAGON's reproduction: its runs, and that its tables say what was measured."""

import pickle
from collections import defaultdict

import pytest

from specon_lab.commands.dragon_plot import plot
from specon_lab.reproduction.dragon import REPRODUCTION
from specon_lab.reproduction.dragon_runs import INTENSITIES, SCHEDULERS, SECONDS, sweep_key, table_key
from specon_lab.reproduction.dragon_tables import sweep_points, waiting_reduction
from support.lab.quick_runs import measure_quick_runs

ELAPSED = "Figure 7: elapsed time of a job, in units of Kubeflow's"
RUNNING = "Figure 6: running time of a job, in units of DRAGON's"


@pytest.fixture(scope="module")
def collected():
    """Measures of the quick runs."""
    return measure_quick_runs(REPRODUCTION)


def rows_of(collected):
    return {
        (section.title, row.what): row for section in REPRODUCTION.sections(collected) for row in section.rows
    }


def test_the_full_runs_have_every_scheduler_with_the_same_seeds_and_can_travel():
    """Both baselines and both modes meet the same jobs, in Table 1 and at each intensity."""
    runs = REPRODUCTION.runs(False)
    met = defaultdict(set)
    for run in runs:
        met[run.key].add((run.workload, run.seed))
    for keys in (
        [table_key(each.name) for each in SCHEDULERS],
        *([sweep_key(intensity, each.name) for each in SCHEDULERS] for intensity in INTENSITIES),
    ):
        assert len({frozenset(met[key]) for key in keys}) == 1
        assert len(met[keys[0]]) > 1
    assert pickle.loads(pickle.dumps(runs[0])).key == runs[0].key


def test_the_bars_have_the_order_of_the_paper(collected):
    """DRAGON's jobs end before the locality-aware scheduler's, and those before Kubeflow's."""
    rows = rows_of(collected)
    locality = rows[ELAPSED, "saved by the locality-aware scheduler"].default
    dragon = rows[ELAPSED, "saved by DRAGON"]
    assert 0 < locality < min(dragon.literal, dragon.default)


def test_bars_add_up(collected):
    """Running and waiting of Kubeflow are all of its elapsed time; DRAGON's parts leave what it saves."""
    rows = rows_of(collected)
    parts = [rows[ELAPSED, f"Kubeflow, {what}"].default for what in ("running", "waiting")]
    assert sum(parts) == pytest.approx(1.0)
    parts = [rows[ELAPSED, f"DRAGON, {what}"].literal for what in ("running", "scaling", "waiting")]
    assert sum(parts) == pytest.approx(1 - rows[ELAPSED, "saved by DRAGON"].literal / 100)


def test_dragon_saves_time_against_kubeflow_at_every_intensity(collected):
    """Elapsed, running and waiting time are shorter in both modes."""
    points = [point for point in sweep_points(collected) if point.baseline == "kubeflow"]
    assert {(point.mode, point.intensity) for point in points} == {
        (mode, intensity) for mode in ("literal", "default") for intensity in (1.0, 4.0)
    }
    for point in points:
        assert point.waiting is not None
        assert min(point.elapsed.mean, point.running.mean, point.waiting.mean) > 0


def test_every_job_completes_in_every_run(collected):
    """No mean is of a part of the jobs."""
    assert {run["incomplete"] for runs in collected.values() for run in runs} == {0.0}


def test_a_measure_that_changes_changes_its_row(collected):
    """Half the running time in default mode halves its bar, doubles its factors, and leaves literal alone."""
    key = table_key("dragon/default")
    halved = [
        {name: value / 2 if name.startswith("running") else value for name, value in run.items()}
        for run in collected[key]
    ]
    before, after = rows_of(collected), rows_of(collected | {key: halved})
    bar, factor = (ELAPSED, "DRAGON, running"), (RUNNING, "Kubeflow, the most of a job")
    assert after[bar].default == pytest.approx(before[bar].default / 2)
    assert after[factor].default == pytest.approx(before[factor].default * 2)
    assert [after[name].literal for name in (bar, factor)] == [before[name].literal for name in (bar, factor)]


def test_what_was_fitted_has_no_verdict(collected):
    """However many seeds there are: Figures 6 to 8 say how well three numbers were chosen."""
    many = rows_of({key: runs * 5 for key, runs in collected.items()})
    fitted = [
        row for (title, _), row in many.items() if title.startswith(("Figure 6", "Figure 7", "Figure 8"))
    ]
    assert len(fitted) > 10
    assert all(row.reproduced is None for row in fitted if row.paper is not None)
    assert any(row.reproduced is not None for row in many.values())


def test_a_sign_that_the_seeds_do_not_agree_on_has_no_verdict(collected):
    """Five seeds with time saved are reproduced, five with time lost are missed, some of each is neither."""
    ours, theirs = sweep_key(1.0, "dragon/default"), sweep_key(1.0, "locality-aware")

    def verdict(*times):
        runs = [{**collected[theirs][0], "running": time, "paused": 0.0, "waiting": 0.0} for time in times]
        base = [{**collected[theirs][0], "running": 100.0, "paused": 0.0, "waiting": 0.0}] * len(times)
        rows = rows_of({ours: runs, theirs: base})
        title = "Figure 9: time saved against the locality-aware scheduler"
        return rows[title, "elapsed time, intensity 1"].reproduced

    def near(seconds):
        return [seconds + number for number in range(5)]

    assert [verdict(*near(80.0)), verdict(*near(120.0)), verdict(*near(98.0))] == [True, False, None]
    assert verdict(*near(80.0)[1:]) is None  # four are too few


def test_waiting_is_compared_over_all_seeds():
    """A seed in which the baseline hardly waits counts by its seconds: 11 instead of 101 is 89 % less."""
    base = [{"waiting": 100.0, "paused": 0.0}, {"waiting": 1.0, "paused": 0.0}]
    ours = [{"waiting": 1.0}, {"waiting": 10.0}]
    found = waiting_reduction({"a": ours, "b": base}, "a", "b")
    assert found.mean == pytest.approx(100 * (1 - 11 / 101))
    assert waiting_reduction({"a": ours, "b": [{"waiting": 0.0, "paused": 0.0}]}, "a", "b") is None


def test_arrivals_in_seconds_would_crowd_the_jobs(collected):
    """With the unit as printed jobs wait for a far larger part of their time than the paper shows."""
    found = [row.default for (title, _), row in rows_of(collected).items() if title.startswith("Table 1")]
    minutes, seconds = found
    assert seconds > 3 * minutes


def test_sections_cope_with_what_is_missing(collected):
    """No runs, no tables; without the literal mode its column is empty; one seed shows no spread."""
    assert REPRODUCTION.sections({}) == ()
    part = {key: runs[:1] for key, runs in collected.items() if "literal" not in key and key != SECONDS}
    rows = rows_of(part)
    assert len(rows) == len(rows_of(collected)) - 1
    assert {row.literal for row in rows.values()} == {None}
    assert {row.spread for row in rows.values()} == {None}


def test_the_sweep_is_drawn(collected, tmp_path):
    """The picture shows what was collected; without a run of the sweep there is an error that says so."""
    pytest.importorskip("matplotlib")
    plot(collected, tmp_path / "a.svg")
    plot({**collected, sweep_key(4.0, "kubeflow"): []}, tmp_path / "b.svg")
    texts = [(tmp_path / name).read_text(encoding="utf-8") for name in ("a.svg", "b.svg")]
    assert texts[0].startswith("<?xml")
    assert texts[0].count("<use ") > texts[1].count("<use ")
    with pytest.raises(ValueError, match="no run of the sweep"):
        plot({}, tmp_path / "c.svg")
