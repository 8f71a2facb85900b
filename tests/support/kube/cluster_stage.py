"""A whole installation in one event loop: a fake cluster, managers, and sidecars that report to them."""

import asyncio
import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

from fakekube.cluster import FakeCluster
from fakekube.kinds import (
    EVENTS,
    JOB_SETS,
    JOBS,
    LEADER_WORKER_SETS,
    LEASES,
    MIGRATIONS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    STATEFUL_SETS,
    TRAINING_PROGRESSES,
    Kind,
)
from fakekube.store import Entry, key_of
from specon_manager.backends.kube.admission.webhook import WebhookSettings, webhook_configuration
from specon_manager.backends.kube.backend import KubeBackend, KubeSettings
from specon_manager.backends.kube.objects.identity import identity_of
from specon_manager.backends.kube.objects.names import slug
from specon_manager.backends.kube.placeholder import placeholder_name
from specon_manager.backends.kube.rooms import RoomSettings
from specon_manager.model.settings import Budgets, Deadlines, Gate, Settings
from specon_manager.runtime.clock import Clock
from specon_manager.serving import cluster_term
from support.clocks.fair_time import be_fair, fair_now
from support.kube.cluster_rules import FINAL, Rules
from support.kube.front import Front
from support.kube.scripted_sidecar import Sidecars
from support.kube.staged_manager import SYSTEM, Manager
from support.kube.training_templates import training_template

__all__ = ["DECISIONS", "OWNERS", "STATES", "SYSTEM", "ClusterStage", "Manager"]

Object = dict[str, Any]
SECONDS = 40.0
"""Nothing that a test waits for takes longer."""
STATES = ("Proposed", "Reserved", "Checkpointing", "Evicting", "Restoring", "Verifying")
OWNERS = ("Pod", "Job", "StatefulSet", "Indexed")
"""What owns a pod: nobody, a Job of one pod, a StatefulSet, an Indexed Job whose pods are moved singly.

A `Gang` is an Indexed Job of four pods that train as one, a `JobSet` one of two Jobs of two pods each, a
`LeaderWorkerSet` has one group of four.
"""
DECISIONS = Settings(
    policy="fifo",
    tick=0.2,
    budgets=Budgets(moves_at_once=100, moves_at_once_per_node=100, cooldown=0, retry_cooldown=0.1),
    gate=Gate(enabled=False),
    deadlines=Deadlines(start=30, hold=30, checkpoint=30, eviction_margin=30, verify=30, crash_backoff=0.2),
)
"""Moves what somebody asks for, and nothing else; nothing is overdue while a test holds a move back."""
_LOOK = 0.03
_KINDS: Mapping[str, Kind] = {
    "Pod": PODS,
    "Job": JOBS,
    "Indexed": JOBS,
    "Gang": JOBS,
    "JobSet": JOB_SETS,
    "LeaderWorkerSet": LEADER_WORKER_SETS,
    "StatefulSet": STATEFUL_SETS,
}


