from __future__ import annotations

import io
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from specon_manager.cli.run.comparison import (
    ResultFile,
    Verdict,
    compare,
    conclusions,
    print_comparison,
    to_json,
    write_json,
)
from specon_manager.cli.run.machine_load import Load
from specon_manager.cli.run.result import JobResult, Machine, RunResult
from specon_manager.cli.run.transaction_results import TransactionResult
from specon_manager.model.transactions import Kind, TransactionState
from specon_sidecar.classify import Category

RUNS = "still runs"


def job(name, took, moves=1, gain=None):
    """Return the result of a job that took so long, failed (None) or still runs."""
    done = isinstance(took, float)
    return JobResult(
        name=name,
        submitted_at=0.0,
        finished_at=None if took == RUNS else took if done else 1.0,
        completion_seconds=took if done else None,
        succeeded=done,
        moves=moves,
        downtimes=(),
        steps_lost=0,
        crashes=0,
        category=Category.CONVERGED,
        steps=10,
        gain_seconds=gain,
    )


def run(policy="specon", makespan=None, load=None, moves=1, **took):
    """Return the result of a run whose jobs took so long, and were moved so often."""
    return RunResult(
        policy=policy,
        jobs=tuple(job(name, seconds, moves) for name, seconds in took.items()),
        average_completion_seconds=None,
        makespan_seconds=makespan,
        moves_by_outcome={TransactionState.SUCCEEDED: moves} if moves else {},
        moves=(),
        placements=(),
        machine=Machine(nodes=1, cpus=2.0, names=("node-0",)),
        load=load,
    )


def printed(*runs):
    """Return what is printed on a page of 80 columns."""
    console = Console(width=80, record=True, file=io.StringIO(), force_terminal=False)
    print_comparison(runs, console)
    return console.export_text()


@pytest.mark.parametrize(
    ("with_moves", "without", "verdict"),
    [
        (97.0, 100.0, Verdict.HELPED),
        (98.0, 100.0, Verdict.UNCHANGED),
        (102.0, 100.0, Verdict.UNCHANGED),
        (102.1, 100.0, Verdict.HURT),
        (None, 100.0, Verdict.HURT),
        (100.0, None, Verdict.HELPED),
        (None, None, Verdict.NOT_COMPARABLE),
        (RUNS, 100.0, Verdict.NOT_COMPARABLE),
        (100.0, RUNS, Verdict.NOT_COMPARABLE),
        (5.0, 0.0, Verdict.NOT_COMPARABLE),
    ],
)
def test_a_job_is_helped_or_hurt_beyond_two_per_cent(with_moves, without, verdict):
    """More than 2 % faster is helped, more than 2 % slower is hurt, and a failure is worse than any time."""
    comparison = compare(run(a=with_moves), run(a=without))
    assert comparison.jobs[0].verdict is verdict
    counts = (comparison.helped, comparison.hurt, comparison.unchanged, comparison.not_comparable)
    assert sum(counts) == 1
    assert not comparison.no_verdict


def test_differences_are_relative_to_the_second_run():
    """A negative difference means that the first was faster, its percentage is of the second."""
    each = compare(run(a=90.0), run(a=120.0)).jobs[0].completion
    assert (each.first, each.second, each.seconds, each.percent) == (90.0, 120.0, -30.0, -25.0)


def test_the_average_is_over_jobs_that_succeeded_in_both():
    """A slow job that failed in one run makes that run look no faster."""
    average = compare(run(a=10.0, b=None), run(a=12.0, b=500.0)).average_completion
    assert (average.first, average.second) == (10.0, 12.0)


def test_the_time_to_the_gain_is_over_jobs_of_which_both_runs_know_it():
    """A job whose log named no steps in one run counts in neither."""
    runs = [run(), run()]
    gains = [(10.0, None), (20.0, 99.0)]
    runs = [
        msgspec.structs.replace(
            each, jobs=tuple(job(name, 100.0, gain=gain) for name, gain in zip("ab", of, strict=True))
        )
        for each, of in zip(runs, gains, strict=True)
    ]
    gain = compare(*runs).gain
    assert (gain.first, gain.second, gain.percent) == (10.0, 20.0, -50.0)


def said(*runs):
    return conclusions(compare(*runs), runs)


def busy(others, own=None, seconds=100.0):
    """Return the load of a machine of two CPUs where others took so many processor seconds."""
    return Load(
        cpus=2,
        seconds=seconds,
        own=2 * seconds - (others or 0) if own is None else own,
        others=others,
        left=() if others is None else ((0.0, 0.0), (seconds, seconds - others / 2)),
    )


