"""Scenarios through the simulator: the same jobs and nodes, with virtual trainers and sidecars."""

import msgspec

from specon_lab.engine.engine import Moment
from specon_lab.engine.run import simulate
from specon_lab.workloads.workload import NodeFailure, Submission, Training, Workload
from specon_manager.core.state import State
from specon_manager.model.cluster import Node
from specon_manager.model.resources import Resources
from support.scenarios.scenario import MANAGER, Lose, Scenario


def simulated(scenario: Scenario) -> State:
    """Return the state of the manager at the end of the scenario."""
    latest: list[State] = []

    def look(moment: Moment) -> None:
        latest[:] = [moment.after]

    failures = [each for each in scenario.course if isinstance(each, Lose)]
    assert len(failures) == len(scenario.course), "nothing but nodes fails in the simulator"
    jobs = [
        Submission(
            at=arrival.at,
            spec=arrival.described(MANAGER),
            training=Training(
                seconds=arrival.seconds,
                steps=int(arrival.seconds),
                start_seconds=1.0,
                save_seconds=1.0,
                stop_seconds=1.0,
            ),
        )
        for arrival in scenario.jobs
    ]
    workload = Workload(
        name=scenario.name,
        nodes=tuple(
            Node(name=name, capacity=Resources(cpu=cpus, memory=64e9))
            for name, cpus in scenario.nodes.items()
        ),
        jobs=tuple(jobs),
        failures=tuple(NodeFailure(node=f.node, at=f.at, seconds=f.seconds) for f in failures),
    )
    simulate(
        workload,
        scenario.policy,
        parameters=scenario.parameters,
        settings=msgspec.structs.replace(scenario.manager(), retention=10_000),
        limit=scenario.ends,
        check=look,
    )
    return latest[0]