class ClusterStage:
    """`async with ClusterStage(folder) as stage`; the rules are checked at the end."""

    def __init__(
        self, folder: Path, *, nodes: int = 4, kube: KubeSettings | None = None, kueue: bool = False
    ) -> None:
        self.cluster = FakeCluster(nodes=nodes, kueue=kueue)
        self.sidecars = Sidecars(self.cluster, folder)
        self.rules = Rules(self.cluster, self.sidecars)
        self.managers: list[Manager] = []
        self._kube = kube or KubeSettings(
            rooms=RoomSettings(patience=1.0, guard_class="guards"),
            eviction_patience=1.5,
            unschedulable_seconds=1.0,
        )
        self._webhook, self._reports = (Front(each, self._passable) for each in (self._any, self._leader))
        self._urls = ("", "")
        self._kinds: dict[str, str] = {}
        """Owner of each replica."""
        self._moves: dict[str, str] = {}
        """Name of the Migration that was asked for last, by replica."""
        self._braked: dict[str, str] = {}
        self._starting_held: dict[str, set[str]] = {}
        # Every term of a manager makes its own, of the defaults, which are too patient for a test.
        self._patience = contextlib.ExitStack()

    async def __aenter__(self) -> Self:
        be_fair()
        for name, made in (
            ("KubeSettings", lambda **_: self._kube),
            ("KubeBackend", partial(KubeBackend, monotonic=fair_now)),
            ("Clock", partial(Clock, monotonic=fair_now)),
        ):
            self._patience.enter_context(patch.object(cluster_term, name, made))
        await self.cluster.__aenter__()
        self.cluster.jobs.backoff_seconds = 0.2
        self.cluster.store.written.append(self._hold_new_pod)
        for name in (SYSTEM, "training"):
            labels = {"kubernetes.io/metadata.name": name}
            metadata = {"name": name, "labels": labels}
            await self.cluster.machinery.create(NAMESPACES, "", {"metadata": metadata})
        ports = [await front.start("127.0.0.1") for front in (self._webhook, self._reports)]
        self._urls = (f"https://127.0.0.1:{ports[0]}", f"https://127.0.0.1:{ports[1]}")
        self.cluster.webhooks.services[SYSTEM, "specon-webhook"] = self._urls[0]
        about = WebhookSettings(name="specon", namespace=SYSTEM, service="specon-webhook")
        configuration = webhook_configuration(about, None)
        await self.cluster.machinery.create(MUTATING_WEBHOOKS, "", configuration)
        return self

    async def __aexit__(self, *_: object) -> None:
        async with contextlib.AsyncExitStack() as last:
            last.callback(self._patience.close)
            last.push_async_callback(self.cluster.__aexit__, None, None, None)
            last.push_async_callback(self._webhook.stop)
            last.push_async_callback(self._reports.stop)
            last.push_async_callback(self.sidecars.close)
            for manager in self.managers:
                last.push_async_callback(manager.stop)
        self.rules.close()

    def report_from(self, addresses: int) -> None:
        """Let sidecars report from so many addresses: a manager hears only so many connections of one."""
        self._reports.addresses = addresses

    # -- managers --------------------------------------------------------------------------------

    async def manage(self, name: str = "first", decisions: Settings = DECISIONS, **release: Any) -> Manager:
        """Start a manager; it may lead at once, or stand by. `release`: its `lease` and `namespaces`."""
        manager = Manager(name, self.cluster.url, self._urls, decisions, **release)
        self.managers.append(manager)
        return manager

    async def manage_and_lead(self, name: str = "first", decisions: Settings = DECISIONS) -> Manager:
        """Start a manager and wait until it leads and the webhook is answered."""
        manager = await self.manage(name, decisions)
        await self.until(lambda: self.leader is manager, f"{name} leads")
        await self.until(manager.has_taken_over, f"{name} knows where everything stands")
        await self.until(self._webhook_works, "the webhook is answered")
        return manager

    async def lease_runs_out(self) -> None:
        """Let so much time pass for those who stand by that the Lease is nobody's."""
        body = {"spec": {"holderIdentity": ""}}
        await self.cluster.machinery.patch(LEASES, (SYSTEM, "manager"), "merge", body)

    @property
    def leader(self) -> Manager | None:
        """The manager that the Lease names."""
        lease = self.cluster.store.get(LEASES, (SYSTEM, "manager"))
        holder = ((lease or {}).get("spec") or {}).get("holderIdentity")
        return next((one for one in self.managers if one.alive and one.name == holder), None)

    def _webhook_works(self) -> bool:
        hooks = (self.cluster.store.get(MUTATING_WEBHOOKS, ("", "specon")) or {}).get("webhooks") or []
        known = all(hook["clientConfig"].get("caBundle") for hook in hooks)
        return known and any(one.alive and one.serves._is_ready() for one in self.managers)

    async def _any(self) -> Sequence[tuple[str, int]]:
        serving = sorted((one for one in self.managers if one.alive), key=lambda one: one.leaving)
        return [("127.0.0.1", one.port) for one in serving]

    async def _passable(self, port: int) -> None:
        for one in self.managers:
            if port in {one.port, one.reports_port}:
                await one.passable()

    async def _leader(self) -> Sequence[tuple[str, int]]:
        leaders = self.managers if self.leader is None else [self.leader]
        return [("127.0.0.1", one.reports_port) for one in leaders if one.alive]

    # -- what users do ---------------------------------------------------------------------------

    async def make(
        self,
        owner: str,
        name: str,
        namespace: str = "training",
        labels: Object | None = None,
        leader: Object | None = None,
        **spec: Any,
    ) -> str:
        """Create something that trains, and return the name of its replica; `labels` are of its owner.

        `leader` is what each pod of the first Job of a JobSet requests, where that differs.
        """
        replica = f"{namespace}/{name}/worker/0"
        self._kinds[replica] = owner
        template = training_template(name, recreate=owner == "Pod")
        kind = _KINDS[owner]
        if owner == "Pod":
            template["metadata"]["name"] = name
            await self.cluster.machinery.create(PODS, namespace, {**template, **spec})
            return replica
        if owner == "StatefulSet":
            template["spec"]["restartPolicy"] = "Always"
            selector = {"matchLabels": {"job": name}}
            body: Object = {"replicas": 1, "serviceName": name, "selector": selector}
        else:
            body = {"backoffLimit": 0}
        if owner in {"Gang", "JobSet", "LeaderWorkerSet"}:
            template["metadata"]["annotations"] |= {
                "specon.io/replicas": "coupled",
                "specon.io/savers": "all",
            }
            pods = 2 if owner == "JobSet" else 4
            body |= {"completionMode": "Indexed", "completions": pods, "parallelism": pods}
            self.sidecars.together.add(f"{namespace}/{name}")
        if owner == "JobSet":
            job = {"metadata": {}, "spec": {**body, "template": template}}
            jobs = [
                {"name": part, "replicas": 1, "template": copy.deepcopy(job)} for part in ("first", "second")
            ]
            if leader is not None:
                pod = jobs[0]["template"]["spec"]["template"]["spec"]
                pod["containers"][0]["resources"] = {"requests": leader}
            metadata = {"name": name, "labels": labels or {}}
            manifest = {"metadata": metadata, "spec": {"replicatedJobs": jobs, **spec}}
            await self.cluster.machinery.create(kind, namespace, manifest)
            return replica
        if owner == "LeaderWorkerSet":
            template["spec"]["restartPolicy"] = "Always"
            body = {"leaderWorkerTemplate": {"size": 4, "workerTemplate": template}}
            manifest = {"metadata": {"name": name, "labels": labels or {}}, "spec": {**body, **spec}}
            await self.cluster.machinery.create(kind, namespace, manifest)
            return replica
        if owner == "Indexed":
            ignore = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
            body |= {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
            body["podFailurePolicy"] = {"rules": [ignore]}
        metadata = {"name": name, "labels": labels or {}}
        manifest = {"metadata": metadata, "spec": {**body, "template": template, **spec}}
        await self.cluster.machinery.create(kind, namespace, manifest)
        return replica

    async def ask(self, replica: str, target: str | None = None, name: str = "", **spec: Any) -> str:
        """Create a Migration as a person would, and return its name."""
        name = name or _asked(replica)
        wanted = {"replica": replica, "reason": "a test asks for it", **spec}
        if target is not None:
            wanted["target"] = target
        if {"pod", "job"} & wanted.keys():
            del wanted["replica"]
        self._moves[replica] = name
        await self.cluster.machinery.create(
            MIGRATIONS, _namespace(replica), {"metadata": {"name": name}, "spec": wanted}
        )
        return name

    async def freeze_controllers(self) -> None:
        """Leave only the API server of the cluster, with nobody else who looks at what is written there."""
        await self.cluster.stop_controllers()
        self.cluster.store.written.clear()

    def pods_of(self, replica: str) -> list[Object]:
        """Return the pods of a replica that have not ended."""
        found = []
        for pod in self.cluster.store.all(PODS, _namespace(replica)):
            identity = identity_of(pod) if _is_training(pod) else None
            if identity is not None and identity.replica == replica:
                found.append(pod)
        return found

    def told_to_end(self) -> list[str]:
        """Return the names of the training pods that are told to end from now on; it grows."""
        told: list[str] = []

        def written(kind: Kind, entry: Entry) -> None:
            before, after = entry.before, entry.after
            if kind is not PODS or after is None or not _is_training(after) or _ends(before):
                return
            if _ends(after):
                told.append(after["metadata"]["name"])

        self.cluster.store.written.append(written)
        return told

    def pod_of(self, replica: str) -> Object:
        """Return the one pod of a replica."""
        (pod,) = self.pods_of(replica)
        return pod

    def node_of(self, replica: str) -> str:
        return str(self.pod_of(replica)["spec"].get("nodeName", ""))

    @property
    def nodes(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.cluster.store.all(NODES)]

    def other_node(self, replica: str) -> str:
        """Return a node on which the replica is not."""
        return next(node for node in self.nodes if node != self.node_of(replica))

    def owner(self, replica: str) -> Object | None:
        """Return the owner of a replica; for a bare pod the pod."""
        kind = _KINDS[self._kinds[replica]]
        return self.cluster.store.get(kind, (_namespace(replica), replica.split("/")[1]))

    async def patch_owner(self, replica: str, body: Object) -> None:
        kind = _KINDS[self._kinds[replica]]
        key = (_namespace(replica), replica.split("/")[1])
        await self.cluster.machinery.patch(kind, key, "merge", body)

    async def add_node(self, name: str, cpu: str = "16", **more: Any) -> None:
        """Add a node, and wait until the leader would use it; `more` as `FakeCluster.add_node` has it."""
        await self.cluster.add_node(name, cpu=cpu, **more)
        await self.until(lambda: self._knows_node(name), f"the leader knows {name}")

    def _knows_node(self, name: str) -> bool:
        leader = self.leader
        controller = None if leader is None else leader.serves._server.controller
        return controller is not None and name in controller.state.nodes

    async def delete_pods(self, *replicas: str) -> None:
        """Delete the pods of replicas as somebody would who knows nothing of us; wait until they are gone."""
        uids = set()
        for replica in replicas:
            for pod in self.pods_of(replica):
                uids.add(pod["metadata"]["uid"])
                await self.cluster.machinery.delete(PODS, key_of(pod), {"gracePeriodSeconds": 0})

        def gone() -> bool:
            return not uids & {pod["metadata"]["uid"] for pod in self.cluster.store.all(PODS)}

        await self.until(gone, "they are gone")

    async def lose_node(self, name: str) -> None:
        """Let a node be silent from now on, with all that is on it."""
        await self.cluster.kubelet.down(name)
        for replica in self._kinds:
            for pod in self.pods_of(replica):
                if pod["spec"].get("nodeName") == name:
                    await self.sidecars.cut_off(pod["metadata"]["uid"])

    async def remove_node(self, name: str) -> None:
        """Remove a node that is lost: then its pods are removed too."""
        await self.cluster.machinery.delete(NODES, ("", name))

    # -- what is seen ----------------------------------------------------------------------------

    def progress(self, replica: str) -> Object:
        """Return the status of the replica's TrainingProgress."""
        found = self.cluster.store.get(TRAINING_PROGRESSES, (_namespace(replica), slug(replica)))
        return (found or {}).get("status") or {}

    def move(self, replica: str) -> Object:
        """Return the status of the Migration that was asked for, or else of the newest one."""
        name = self._moves.get(replica)
        if name is not None:
            found = self.cluster.store.get(MIGRATIONS, (_namespace(replica), name))
            return (found or {}).get("status") or {}
        found_all = [
            each.get("status") or {} for each in self.cluster.store.all(MIGRATIONS, _namespace(replica))
        ]
        mine = [each for each in found_all if each.get("replica") == replica]
        return max(mine, key=lambda each: str(each.get("proposedAt")), default={})

    def state(self, replica: str) -> str:
        return str(self.move(replica).get("state", ""))

    def notes(self, name: str) -> list[str]:
        """Return what the events on objects of that name say."""
        return [str(e["note"]) for e in self.cluster.store.all(EVENTS) if e["regarding"]["name"] == name]

    async def until(self, holds: Callable[[], object], what: str, *, seconds: float = SECONDS) -> None:
        """Wait until something holds."""
        end = fair_now() + seconds
        while not holds():
            for manager in self.managers:
                manager.check()
            assert fair_now() < end, f"not within {seconds:g} s: {what}; {self.tale()}"
            await asyncio.sleep(_LOOK)

    def tale(self) -> str:
        """Return where everything stands, for the message of a test that fails."""
        moves = {
            each["metadata"]["name"]: {
                key: value
                for key, value in (each.get("status") or {}).items()
                if key in {"state", "replica", "source", "target", "message", "attempt", "manager"}
            }
            for each in self.cluster.store.all(MIGRATIONS)
        }
        pods = [
            (
                pod["metadata"]["name"],
                pod["spec"].get("nodeName"),
                pod.get("status", {}).get("phase"),
                "ending" if pod["metadata"].get("deletionTimestamp") else "",
            )
            for pod in self.cluster.store.all(PODS)
            if pod.get("status", {}).get("phase") != "Running" or pod["metadata"].get("deletionTimestamp")
        ]
        jobs = [
            (job["metadata"]["name"], job["spec"].get("suspend"), job["metadata"].get("annotations"))
            for job in self.cluster.store.all(JOBS)
            if job["spec"].get("suspend")
        ]
        leader = self.leader
        return f"moves {moves}\npods {pods}\njobs {jobs}\nleader {leader.name if leader else None}"

    async def trains(self, *replicas: str, beyond: int = 0) -> None:
        """Wait until the manager knows of a step of each after `beyond`, from the pod that runs."""
        for replica in replicas:
            await self.until(lambda replica=replica: self._is_known(replica, beyond), f"{replica} trains")

    def _is_known(self, replica: str, beyond: int) -> bool:
        pods = self.pods_of(replica)
        status = self.progress(replica)
        if len(pods) != 1 or pods[0].get("status", {}).get("phase") != "Running":
            return False
        return status.get("incarnation") == pods[0]["metadata"]["uid"] and status.get("step", 0) > beyond

    async def ended(self, *replicas: str, seconds: float = SECONDS) -> None:
        """Wait until the moves of these are over."""
        for replica in replicas:
            await self.until(
                lambda replica=replica: self.state(replica) in FINAL,
                f"the move of {replica} ends",
                seconds=seconds,
            )

    async def no_moves(self) -> None:
        """Wait until the leader knows of no transaction in flight."""
        await self.until(self._is_calm, "no move is in flight")

    def _is_calm(self) -> bool:
        controller = None if self.leader is None else self.leader.serves._server.controller
        return controller is not None and controller.ready and not controller.state.transactions

    async def tidy(self) -> None:
        """Wait until nothing of moves is left behind; fail where a rule was broken."""
        await self.until(lambda: not self.rules.leftovers(), f"tidied up: {self.rules.leftovers()}")
        self.check()

    def check(self) -> None:
        assert not self.rules.breaches, "\n".join(self.rules.breaches)

    # -- holding moves back ----------------------------------------------------------------------

    def brake(self, replica: str, state: str) -> None:
        """Have the next move of a replica stay in a state until it is released; before its pod is made."""
        self._braked[replica] = state
        if state == "Reserved":
            self.sidecars.deaf.add(replica)
        elif state == "Checkpointing":
            self.sidecars.slow.add(replica)

    async def braked(self, replica: str, target: str | None = None) -> str:
        """Ask for a move, and wait until it stands in the state in which it is held back."""
        state = self._braked[replica]
        pod = self.pod_of(replica)["metadata"]["name"]
        kubelet = self.cluster.kubelet
        if state == "Reserved":
            await self.sidecars.deafen(replica)
        if state == "Proposed":
            kubelet.held.add(placeholder_name(f"{_namespace(replica)}/{_asked(replica)}", replica))
        elif state == "Evicting":
            kubelet.deaf.add(pod)
        name = await self.ask(replica, target)
        if state == "Verifying":
            await self.until(lambda: self.state(replica) == "Evicting" or self._left(replica, pod), "evicted")
            self.sidecars.mute.add(replica)
        await self.until(lambda: self.state(replica) == state, f"{replica} is {state}")
        return name

    def _left(self, replica: str, pod: str) -> bool:
        return self.state(replica) in {"Restoring", "Verifying"}

    async def release(self, *replicas: str) -> None:
        """Let moves go on."""
        kubelet = self.cluster.kubelet
        for replica in list(replicas):
            self._braked.pop(replica, None)
            for held in (self.sidecars.deaf, self.sidecars.slow, self.sidecars.mute):
                held.discard(replica)
            for name in self._starting_held.pop(replica, set()):
                kubelet.held.discard(name)
        kubelet.held = {name for name in kubelet.held if not name.startswith("specon-room-")}
        kubelet.deaf = {name for name in kubelet.deaf if self._is_braked(name)}
        await self.cluster.settle()

    async def release_all(self) -> None:
        """Let all moves go on, though their replicas may be gone."""
        await self.release(*self._braked)

    def _is_braked(self, pod: str) -> bool:
        return any(
            pod == each["metadata"]["name"] for replica in self._braked for each in self.pods_of(replica)
        )

    def _hold_new_pod(self, kind: Kind, entry: Entry) -> None:
        """Keep the pod that a move brings from starting, where the move is held back there."""
        pod = entry.after
        if kind is not PODS or entry.before is not None or pod is None or not _is_training(pod):
            return
        identity = identity_of(pod)
        if identity is None or self._braked.get(identity.replica) != "Restoring":
            return
        if self.state(identity.replica) in {"Evicting", "Restoring"}:
            self.cluster.kubelet.held.add(pod["metadata"]["name"])
            self._starting_held.setdefault(identity.replica, set()).add(pod["metadata"]["name"])


def _is_training(pod: Object) -> bool:
    ended = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    return not ended and "specon.io/sidecar" in (pod["metadata"].get("labels") or {})


def _ends(pod: Object | None) -> bool:
    return pod is not None and bool(pod["metadata"].get("deletionTimestamp"))


def _asked(replica: str) -> str:
    """Return the name of the Migration by which a test asks for the move of a replica."""
    return f"please-{replica.split('/')[1]}"


def _namespace(replica: str) -> str:
    return replica.partition("/")[0]
