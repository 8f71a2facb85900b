"""Clusters whose nodes have unlike accelerators: how fast jobs are there, and what it brings to know it."""

from pathlib import Path
from statistics import fmean

import msgspec
import pytest

from specon_lab.engine.run import settings_for, simulate
from specon_lab.traces.read import read_workload
from specon_lab.workloads.workload import NodeFailure
from specon_manager.core import step
from specon_manager.model.cluster import Node
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Gate
from support.lab.invariants import Invariants
from support.lab.simulations import VAE, job, workload

SAMPLE = Path(__file__).parents[3] / "samples" / "simulations" / "models.json"
GPU = Resources(gpu=1.0)
PACES = {"K80": 4.0}


def node(name, model, gpu=1.0):
    capacity = Resources(cpu=8.0, memory=64e9, gpu=gpu)
    return Node(name=name, capacity=capacity, labels={"specon.io/accelerator": model} if model else {})


def trial(number, *, at=0.0, seconds=100.0, workers=1, paces=PACES, kind="vae", **training):
    """Return a job that asks for a GPU for each worker."""
    spec = {"resizing": "none", "kind": kind}
    return job(
        number, at=at, seconds=seconds, workers=workers, requests=GPU, spec=spec, paces=paces, **training
    )


def ends(given, policy="quota-fifo", **changes):
    """Return when each job is complete, and all moves, with settings that differ in this."""
    latest, invariants = [], Invariants()
    models = {each.name: each.accelerator for each in given.nodes}

    def look(moment):
        invariants(moment)
        assert all(each.accelerator == models[name] for name, each in moment.after.nodes.items())
        latest[:] = [moment.after]

    settings = msgspec.structs.replace(settings_for(given), gate=Gate(horizon=600.0), **changes)
    outcome = simulate(given, policy, settings=settings, check=look)
    assert {each.state for each in outcome.jobs} == {"completed"}
    moved = [each for each in latest[0].history if each.purpose == "faster"]
    return {each.name: each.completion_seconds for each in outcome.jobs}, moved


@pytest.mark.parametrize(
    ("models", "workers", "seconds"),
    [(["K80"], 1, 400), (["V100"], 1, 100), ([""], 1, 100), (["V100", "K80"], 2, 400)],
)
def test_a_job_takes_as_long_as_on_its_slowest_accelerator(models, workers, seconds):
    """Where the workload says nothing of a model, or the model is not known, its own seconds hold."""
    on = tuple(node(f"node-{number}", model) for number, model in enumerate(models))
    found, _ = ends(workload(trial(0, workers=workers), on=on))
    assert found["default/job-0"] == pytest.approx(seconds)


def test_a_node_that_comes_back_has_its_model_again():
    """The manager is told it at each change."""
    failure = NodeFailure(node="node-0", at=50.0, seconds=10.0)
    given = workload(trial(0, checkpoint_seconds=10), on=(node("node-0", "K80"),), failures=(failure,))
    found, _ = ends(given)
    assert found["default/job-0"] > 400


def test_the_sample_runs():
    """It has models of nodes, paces on them, and a gang that is split over two nodes."""
    warnings = []
    given = read_workload(SAMPLE, warn=warnings.append)
    assert [each.accelerator for each in given.nodes] == ["V100"] * 2 + ["P100"] * 2 + ["K80"] * 2
    assert warnings == [
        "1 job is split over nodes: ask for more GPUs than a node has (first: models.json, row 4)"
    ]
    found, _ = ends(given, policy="progress")
    assert len(found) == 5


def test_a_job_moves_to_a_faster_model_once_there_is_room():
    """One on a V100 and two on slow K80s: these follow one after the other, and all are complete sooner."""
    on = (node("node-0", "V100"), node("node-1", "K80"), node("node-2", "K80"))
    costs = {"curve": VAE, "start_seconds": 5, "restore_seconds": 3, "stop_seconds": 1}
    others = (trial(number, at=1.0, seconds=1200, **costs) for number in (1, 2))
    given = workload(trial(0, seconds=600, **costs), *others, on=on)
    without, none = ends(given, defragment="off")
    found, moved = ends(given, defragment="on")
    assert not none
    assert [each.job for each in moved] == ["default/job-1", "default/job-2"]
    assert found["default/job-0"] == without["default/job-0"]
    assert without["default/job-1"] == pytest.approx(4805)
    # The first does a quarter of 600 s of its work on the K80, the second what is left when the V100 is free.
    assert found["default/job-1"] == pytest.approx(600 + 1200 - 150, abs=60)
    assert fmean(found.values()) < 0.5 * fmean(without.values())


KINDS = ({"K80": 6.0}, {"K80": 1.2})
"""One gains much from a V100, the other little."""


def stream():
    """Return jobs of both kinds in turns, one every 400 s, and two nodes of each model."""
    costs = {"curve": VAE, "start_seconds": 5, "restore_seconds": 3, "stop_seconds": 1}
    jobs = (
        trial(
            number,
            at=400.0 * number,
            seconds=(600, 900, 1200)[number // 2 % 3],
            paces=KINDS[number % 2],
            kind=("much", "little")[number % 2],
            **costs,
        )
        for number in range(24)
    )
    models = ("K80", "K80", "V100", "V100")
    return workload(*jobs, on=tuple(node(f"node-{number}", model) for number, model in enumerate(models)))


def test_it_pays_to_know_the_pace_on_each_model(monkeypatch):
    """For starts, and more so for moves: jobs are complete sooner on average than if nothing was measured."""
    started, _ = ends(stream(), "progress", defragment="off")
    moved, moves = ends(stream(), "progress", defragment="on")
    monkeypatch.setattr(step, "learn_pace", lambda state, _before, _now: state)
    ignorant, none = ends(stream(), "progress", defragment="on")
    assert moves
    assert not none
    unknown, known, with_moves = (fmean(found.values()) for found in (ignorant, started, moved))
    assert known < 0.8 * unknown
    assert with_moves < 0.95 * known
