"""Trainers and their sidecars without processes: a task per pod that runs, by the real client over HTTPS."""

import asyncio
import hashlib
import uuid
from pathlib import Path
from typing import Any

from fakekube.cluster import FakeCluster
from fakekube.kinds import PODS, Kind
from fakekube.store import Entry
from specon_manager.backends.kube.objects.annotation_keys import SIDECAR_NAME
from specon_manager.backends.kube.objects.identity import identity_of
from specon_sidecar.classify import Category
from specon_sidecar.classify.curve import Estimate
from specon_sidecar.reporting.client import Client
from specon_sidecar.reporting.outcome import Outcome
from specon_sidecar.wire import (
    SCHEMA,
    Acknowledgement,
    Checkpoint,
    CheckpointInstruction,
    Instruction,
    Observation,
    ReleaseInstruction,
    Report,
    Share,
    Turns,
)
from support.clocks.fair_time import fair_now

Object = dict[str, Any]
AUDIENCE = "specon.io/manager"
STEPS_PER_SECOND = 20.0
_HEARTBEAT = 0.7
_PAUSE = 0.1


class Sidecars:
    """Starts one for each injected pod that runs, and ends it with the pod.

    A trainer trains on from the last checkpoint of its replica, which outlives its pods as a file on a volume
    would. `converged` are replicas that say so. What a test may hold back, by replica: `deaf` ones fetch no
    instructions, `slow` ones fetch them and save nothing yet, `mute` ones do not report. Those in `refuses`
    answer that they cannot save, with that reason.
    """

    def __init__(self, cluster: FakeCluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self.saved: dict[str, int] = {}
        self.verified: set[str] = set()
        """UIDs of the pods whose checkpoint was asked for, and saved."""
        self.last: dict[str, int] = {}
        """The step that each replica trained last."""
        self.first: dict[str, int] = {}
        """The step with which each pod began, by UID."""
        self.converged: set[str] = set()
        self.deaf: set[str] = set()
        self.asking: set[str] = set()
        """Those that wait for an instruction right now."""
        self.slow: set[str] = set()
        self.mute: set[str] = set()
        self.refuses: dict[str, str] = {}
        self.together: set[str] = set()
        """Jobs whose replicas save their parts at one step."""
        self.pauses = False
        """Whether trainers pause where they are asked to, once they have saved."""
        self.save_seconds = 0.0
        """How long it takes to save what is asked for; trainers train on meanwhile."""
        self.saves_every = 0.0
        """Seconds between two checkpoints that nobody asks for; 0: there are none."""
        self.gpus: dict[str, tuple[str, ...]] = {}
        """By replica: the GPUs that its sidecar sees where its pod asks for turns."""
        self.left: dict[str, float] = {}
        """By replica: for how long it has still to train, as it says, seconds."""
        self.turns: dict[str, Turns] = {}
        """By replica: what it was told last of its turns."""
        self.lost: dict[str, int] = {}
        """Steps of each replica that had to be trained again."""
        self.heartbeat = _HEARTBEAT
        """Seconds between two reports of one."""
        self.agreed: dict[str, int] = {}
        """That step, by the id of the request."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        cluster.store.written.append(self._written)

    async def close(self) -> None:
        if self._written in self._cluster.store.written:
            self._cluster.store.written.remove(self._written)
        for task in self._tasks.values():
            task.cancel()
        outcomes = await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    def _written(self, kind: Kind, entry: Entry) -> None:
        if kind is not PODS:
            return
        pod = entry.after or entry.before
        assert pod is not None
        metadata = pod["metadata"]
        if (metadata.get("labels") or {}).get("specon.io/sidecar") != "injected":
            return
        runs = entry.after is not None and pod.get("status", {}).get("phase") == "Running"
        if runs and metadata["uid"] not in self._tasks:
            self._tasks[metadata["uid"]] = asyncio.create_task(_Life(self, self._cluster, pod).run())
        elif not runs and (task := self._tasks.get(metadata["uid"])) is not None:
            task.cancel()

    async def cut_off(self, *uids: str) -> None:
        """Let nothing more be heard of the pods with these UIDs, once this is done: their node is lost."""
        ended = [self._tasks[uid] for uid in uids if uid in self._tasks]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)

    async def deafen(self, *replicas: str) -> None:
        """Let these fetch no instructions any more, nor one for which they wait by now."""
        self.deaf.update(replicas)
        while self.asking & set(replicas):  # noqa: ASYNC110  (they end in several places)
            await asyncio.sleep(_PAUSE)

    def files(self, pod: Object, token: str) -> tuple[str, str]:
        """Write what the kubelet projects into the sidecar: token and authorities."""
        folder = self._folder / pod["metadata"]["uid"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "token").write_text(token)
        (folder / "ca.crt").write_text(pod["metadata"]["annotations"]["specon.io/ca"])
        return str(folder / "token"), str(folder / "ca.crt")


class _Life:
    """The life of one incarnation."""

    def __init__(self, sidecars: Sidecars, cluster: FakeCluster, pod: Object) -> None:
        identity = identity_of(pod)
        assert identity is not None
        self._of, self._cluster, self._pod = sidecars, cluster, pod
        self.replica, self.uid = identity.replica, pod["metadata"]["uid"]
        self._began = fair_now()
        self._from = sidecars.saved.get(self.replica, 0) + 1
        self._session, self._sequence = uuid.uuid4().hex, 0
        self._open: dict[str, asyncio.Task[None]] = {}
        self._paused: tuple[int, float] | None = None
        """At which step, and until when."""
        sidecars.first[self.uid] = self._from
        lost = sidecars.last.get(self.replica, 0) - (self._from - 1)
        sidecars.lost[self.replica] = sidecars.lost.get(self.replica, 0) + max(0, lost)

    @property
    def step(self) -> int:
        if self._paused is not None:
            step, until = self._paused
            if fair_now() < until:
                return step
            self._train_on(step)
        return self._from + int((fair_now() - self._began) * STEPS_PER_SECOND)

    def _train_on(self, step: int) -> None:
        self._paused = None
        self._began = fair_now() - (step - self._from) / STEPS_PER_SECOND

    async def run(self) -> None:
        arguments = _arguments(self._pod)
        assert arguments["replica"] == self.replica, arguments
        metadata = self._pod["metadata"]
        bound = {"kind": "Pod", "name": metadata["name"], "uid": self.uid}
        request = {"spec": {"audiences": [AUDIENCE], "boundObjectRef": bound}}
        token = self._cluster.tokens.issue(metadata["namespace"], "default", request)["status"]["token"]
        token_file, ca_file = self._of.files(self._pod, token)
        client = Client(
            arguments["manager"],
            replica=self.replica,
            incarnation=self.uid,
            token_file=token_file,
            ca_file=ca_file,
        )
        async with client:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._train())
                    group.create_task(self._report(client))
                    group.create_task(self._listen(client))
                    if arguments.get("share") == "time":
                        group.create_task(self._ask_for_turns(client))
            finally:
                for task in self._open.values():
                    task.cancel()
                await asyncio.gather(*self._open.values(), return_exceptions=True)

    async def _train(self) -> None:
        while True:
            self._of.last[self.replica] = self.step
            every, since = self._of.saves_every, self.step - self._of.saved.get(self.replica, 0)
            if every and since >= every * STEPS_PER_SECOND:
                self._of.saved[self.replica] = self.step
            await asyncio.sleep(4 / STEPS_PER_SECOND)

    async def _report(self, client: Client) -> None:
        while True:
            delivered = None
            if self.replica not in self._of.mute:
                self._sequence += 1
                delivered = await client.report(self._message())
            await asyncio.sleep(self._of.heartbeat if delivered is Outcome.DELIVERED else _PAUSE)

    def _message(self) -> Report:
        converged = self.replica in self._of.converged
        age = fair_now() - self._began
        gpus, left = self._of.gpus.get(self.replica), self._of.left.get(self.replica)
        return Report(
            schema=SCHEMA,
            replica=self.replica,
            incarnation=self.uid,
            session=self._session,
            sequence=self._sequence,
            category=Category.CONVERGED if converged else Category.PROGRESSING,
            category_age=age,
            reason="gain 0.4 % < 1 %" if converged else "gain 12 %",
            gain=0.004 if converged else 0.12,
            confidence=0.9 if converged else 0.1,
            remaining_gain=Estimate(value=0.01 if converged else 0.5, uncertainty=0.1),
            first=Observation(name="loss", value=1.0, age=age, step=self._from),
            last=Observation(name="loss", value=0.5, age=0.0, step=self.step),
            total_steps=None if left is None else self.step + 1000,
            remaining_seconds=None if left is None else Estimate(value=left, uncertainty=0.0),
            share=None if gpus is None else Share(devices=gpus),
        )

    async def _ask_for_turns(self, client: Client) -> None:
        known = ""
        while True:
            _, turns = await client.turns(known, wait=1.5)
            if turns is None:
                await asyncio.sleep(_PAUSE)
                continue
            self._of.turns[self.replica] = turns
            known = turns.id

    async def _listen(self, client: Client) -> None:
        while True:
            if self.replica in self._of.deaf:
                await asyncio.sleep(_PAUSE)
                continue
            wait = 1.0 if self._open else 5.0
            self._of.asking.add(self.replica)
            try:
                outcome, instructions = await client.instructions(tuple(self._open), wait=wait)
            finally:
                self._of.asking.discard(self.replica)
            for one in instructions:
                if one.id not in self._open:
                    self._open[one.id] = asyncio.create_task(self._carry_out(client, one))
            if outcome is not Outcome.DELIVERED or self._open:
                await asyncio.sleep(_PAUSE)

    async def _carry_out(self, client: Client, instruction: Instruction) -> None:
        if isinstance(instruction, ReleaseInstruction):
            await self._release(client, instruction)
            return
        assert isinstance(instruction, CheckpointInstruction)
        try:
            while self.replica in self._of.slow:  # noqa: ASYNC110  (a set that tests change as they like)
                await asyncio.sleep(_PAUSE)
            await asyncio.sleep(self._of.save_seconds)
            answer = self._answer(instruction.id, instruction.pause)
            while await client.acknowledge(answer) is Outcome.LOST:  # noqa: ASYNC110  (tried again)
                await asyncio.sleep(_PAUSE)
        finally:
            self._open.pop(instruction.id, None)

    async def _release(self, client: Client, instruction: ReleaseInstruction) -> None:
        self._train_on(self.step)
        done = Acknowledgement(
            schema=SCHEMA, replica=self.replica, incarnation=self.uid, id=instruction.id, done=True
        )
        try:
            while await client.acknowledge(done) is Outcome.LOST:  # noqa: ASYNC110  (tried again)
                await asyncio.sleep(_PAUSE)
        finally:
            self._open.pop(instruction.id, None)

    def _answer(self, name: str, pause: float) -> Acknowledgement:
        why = self._of.refuses.get(self.replica, "")
        if why:
            return Acknowledgement(
                schema=SCHEMA, replica=self.replica, incarnation=self.uid, id=name, done=False, reason=why
            )
        step = self.step
        if self.replica.rpartition("/")[0].rpartition("/")[0] in self._of.together:
            step = self._of.agreed.setdefault(name, step)
        paused = self._of.pauses and pause > 0
        if paused:
            self._paused = (step, fair_now() + pause)
        self._of.saved[self.replica] = step
        self._of.verified.add(self.uid)
        digest = hashlib.sha256(f"{self.replica} {step}".encode()).hexdigest()
        return Acknowledgement(
            schema=SCHEMA,
            replica=self.replica,
            incarnation=self.uid,
            id=name,
            done=True,
            paused=paused,
            checkpoint=Checkpoint(step=step, path=f"/data/checkpoints/{step}", digest=digest),
        )


def _arguments(pod: Object) -> dict[str, str]:
    """Return what the webhook gave the sidecar as flags, with the pod's fields filled in."""
    container = next(one for one in pod["spec"]["initContainers"] if one["name"] == SIDECAR_NAME)
    metadata = pod["metadata"]
    fields = {
        "$(SPECON_POD_NAMESPACE)": metadata["namespace"],
        "$(SPECON_POD_NAME)": metadata["name"],
        "$(SPECON_POD_UID)": metadata["uid"],
    }
    arguments = {}
    for argument in container["args"]:
        flag, _, value = argument.removeprefix("--").partition("=")
        for field, meaning in fields.items():
            value = value.replace(field, meaning)
        arguments[flag] = value
    return arguments
