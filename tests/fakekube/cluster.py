"""A whole cluster in one process: the API server on a real port, scheduler, kubelets and controllers."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any, Self

from fakekube import schemas
from fakekube.clock import Clock
from fakekube.failures import FailureError
from fakekube.faults import Faults
from fakekube.housekeeping import Accounts, Budgets, Garbage, PodGarbage
from fakekube.job_sets import JobSetController, TrainJobController
from fakekube.jobs import JobController
from fakekube.kinds import (
    BUILT_IN_KINDS,
    JOB_KINDS,
    KUEUE_KINDS,
    LEADER_WORKER_SETS,
    NAMESPACES,
    NODES,
    OPTIONAL_KINDS,
    OWN_KINDS,
    PODS,
    WORKLOADS,
    Kind,
    Object,
)
from fakekube.kubelet import Kubelet
from fakekube.kueue import Kueue
from fakekube.leader_worker_sets import LeaderWorkerSetController
from fakekube.machinery import Machinery
from fakekube.mpi_jobs import MpiOperator
from fakekube.operators import TrainingOperator
from fakekube.scheduler import Scheduler
from fakekube.server import Server
from fakekube.stateful_sets import StatefulSetController
from fakekube.store import Store
from fakekube.tokens import Tokens
from fakekube.webhooks import Webhooks

_ROUNDS = 200
_DEFINITIONS = Path(__file__).parents[2] / "charts" / "specon" / "crds"
_JOB_DEFINITIONS = Path(__file__).parent / "definitions"


class FakeCluster:
    """Use as `async with FakeCluster(nodes=3) as cluster`, and talk to `cluster.url`.

    Controllers act by themselves after every change; with `automatic=False` only when `settle` is awaited,
    and with `controllers=False` never: a server alone. `without` are resources that are not served, as on a
    cluster where their definitions are missing. With `kueue` there is a stand-in for it.
    """

    def __init__(
        self,
        *,
        nodes: int = 0,
        automatic: bool = True,
        controllers: bool = True,
        without: tuple[Kind, ...] = (),
        kueue: bool = False,
    ) -> None:
        self.clock = Clock()
        self.store = Store()
        self.faults = Faults()
        self.tokens = Tokens(self.store, self.clock)
        self.webhooks = Webhooks(self.store)
        self.machinery = Machinery(self.store, self.clock)
        self.machinery.admission = self._admit
        offered = (*BUILT_IN_KINDS, *OWN_KINDS, *OPTIONAL_KINDS, *(KUEUE_KINDS if kueue else ()))
        kinds = [kind for kind in offered if kind not in without]
        definitions = schemas.read(_DEFINITIONS) | schemas.read(_JOB_DEFINITIONS)
        self.machinery.schemas = {
            kind: definitions[kind.plural]
            for kind in (*OWN_KINDS, *JOB_KINDS, LEADER_WORKER_SETS, WORKLOADS)
            if kind.plural in definitions
        }
        self.server = Server(self.machinery, self.tokens, self.faults, kinds, self.webhooks)
        self.scheduler = Scheduler(self.machinery)
        self.kubelet = Kubelet(self.machinery, self.clock)
        self.jobs = JobController(self.machinery, self.clock)
        self.train_jobs = TrainJobController(self.machinery)
        self.leader_worker_sets = LeaderWorkerSetController(self.machinery)
        self.kueue = Kueue(self.machinery)
        self._with_kueue = kueue
        self._controllers: list[Any] = []
        if controllers:
            self._controllers = [
                Accounts(self.machinery),
                *([self.kueue] if kueue else []),
                self.train_jobs,
                JobSetController(self.machinery),
                self.leader_worker_sets,
                MpiOperator(self.machinery),
                TrainingOperator(self.machinery, self.clock),
                self.jobs,
                StatefulSetController(self.machinery),
                self.scheduler,
                self.kubelet,
                Budgets(self.machinery),
                PodGarbage(self.machinery),
                Garbage(self.machinery, kinds),
            ]
        self._nodes = nodes
        self._automatic = automatic
        self._acting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def _admit(self, kind: Kind, value: Object, operation: str) -> Object:
        """Ask Kueue's webhook, then those that are configured, and that of LeaderWorkerSets last."""
        if self._with_kueue:
            value = self.kueue.defaulted(kind, value, operation)
        value = await self.webhooks.admit(kind, value, operation)
        return self.leader_worker_sets.defaulted(kind, value, operation)

    @property
    def url(self) -> str:
        return self.server.url

    async def __aenter__(self) -> Self:
        for name in ("default", "kube-system"):
            await self.machinery.create(NAMESPACES, "", {"metadata": {"name": name}})
        for number in range(self._nodes):
            await self.add_node(f"node-{number}")
        await self.settle()
        await self.server.open()
        if self._automatic:
            self._task = asyncio.create_task(self._keep_settled())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop_controllers()
        await self.server.close()

    async def stop_controllers(self) -> None:
        """Let controllers act no more by themselves: what is left is the server."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    # -- time ------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Let every controller act until none has anything to do; AssertionError where that never is."""
        async with self._acting:
            for _ in range(_ROUNDS):
                before = self.store.revision
                for timer in self.clock.due():
                    await _tried(timer)
                for controller in self._controllers:
                    await _tried(controller.act)
                if self.store.revision == before:
                    return
        raise AssertionError(f"the controllers found no rest in {_ROUNDS} rounds")

    async def advance(self, seconds: float) -> None:
        """Let time pass for the cluster (not for its clients), and let it do what that brings."""
        self.clock.advance(seconds)
        await self.settle()

    async def _keep_settled(self) -> None:
        waker = self.store.waker()
        try:
            while True:
                waker.clear()
                await self.settle()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(waker.wait(), self.clock.wait())
        finally:
            self.store.forget(waker)

    # -- what tests ask for ----------------------------------------------------------------------

    async def add_node(
        self,
        name: str,
        *,
        cpu: str = "16",
        memory: str = "64Gi",
        labels: dict[str, str] | None = None,
        taints: list[Object] | None = None,
        extra: dict[str, str] | None = None,
    ) -> Object:
        """Add a node that is ready; `extra` are further resources of it, such as {"nvidia.com/gpu": "8"}."""
        room = {"cpu": cpu, "memory": memory, "pods": "110", **(extra or {})}
        known = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastTransitionTime": self.clock.text(),
        }
        return await self.machinery.create(
            NODES,
            "",
            {
                "metadata": {"name": name, "labels": {**known, **(labels or {})}},
                "spec": {"taints": taints} if taints else {},
                "status": {"allocatable": room, "capacity": room, "conditions": [ready]},
            },
        )

    def pod(self, name: str, namespace: str = "default") -> Object | None:
        return self.store.get(PODS, (namespace, name))

    def pods(self, **labels: str) -> list[Object]:
        """Return the pods that carry these labels."""
        return [
            pod
            for pod in self.store.all(PODS)
            if all((pod["metadata"].get("labels") or {}).get(key) == word for key, word in labels.items())
        ]

    def kubeconfig(self, path: Path, *, context: str = "fake") -> Path:
        """Write a configuration for clients and return its path."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": {"server": self.url}}],
            "users": [{"name": context, "user": {"token": "fake"}}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
            "current-context": context,
        }
        path.write_text(json.dumps(document))
        return path


async def _tried(act: Any) -> None:
    """Let a controller act; what changed under its hands, or a webhook refused, it tries again later."""
    with contextlib.suppress(FailureError):
        await act()
