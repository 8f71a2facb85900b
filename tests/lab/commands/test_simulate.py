"""`specon simulate`, from the command to what it prints."""

from __future__ import annotations

import builtins
import contextlib
import json
import multiprocessing
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from specon_lab.commands import simulation_run
from specon_lab.results.figures import FIGURES
from specon_manager.__main__ import main

pytest.importorskip("scipy")

SMALL = ["--workload", "poisson:jobs=8,nodes=2", "--jobs", "1"]


def simulate(*arguments):
    return main(["simulate", *SMALL, *arguments])


def as_json(capsys, *arguments):
    assert simulate(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_policies_are_compared_with_the_baseline_over_seeds(capsys):
    """Title, columns, and the comparison; the progress is on the other stream."""
    assert simulate("--policy", "fifo", "--policy", "srpt", "--baseline", "fifo", "--seeds", "2") == 0
    out, err = capsys.readouterr()
    assert "poisson:jobs=8,nodes=2: 8 jobs, 2 nodes; seeds 0 to 1: mean ± half of the 95 % interval" in out
    assert "completion time, average (s)" in out
    assert "jobs helped (over 1 %)" in out
    assert "4 of 4 runs" in err
    assert "runs:" not in out


def test_json_holds_the_schema(capsys):
    """Command, versions, seeds, every figure with its interval and its value in each run."""
    found = as_json(capsys, "--policy", "fifo", "--baseline", "srpt", "--seeds", "2")
    assert found["schema"] == 1
    assert found["command"] == (
        "specon simulate --workload poisson:jobs=8,nodes=2 --policy fifo --baseline srpt --seeds 2"
    )
    assert set(found["versions"]) == {"specon", "python"}
    assert found["workload"] == {"name": "poisson", "jobs": 8, "nodes": 2}
    assert (found["seeds"], found["complete"], found["failures"]) == ([0, 1], True, [])
    assert list(found["meaning"]) == list(FIGURES)
    fifo, srpt = found["report"]["policies"]
    assert (fifo["policy"], srpt["policy"]) == ("fifo", "srpt")
    assert set(fifo["figures"]) == set(FIGURES)
    assert set(fifo["figures"]["makespan"]) == {"mean", "low", "high", "runs"}
    assert set(fifo["against"]["changes"]["makespan"]) == {"difference", "percent"}
    assert fifo["against"]["helped"]["runs"] == 2
    assert srpt["against"] is None
    values = [run["figures"]["makespan"] for run in found["runs"] if run["policy"] == "fifo"]
    assert fifo["figures"]["makespan"]["mean"] == pytest.approx(sum(values) / 2)


def test_the_same_seeds_give_the_same_bytes(capsys, tmp_path):
    """Whether the runs come one after the other or in several processes, and whatever the time is."""
    one, other = tmp_path / "1.json", tmp_path / "2.json"
    flags = ["--policy", "fifo", "--policy", "rand", "--seeds", "2"]
    assert simulate(*flags, "--json", str(one)) == 0
    assert main(["simulate", *SMALL[:2], *flags, "--jobs", "2", "--json", str(other)]) == 0
    assert one.read_bytes() == other.read_bytes()
    assert "completion time" in capsys.readouterr().out


def test_the_time_of_the_computer_is_told_when_asked_for(capsys):
    """And never else: it differs from day to day."""
    assert as_json(capsys, "--policy", "fifo")["runs"][0]["seconds"] is None
    assert as_json(capsys, "--policy", "fifo", "--timing")["runs"][0]["seconds"] > 0


def test_quick_takes_few_jobs_and_seeds(capsys):
    """And says so."""
    workload = "poisson:jobs=300,curves=0,median=9,sigma=0"
    flags = ["--policy", "fifo", "--seeds", "9", "--quick", "--jobs", "1"]
    assert main(["simulate", "--workload", workload, *flags]) == 0
    assert f"{workload}: 200 jobs, 16 nodes, --quick: the first to arrive; seeds 0 to 1" in (
        capsys.readouterr().out
    )


def test_settings_reach_the_simulation(capsys):
    """With ticks only, and those far apart, jobs wait for their start."""
    waits = [
        as_json(capsys, "--policy", "fifo", "--ticks-only", "--settings", f"tick={tick}")["runs"][0][
            "figures"
        ]["waiting.mean"]
        for tick in (1, 600)
    ]
    assert waits[1] > waits[0] + 60


def test_a_picture_is_drawn(tmp_path, capsys):
    """Beside the table."""
    pytest.importorskip("matplotlib")
    path = tmp_path / "x.png"
    assert simulate("--policy", "fifo", "--plot", str(path)) == 0
    assert path.read_bytes()[:4] == b"\x89PNG"
    assert "completion time" in capsys.readouterr().out


def test_jobs_that_cannot_run_are_told_with_their_reason(tmp_path, capsys):
    """They are left out of the averages, not of the report."""
    path = tmp_path / "jobs.csv"
    path.write_text("name,at,seconds,gpu\na,0,10,1\nhuge,0,10,99\n")
    flags = ["--workload", f"{path}:nodes=1,gpus_per_node=2", "--policy", "fifo", "--jobs", "1"]
    assert main(["simulate", *flags]) == 0
    out = capsys.readouterr().out
    assert "fifo: 1 job did not complete" in out
    assert "seed 0, huge, cannot-run: " in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--policy", "fifo", "--seeds", "0"], "--seeds: 0 is not between 1 and"),
        (["--policy", "fifo", "--jobs", "0"], "--jobs: 0 is less than 1"),
        (["--policy", "nobody"], "--policy: policy: 'nobody' is not one of"),
        (["--policy", "fifo", "--workload", "nothing"], "--workload: 'nothing' is neither"),
        (["--policy", "fifo", "--settings", "tick=0"], "--settings: "),
        (["--policy", "fifo", "--hurt-margin", "nan"], "--hurt-margin: nan is not a number"),
        (["--policy", "fifo", "--plot", "x.docx"], "--plot: x.docx: the format is not one of"),
        (["--policy", "fifo", "--plot", "nowhere/x.png"], "--plot: nowhere/x.png: there is no directory"),
        (["--policy", "fifo", "--json", "nowhere/x.json"], "--json: nowhere/x.json: there is no directory"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_runs(flags, message, capsys, monkeypatch):
    """Exit code 2; the flag and the value are named."""
    monkeypatch.setattr(simulation_run, "simulate", None)
    assert simulate(*flags) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"specon: {message}")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("module", "flags"), [("scipy", ["--seeds", "2"]), ("matplotlib", ["--plot", "x.png"])]
)
def test_a_library_that_is_missing_is_told_with_the_command_that_installs_it(
    module, flags, capsys, monkeypatch
):
    """Before anything runs; and without those flags nothing is missing."""
    original = builtins.__import__

    def refuse(name, *rest):
        if name.partition(".")[0] == module:
            raise ModuleNotFoundError(name=name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert simulate("--policy", "fifo", *flags) == 2
    told = capsys.readouterr().err
    assert f"{module}: pip install 'specon[simulate]'" in told
    assert len(told.splitlines()) == 1
    assert simulate("--policy", "fifo") == 0


def broken(original, policy, error):
    """Return a `simulate` that raises the error for one policy."""

    def simulate_or_raise(workload, name, **rest):
        if name == policy:
            raise error
        return original(workload, name, **rest)

    return simulate_or_raise


def test_a_policy_that_breaks_takes_nothing_from_the_others(capsys, monkeypatch):
    """Exit code 1; what broke and where is told, the others have their column."""
    error = KeyError("default/job-7")
    monkeypatch.setattr(simulation_run, "simulate", broken(simulation_run.simulate, "srpt", error))
    assert simulate("--policy", "fifo", "--policy", "srpt") == 1
    out, err = capsys.readouterr()
    assert "fifo" in out
    assert "srpt" not in out
    assert "specon: srpt, seed 0: KeyError: 'default/job-7' (" in err


def test_an_interruption_shows_what_is_done(capsys, monkeypatch):
    """Exit code 130, and JSON says that it is not complete."""
    monkeypatch.setattr(
        simulation_run, "simulate", broken(simulation_run.simulate, "srpt", KeyboardInterrupt())
    )
    assert simulate("--policy", "fifo", "--policy", "srpt", "--json") == 130
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["complete"] is False
    assert [run["policy"] for run in found["runs"]] == ["fifo"]
    assert "interrupted after 1 of 2 runs" in err


def children_of(pid):
    """Return the processes that this one started, as files that can be read once they have ended."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [os.pidfd_open(int(number)) for number in listed]


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_behind(number):
    """Whether it is interrupted, asked to end, or killed outright: its processes end with it."""
    command = [sys.executable, "-m", "specon_manager", "simulate", "--workload", "poisson:jobs=20"]
    with subprocess.Popen(
        [*command, "--policy", "fifo", "--seeds", "5000", "--jobs", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        try:
            for line in process.stderr:
                if line.startswith("2 of 5000 runs"):
                    break
            children = children_of(process.pid)
            assert len(children) >= 2
            os.kill(process.pid, number)
            assert process.wait(60) == (-number if number is signal.SIGKILL else 130)
            for child in children:
                assert select.select([child], [], [], 60)[0], "a process is still there"
                os.close(child)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.processes
def test_a_process_that_dies_fails_its_runs_and_nothing_hangs(monkeypatch, capsys):
    """Out of memory, for instance: exit code 1 with a hint."""

    @contextlib.contextmanager
    def killing(_tasks):
        def kill(_fractions, _over):
            for process in multiprocessing.active_children():
                process.kill()

        yield kill

    monkeypatch.setattr("specon_lab.commands.simulate.progress", killing)
    flags = ["--workload", "poisson:jobs=500", "--policy", "fifo", "--seeds", "8", "--jobs", "2"]
    assert main(["simulate", *flags]) == 1
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 8
    assert all("a process of the simulation died" in line for line in told)
