"""The local backend: real training processes on virtual nodes of this machine."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
import psutil
from msgspec import Struct

from specon_manager.backends.base import Emit, Order
from specon_manager.backends.local import pods
from specon_manager.backends.local.gangs import place_of
from specon_manager.backends.local.instrument import (
    UNBUFFERED,
    hook_socket,
    instrument_environment,
    take_away_socket,
)
from specon_manager.backends.local.jobs import LocalJob, classifier_arguments, fill_in, job_spec
from specon_manager.backends.local.log_tail import read_tail
from specon_manager.backends.local.nodes import VirtualNode
from specon_manager.backends.local.pod_files import (
    PodSpec,
    job_directory,
    make_checkpoint_directory,
    replica_directory,
)
from specon_manager.backends.local.pods import Pod, PodStuckError, ReplicaBusy
from specon_manager.backends.local.share_files import STOPPED_FILE
from specon_manager.backends.local.sharing import Sharing, member
from specon_manager.backends.time_slices import is_beginning
from specon_manager.core.state import State
from specon_manager.model.accelerators import OWN_LABEL
from specon_manager.model.actions import EvictReplica, HoldRoom, SetWeight, StartReplica
from specon_manager.model.cluster import JobSpec, Phase, Replica
from specon_manager.model.events import (
    Event,
    NodeObserved,
    ReplicaGone,
    ReplicaStarted,
    RoomHeld,
    RoomRefused,
    StartRefused,
)
from specon_manager.model.resources import Resources
from specon_manager.views.log_tail import LogTail
from specon_sidecar.event_files.events import log_size

_log = logging.getLogger(__name__)
_USAGE_SECONDS: Final = 1.0
_USAGE_CHANGE: Final = 0.05  # cores; smaller changes are not worth an event


class LocalSettings(Struct, frozen=True, kw_only=True):
    """Where and how pods are run."""

    directory: Path
    """State directory; `replicas/` below it plays the persistent volume."""
    nodes: tuple[VirtualNode, ...]
    working_directory: Path
    environment: Mapping[str, str]
    """What trainers and sidecars inherit."""
    samples: Path
    """Where the training samples are, for `{samples}`."""
    end_with_manager: bool = False
    """Whether pods end when the manager does, be it by kill -9."""


class LocalBackend:
    """Carries orders out with pods (`pods.py`); each pod has a trainer and a sidecar."""

    def __init__(
        self,
        settings: LocalSettings,
        *,
        manager_url: Callable[[], str],
        token: Callable[[str, str], str],
    ) -> None:
        """`manager_url` and `token` (of a replica and incarnation) are what a sidecar is told."""
        self._settings = settings
        self._manager_url = manager_url
        self._token = token
        self._nodes = {node.name: node for node in settings.nodes}
        self._pods: dict[str, Pod] = {}
        self._logs: dict[str, str] = {}
        """By replica: the log of its last pod, also after its end."""
        self._sharing = Sharing(settings.nodes)
        self._ending: dict[str, asyncio.Task[object]] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self._emit: Emit = _before_begin

    async def begin(self, state: State, emit: Emit) -> None:
        """Report the nodes and take up the pods that an earlier manager started."""
        self._emit = emit
        for folder in (self._root, self._shared):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for node in self._settings.nodes:
            emit(self._observe(node, used=0.0))
        for name in state.nodes.keys() - self._nodes.keys():
            gone = state.nodes[name]
            emit(NodeObserved(node=name, capacity=gone.capacity, usage=gone.usage, ready=False))
        for pod in await pods.find_pods(self._root):
            self._logs[pod.replica] = pod.spec.log
            replica = state.replicas.get(pod.replica)
            if replica is not None and replica.incarnation == pod.incarnation:
                self._watch(pod, replica.node, state.jobs[replica.job].spec, replica.weight)
            elif pod.alive and not _is_awaited(pod, replica):
                _log.warning("%s %s runs and is not wanted: evicted", pod.replica, pod.incarnation)
                self._ending[pod.replica] = self._start(pod.evict())
        known = {pod.replica for pod in self._pods.values()}
        for replica in state.replicas.values():
            if replica.incarnation is not None and replica.name not in known:
                lost = ReplicaGone(
                    replica=replica.name, incarnation=replica.incarnation, reason="no trace of it is left"
                )
                emit(lost)
        self._start(self._measure())
        self._start(self._sharing.keep())

    async def carry_out(self, order: Order) -> None:
        """Carry one order out; see `Backend`."""
        if isinstance(order, StartReplica):
            await self._start_replica(order)
        elif isinstance(order, EvictReplica):
            await self._evict(order)
        elif isinstance(order, HoldRoom):
            if order.node in self._nodes:
                # Nobody but this manager fills a virtual node, and its plan counts the move: that holds it.
                self._emit(RoomHeld(transaction=order.transaction, replica=order.replica))
            else:
                why = f"there is no node {order.node}"
                refused = RoomRefused(transaction=order.transaction, replica=order.replica, reason=why)
                self._emit(refused)
        elif isinstance(order, SetWeight):
            self._sharing.weigh(order.replica, order.incarnation, order.weight)

    async def end(self) -> None:
        """Stop watching; pods keep running."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._sharing.end()

    def observe(self, state: State, now: float) -> None:
        """Look at the state after a step: some jobs are not stopped for others.

        Those that a transaction is about, and on GPUs those that begin (on processors, loading is work).
        """
        on_gpus = {
            replica.job
            for replica in state.replicas.values()
            if replica.node in self._nodes and self._nodes[replica.node].gpu is not None
        }
        beginning = {name for name in on_gpus if is_beginning(state.jobs[name], state, now)}
        self._sharing.spare({each.job for each in state.transactions.values()} | beginning)

    async def evict_all(self, grace_seconds: float) -> None:
        """End every pod that runs, trainers by SIGTERM first; return once nothing of them is left.

        Works from the files on disk: an order that was being carried out may have started one more.
        """
        running = await self._running()
        results = await asyncio.gather(*(pod.evict(grace_seconds) for pod in running), return_exceptions=True)
        for pod, result in zip(running, results, strict=True):
            if isinstance(result, BaseException):
                _log.error("%s %s: %s", pod.replica, pod.incarnation, result)

    async def has_pods(self) -> bool:
        """Whether any pod runs, by the files on disk: before `begin` those of an earlier manager."""
        return bool(await self._running())

    async def log_tail(self, replica: str) -> LogTail | None:
        """Return the end of the log of a replica's last pod; None where it never had one."""
        log = self._logs.get(replica)
        return None if log is None else await asyncio.to_thread(read_tail, Path(log))

    async def _running(self) -> list[Pod]:
        return [pod for pod in await pods.find_pods(self._root) if pod.alive]

    @property
    def _root(self) -> Path:
        return self._settings.directory / "replicas"

    @property
    def _shared(self) -> Path:
        return self._settings.directory / "jobs"

    async def _start_replica(self, order: StartReplica) -> None:
        node = None if order.node is None else self._nodes.get(order.node)
        if node is None:
            self._refuse(order, f"there is no node {order.node}")
            return
        incarnation = _incarnation(order.start)
        await self._wait_for_end(order.replica)
        try:
            pod = await pods.start(self._specify(order, node, incarnation))
        except (ReplicaBusy, PodStuckError, pods.StartError, ValueError, OSError) as error:
            self._refuse(order, str(error))
            return
        self._emit(
            ReplicaStarted(replica=order.replica, incarnation=incarnation, node=node.name, start=order.start)
        )
        self._watch(pod, node.name, job_spec(msgspec.convert(order.template, LocalJob)))

    def _refuse(self, order: StartReplica, reason: str) -> None:
        self._emit(StartRefused(replica=order.replica, start=order.start, reason=reason))

    async def _evict(self, order: EvictReplica) -> None:
        await self._wait_for_end(order.replica)
        pod = self._pods.get(order.replica)
        if pod is None or order.incarnation not in {None, pod.incarnation}:
            # This manager found no process of it at its start, and has started none since.
            self._emit(ReplicaGone(replica=order.replica, incarnation=order.incarnation, reason="not there"))
            return
        await pod.evict(order.grace_seconds)  # its watcher says what became of it

    def _watch(self, pod: Pod, node: str | None, job: JobSpec, weight: float = 1.0) -> None:
        if self._pods.get(pod.replica) is pod:
            return
        known = self._pods.get(pod.replica)
        if known is not None and known.incarnation == pod.incarnation:
            return
        self._pods[pod.replica] = pod
        self._logs[pod.replica] = pod.spec.log
        if node in self._nodes:
            self._sharing.join(member(pod, node, job), weight)
        self._start(self._report_end(pod))

    async def _report_end(self, pod: Pod) -> None:
        ended = await pod.wait()
        self._sharing.leave(pod)
        take_away_socket(pod.spec)
        if self._pods.get(pod.replica) is pod:
            del self._pods[pod.replica]
        signalled = "" if ended.signal is None else f", signal {ended.signal}"
        self._emit(
            ReplicaGone(
                replica=pod.replica,
                incarnation=pod.incarnation,
                exit_code=ended.code,
                evicted=ended.reason in {"evicted", "killed after grace"},
                killed=ended.reason == "killed after grace",
                reason=f"{ended.reason}{signalled}" + (f": {ended.error}" if ended.error else ""),
            )
        )

    def _specify(self, order: StartReplica, node: VirtualNode, incarnation: str) -> PodSpec:
        """Return how the pod is run. What depends on the moment is kept when the order is given twice."""
        job = msgspec.convert(order.template, LocalJob)
        directory = replica_directory(self._root, order.replica)
        shared = job_directory(self._shared, order.replica)
        place = place_of(order)
        values = {
            "directory": str(directory),
            "job_directory": str(shared),
            "python": sys.executable,
            "samples": str(self._settings.samples),
            **place.placeholders,
        }
        log = fill_in(job.log, values)
        values["log"] = self._path(log)
        if log.endswith("/"):
            Path(values["log"]).mkdir(parents=True, exist_ok=True)  # else the trainer would find a file there
        checkpoints = fill_in(job.checkpoints, values)
        values["checkpoint_path"] = self._path(checkpoints)
        make_checkpoint_directory(Path(values["checkpoint_path"]), directory=checkpoints.endswith("/"))
        shared.mkdir(parents=True, exist_ok=True)
        environment = {**UNBUFFERED, **self._settings.environment, **place.environment}
        environment |= {name: fill_in(text, values) for name, text in job.environment.items()}
        if node.gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = node.gpu
        working = self._path(fill_in(job.working_directory or ".", values))
        sidecar = None
        if place.role != "ps":  # which says nothing of the loss
            socket = hook_socket(directory / "incarnations" / incarnation) if job.instrument else None
            sidecar = self._sidecar(job, order.replica, incarnation, values)
            if socket is not None:
                sidecar.append(f"--hook={socket}")
                environment |= instrument_environment(environment, socket, values["checkpoint_path"])
        return PodSpec(
            replica=order.replica,
            incarnation=incarnation,
            directory=str(directory),
            command=[fill_in(word, values) for word in job.arguments],
            environment=environment,
            working_directory=working,
            cpus=node.cpus,
            log=values["log"],
            sidecar_command=sidecar,
            grace_seconds=job.grace_seconds,
            end_with_manager=self._settings.end_with_manager,
        )

    def _sidecar(self, job: LocalJob, replica: str, incarnation: str, values: Mapping[str, str]) -> list[str]:
        directory = Path(values["directory"])
        token_file = directory / f"token-{incarnation}"
        if not token_file.exists():
            directory.mkdir(parents=True, exist_ok=True)
            temporary = directory / f".{token_file.name}"  # of a full disk half a token would stay
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(self._token(replica, incarnation))
            temporary.replace(token_file)
        log = Path(values["log"])
        way = job.checkpoint if job.saves(int(values["index"])) else "none"
        command = [
            sys.executable,
            "-m",
            "specon_sidecar",
            f"--log={log}",
            f"--format={job.format}",
            *classifier_arguments(job),
            f"--manager={self._manager_url()}",
            f"--replica={replica}",
            f"--incarnation={incarnation}",
            f"--token-file={token_file}",
            f"--checkpoint={fill_in(way, values)}",
            f"--checkpoint-path={values['checkpoint_path']}",
            f"--verify={job.verify}",
            "--trainer-pid={trainer_pid}",
            f"--fresh-from={log_size(log)}",
            f"--state-file={directory / 'sidecar.json'}",
            f"--heartbeat={job.heartbeat}",
            f"--stopped-file={directory / 'incarnations' / incarnation / STOPPED_FILE}",
        ]
        optional = {"pattern": job.pattern, "metric": job.metric, "marker": job.marker}
        return command + [f"--{name}={value}" for name, value in optional.items() if value is not None]

    def _path(self, text: str) -> str:
        return str((self._settings.working_directory / text).resolve())

    async def _measure(self) -> None:
        """Report R(w, t): the busy share of each node's CPUs, when it changed noticeably."""
        psutil.cpu_percent(percpu=True)
        reported: dict[str, float] = {}
        while True:
            await asyncio.sleep(_USAGE_SECONDS)
            busy: Sequence[float] = psutil.cpu_percent(percpu=True)
            for node in self._settings.nodes:
                used = sum(busy[cpu] for cpu in node.cpus if cpu < len(busy)) / 100
                if abs(used - reported.get(node.name, -1.0)) >= _USAGE_CHANGE:
                    reported[node.name] = used
                    self._emit(self._observe(node, used))

    def _observe(self, node: VirtualNode, used: float) -> NodeObserved:
        memory = psutil.virtual_memory()
        share = 1 / len(self._nodes)
        return NodeObserved(
            node=node.name,
            capacity=Resources(
                cpu=node.processors,
                memory=float(int(memory.total * share)),
                gpu=0.0 if node.gpu is None else 1.0,
            ),
            usage=Resources(cpu=round(used, 2), memory=float(int(memory.used * share))),
            labels={OWN_LABEL: node.model} if node.model else {},
        )

    def _start(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        task: asyncio.Task[object] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _wait_for_end(self, replica: str) -> None:
        """Wait until what `begin` found of the replica and nobody wanted is gone."""
        if replica in self._ending:
            await asyncio.wait([self._ending[replica]])


def _is_awaited(pod: Pod, replica: Replica | None) -> bool:
    """Whether the pod is the start that was ordered and not yet heard of: it will be ordered again."""
    if replica is None or replica.phase is not Phase.STARTING:
        return False
    return pod.incarnation == _incarnation(replica.starts)


def _before_begin(event: Event) -> NoReturn:
    raise RuntimeError(f"{event} before the backend was begun")


def _incarnation(start: int) -> str:
    return f"{start:04d}"