def test_where_nothing_was_done_there_is_no_verdict():
    """Two runs of the same jobs differ by what the machine did: nobody is called helped or hurt."""
    first = run(a=40.0, b=60.0, makespan=60.0, moves=0, load=busy(10.0))
    second = run("round-robin", a=50.0, b=55.0, makespan=55.0, moves=0, load=busy(10.0))
    comparison = compare(first, second)
    assert not comparison.acted
    assert {each.verdict for each in comparison.jobs} == {Verdict.NO_VERDICT}
    assert said(first, second) == [
        "jobs: 0 helped, 0 hurt, 0 unchanged (within 2 %), 2 without a verdict",
        "no moves were made",
        "and nothing else was done to a job that trained: only the first nodes may differ, no verdict",
        (
            "load: others took 5% of 2 CPUs under specon, 5% under round-robin;"
            " the runs themselves took 190 and 190 processor seconds"
        ),
        "times are of a machine that others left alone",
    ]


def test_weights_deserve_a_verdict_and_it_is_said_that_nothing_moved():
    """What shared its node by weight was helped or hurt by that."""
    first = msgspec.structs.replace(run(a=40.0, moves=0), reweighted=3)
    second = run("round-robin", a=50.0, moves=0)
    assert compare(first, second).jobs[0].verdict is Verdict.HELPED
    assert said(first, second)[1:] == ["no moves were made"]


def test_a_run_that_scaled_a_job_acted():
    """Changes of jobs that trained count; admissions alone do not."""
    change = TransactionResult(
        id="scale-in-1",
        job="default/a",
        replica=None,
        source="",
        target="",
        kind=Kind.SCALE_IN,
        state=TransactionState.SUCCEEDED,
        policy="kod2",
        purpose="",
        reason="",
        note="",
        beneficiary="",
        workers_before=3,
        workers_after=2,
        restart=True,
        started_at=0.0,
        ended_at=1.0,
        checkpoint_step=None,
        last_step_before=None,
        first_step_after=None,
        downtime=None,
        steps_lost=None,
    )
    admission = msgspec.structs.replace(change, workers_before=0)
    for changes, moved in (((change,), True), ((admission,), False), ((), False)):
        assert msgspec.structs.replace(run(moves=0, a=1.0), changes=changes).acted is moved


def test_times_are_of_a_machine_that_others_left_alone():
    """What the load explains is no success: 80 s of all of it are not shorter than 100 s of 70 %."""
    first = run(a=80.0, b=20.0, makespan=80.0, load=busy(0.0))
    second = run("round-robin", a=100.0, b=100.0, makespan=100.0, load=busy(60.0))
    comparison = compare(first, second)
    assert comparison.drifted
    assert comparison.normalised
    assert [each.verdict for each in comparison.jobs] == [Verdict.HURT, Verdict.HELPED]
    assert (comparison.makespan.first, comparison.makespan.second) == (80.0, 70.0)
    assert said(first, second)[-3:] == [
        (
            "load: others took 0% of 2 CPUs under specon, 30% under round-robin;"
            " the runs themselves took 200 and 140 processor seconds"
        ),
        "times are of a machine that others left alone; the load drifted: that takes out most of it, not all",
        "had both runs taken as many processor seconds: completion -50.0 %",
    ]


def test_a_load_counts_when_it_was():
    """A job that ended before others came is not shortened for them."""
    load = Load(
        cpus=2, seconds=100.0, own=100.0, others=100.0, left=((0.0, 0.0), (50.0, 50.0), (100.0, 50.0))
    )
    assert [load.left_until(at) for at in (0.0, 25.0, 50.0, 75.0, 100.0)] == [0.0, 25.0, 50.0, 50.0, 50.0]
    comparison = compare(run(a=50.0, b=100.0, load=load), run(a=50.0, b=100.0, load=busy(0.0)))
    assert [each.completion.first for each in comparison.jobs] == [50.0, 50.0]


def test_times_of_a_machine_that_was_half_idle_are_by_the_clock():
    """There the load of others cost nobody anything; where it drifted nothing is said."""
    idle = busy(60.0, own=20.0)
    runs = run(a=80.0, makespan=80.0, load=busy(0.0)), run(a=100.0, makespan=100.0, load=idle)
    comparison = compare(*runs)
    assert comparison.drifted
    assert not comparison.normalised
    assert (comparison.makespan.first, comparison.makespan.second) == (80.0, 100.0)
    assert comparison.jobs[0].verdict is Verdict.NO_VERDICT
    assert said(*runs)[-1] == "times are wall-clock time; the load drifted: no verdict"


def test_a_load_that_nobody_knows_is_said_so():
    """Some systems do not count the time of their CPUs."""
    lines = said(run(a=80.0, load=busy(None)), run(a=100.0, load=busy(3.0)))
    assert lines[-1].startswith("load: the use of the machine by others is not known")


def test_what_is_not_known_is_said_so():
    """Without a makespan, and without a job in both runs, nothing is computed."""
    runs = run(a=13.0), run(b=12.3, makespan=5.0)
    comparison = compare(*runs)
    assert comparison.not_comparable == 2
    assert (
        comparison.average_completion.first
        is comparison.makespan.first
        is comparison.makespan.percent
        is None
    )
    assert said(*runs) == ["jobs: 0 helped, 0 hurt, 0 unchanged (within 2 %), 2 not comparable"]


