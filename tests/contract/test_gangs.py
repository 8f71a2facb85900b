"""What a backend that places replicas itself promises of those that train together."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from specon_manager.backends.local.jobs import job_spec, read_job
from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.actions import EvictReplica, StartReplica
from specon_manager.model.cluster import Job, Phase, Replica
from support.kube.backend_contract import Stage

PROGRAM = """
import json, os, pathlib, sys, time
told = {name: os.environ.get(name) for name in ("SPECON_ROLE", "SPECON_RANK", "SPECON_WORLD_SIZE", "RANK")}
line = json.dumps([sys.argv[2], sys.argv[3], told, os.environ["SPECON_GANG"].split()]) + "\\n"
with open(sys.argv[1], "a") as file:
    file.write(line)
time.sleep(600)
"""
NAMES = ("default/a/ps/0", "default/a/worker/0", "default/a/worker/1", "default/a/worker/2")


class Gang:
    """Four replicas on a stage, which write down what they are told."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage = stage
        self._file = folder / "told"
        words = [sys.executable, "-c", PROGRAM, str(self._file), "{role}/{index}", "{rank} of {workers}"]
        job = {"name": "a", "command": words, "workers": 2, "max_workers": 3, "ps": 1}
        self.spec = job_spec(read_job(msgspec.json.encode(job)))

    async def start(self, *names: str, gang: tuple[str, ...], start: int = 1) -> None:
        for name in names:
            template = dict(self.spec.template)
            order = StartReplica(
                replica=name,
                start=start,
                node=self.stage.nodes[0],
                template=template,
                reason="test",
                gang=gang,
            )
            await self.stage.backend.carry_out(order)
        await self.stage.comes(
            lambda: set(names) <= {each.replica for each in self.events(ev.ReplicaStarted)}
        )

    async def told(self, count: int) -> dict[str, tuple[str, dict[str, str | None], list[str]]]:
        """Return what each replica was told, once there were so many starts."""

        async def written() -> bool:
            return self._file.exists() and len(self._file.read_text().splitlines()) >= count

        await self.stage.settles(written)
        found = [json.loads(line) for line in self._file.read_text().splitlines()]
        assert len(found) == count, found
        return {name: (place, told, gang) for name, place, told, gang in found}

    def events(self, kind: type) -> list:
        return [event for event in self.stage.events if type(event) is kind]

    def state(self) -> State:
        """Return what a manager knows when all of them run."""
        replicas = {
            name: Replica(
                name=name,
                job=self.spec.name,
                phase=Phase.RUNNING,
                node=self.stage.nodes[0],
                incarnation="0001",
                starts=1,
            )
            for name in NAMES
        }
        job = Job(spec=self.spec, order=0, submitted_at=0.0)
        return State(jobs={job.name: job}, replicas=replicas)


@pytest.fixture
def gang(our_stage: Stage, tmp_path: Path) -> Gang:
    return Gang(our_stage, tmp_path)


async def test_each_replica_is_told_its_place(gang: Gang):
    """Role, rank without gaps among the workers, how many they are, and the names of all."""
    await gang.stage.begin()
    members = (NAMES[0], NAMES[1], NAMES[3])
    await gang.start(*members, gang=members)
    told = await gang.told(3)
    places = {name: (place, known["SPECON_ROLE"], known["RANK"]) for name, (place, known, _) in told.items()}
    assert places == {
        "ps/0": ("0 of 2", "ps", None),
        "worker/0": ("0 of 2", "worker", "0"),
        "worker/2": ("1 of 2", "worker", "1"),
    }
    assert all(names == list(members) for _, _, names in told.values())


async def test_an_order_given_again_starts_nobody_anew(gang: Gang):
    """Not even by the next manager, which finds all of them."""
    await gang.stage.begin()
    await gang.start(*NAMES, gang=NAMES)
    await gang.told(4)
    await gang.start(*NAMES, gang=NAMES)
    await gang.stage.another_manager(gang.state())
    await gang.start(*NAMES, gang=NAMES)
    assert {each.incarnation for each in gang.events(ev.ReplicaStarted)} == {"0001"}
    await gang.told(4)


async def test_a_replica_that_leaves_leaves_the_others(gang: Gang):
    """The eviction of one is about that one; it comes back with the place that it is then given."""
    await gang.stage.begin()
    await gang.start(*NAMES, gang=NAMES)
    await gang.told(4)
    leaving = EvictReplica(replica=NAMES[2], incarnation="0001", grace_seconds=5.0, reason="test")
    await gang.stage.backend.carry_out(leaving)
    await gang.stage.comes(lambda: gang.events(ev.ReplicaGone))
    assert [each.replica for each in gang.events(ev.ReplicaGone)] == [NAMES[2]]
    smaller = (NAMES[1], NAMES[2])
    await gang.start(NAMES[2], gang=smaller, start=2)
    assert (await gang.told(5))["worker/1"][0] == "1 of 2"