def test_each_policy_is_summed_up():
    """Time to the gain, completion, makespan, moves, preemptions and steps lost stand side by side."""
    runs = run(a=40.0, makespan=40.0), run("round-robin", a=50.0, makespan=80.0, moves=0)
    lines = [" ".join(line.split()) for line in printed(*runs).splitlines()]
    for line in (
        "time to 98 % of the gain - - - -",
        "completion 40.0 50.0 -10.0 -20.0",
        "makespan 40.0 80.0 -40.0 -50.0",
        "moves 1 0",
        "preemptions 0 0",
        "steps lost 0 0",
    ):
        assert line in lines


def test_both_runs_stand_side_by_side():
    """Each job has a line with both times, the difference in seconds and per cent, and the verdict."""
    first = run(**{"default/mnist": 90.0, "[red]x": 55.0, "team-a/gan": None})
    second = run("round-robin", **{"default/mnist": 120.0, "[red]x": 50.0, "team-a/gan": 10.0})
    lines = [line.split() for line in printed(first, second).splitlines()]
    assert lines[0] == ["completion", "times,", "specon", "against", "round-robin"]
    assert ["mnist", "90.0", "120.0", "-30.0", "-25.0", "helped"] in lines
    assert ["[red]x", "55.0", "50.0", "+5.0", "+10.0", "hurt"] in lines
    assert ["team-a/gan", "-", "10.0", "-", "-", "hurt"] in lines


def test_no_jobs_at_all():
    """Two empty runs compare without numbers."""
    comparison = compare(run(), run())
    assert (comparison.jobs, comparison.average_completion.seconds) == ((), None)
    assert "0 helped, 0 hurt, 0 unchanged" in printed(run(), run())


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.tuples(*[st.one_of(st.none(), st.just(RUNS), st.floats(0.0, 1e6))] * 2),
        max_size=6,
    )
)
def test_every_job_gets_exactly_one_verdict(took):
    """Whatever became of the jobs, the counts add up, the verdicts mirror each other, and it prints."""
    first = run(**{name: pair[0] for name, pair in took.items() if name not in {"policy", "makespan"}})
    second = run(**{name: pair[1] for name, pair in took.items() if name not in {"policy", "makespan"}})
    there, back = compare(first, second), compare(second, first)
    counts = there.helped + there.hurt + there.unchanged + there.no_verdict + there.not_comparable
    assert counts == len(there.jobs) == len(first.jobs)
    assert printed(first, second)
    for one, other in zip(there.jobs, back.jobs, strict=True):
        assert (one.verdict, other.verdict) != (Verdict.HELPED, Verdict.HELPED)
        assert (one.verdict, other.verdict) != (Verdict.HURT, Verdict.HURT)


def test_json_has_the_runs_and_their_comparison():
    """Two runs are written with their comparison, one alone with none; what is not known is null."""
    first, second = run(a=90.0, b=None), run("round-robin", a=120.0, b=None)
    both = json.loads(to_json([first, second]))
    assert (both["schema"], [each["policy"] for each in both["runs"]]) == (2, ["specon", "round-robin"])
    assert both["runs"][0]["jobs"][1]["completion_seconds"] is None
    assert both["comparison"]["jobs"][0]["verdict"] == "helped"
    assert both["comparison"]["average_completion"]["percent"] == -25.0
    assert json.loads(to_json([first]))["comparison"] is None


def test_json_is_read_back_as_it_was():
    """The file decodes into the same records."""
    runs = [run(a=90.0), run(a=91.0)]
    read = msgspec.json.decode(to_json(runs), type=ResultFile)
    assert read.runs == tuple(runs)
    assert read.comparison == compare(*runs)


def test_the_documented_schema_names_every_field():
    """Each field that is written is named in the description of the format."""
    from specon_manager.cli.run import comparison  # noqa: PLC0415 - its docstring is what is tested

    def fields(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield key
                yield from fields(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from fields(inner)

    both = [run(a=1.0, moves=0, load=busy(1.0)), run(a=2.0, moves=0, load=busy(1.0))]
    written = set(fields(json.loads(to_json(both))))
    assert {name for name in written if f"`{name}`" not in (comparison.__doc__ or "")} == set()


def test_a_file_is_replaced_as_a_whole(tmp_path):
    """The new content takes the place of the old one, and nothing else is left in the folder."""
    path = tmp_path / "out.json"
    path.write_text("old")
    write_json(path, [run(a=1.0)])
    assert path.read_bytes() == to_json([run(a=1.0)])
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_keeps_its_content(tmp_path, monkeypatch):
    """Where writing fails the old file stays as it was, and no half of a new one lies beside it."""
    path = tmp_path / "out.json"
    path.write_text("old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_json(path, [run(a=1.0)])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_an_error(tmp_path):
    """No folder is made that nobody asked for."""
    with pytest.raises(FileNotFoundError, match="missing"):
        write_json(tmp_path / "missing" / "out.json", [run(a=1.0)])
