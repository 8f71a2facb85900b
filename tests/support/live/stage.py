"""A namespace of a real cluster with a manager of its own, and what can be seen and done there."""

import asyncio
import contextlib
import json
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from specon_manager.backends.kube.objects.identity import identity_of
from specon_manager.backends.kube.transport.api import Api, ApiError
from specon_manager.backends.kube.transport.resources import (
    CUSTOM_RESOURCES,
    EVENTS,
    JOB_SETS,
    JOBS,
    LEADER_WORKER_SETS,
    LEASES,
    MIGRATIONS,
    NAMESPACES,
    NODES,
    PDBS,
    PODS,
    PVCS,
    PVS,
    STATEFUL_SETS,
    TRAINING_PROGRESSES,
    Object,
    Resource,
)
from support.kube.front import Front
from support.live.install import Installed, install, rendered, token, write_kubeconfig
from support.live.jobs import CLAIM, HURRY, STEPS, Jobs, resource_of, script
from support.live.manager import LiveManager
from support.live.settings import LiveSettings, NotAllowedError
from support.local.trainer import RESULT, TIMES, VIOLATIONS, parameters_after

SECONDS: Final = 60.0
"""Nothing that a test waits for takes longer, unless it says so."""
LEASE: Final = "specon"
"""As the chart calls it."""
INJECTED: Final = {"specon.io/sidecar": "injected"}
FINAL: Final = frozenset({"Succeeded", "RolledBack", "Failed", "Refused"})
_CRDS: Final = Path(__file__).parents[3] / "charts" / "specon" / "crds"
_CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
_LOOK_SECONDS: Final = 0.2
_DECISIONS: Final[Mapping[str, Any]] = {
    "policy": "specon",
    "parameters": {"rebalance": False},
    "tick": 0.5,
    "budgets": {"cooldown": 0, "retry_cooldown": 60},
    "gate": {"enabled": False},
    "deadlines": {"start": 60, "hold": 60, "checkpoint": 30, "eviction_margin": 30, "verify": 60},
}
MOVES_NOTHING: Final[Mapping[str, Any]] = {**_DECISIONS, "policy": "fifo", "parameters": {}}
"""Decisions by which only what somebody asks for is moved."""
Met = TypeVar("Met")


class LiveStage:
    """One test's namespaces, managers and jobs; everything is removed by `close`."""

    def __init__(
        self, api: Api, settings: LiveSettings, folder: Path, values: Mapping[str, Any] | None = None
    ) -> None:
        run = uuid.uuid4().hex[:8]
        self.api = api
        self.settings = settings
        self.namespace = f"specon-e2e-{run}"
        self.system = f"specon-e2e-{run}-system"
        self.jobs = Jobs(settings.trainer_image, settings.node_selector)
        self.managers: list[LiveManager] = []
        self._folder = folder
        self._values = values or {}
        self._webhook = Front(self._any)
        self._reports = Front(self._leader)
        self._urls = {"webhook": "", "reports": ""}
        self._objects: list[Object] = []
        self._installed: Installed | None = None
        self._kubeconfig = settings.kubeconfig
        self._runs = 0

    # -- beginning and end -----------------------------------------------------------------------

    async def open(self) -> None:
        """Make the namespaces, the volume and the webhook's configuration."""
        self._objects = rendered(
            self.system, self.namespace, self._values
        )  # without helm nothing is begun at all
        await self._install_custom_resources()
        await self._check_nodes()
        for name in (self.namespace, self.system):
            labels = {"specon-e2e": self.namespace}
            await self.api.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        await self.api.create(_CONFIG_MAPS, script(), self.namespace)
        await self._make_volume()
        for name, front in (("webhook", self._webhook), ("reports", self._reports)):
            port = await front.start(self.settings.address)
            self._urls[name] = f"https://{self.settings.address}:{port}"
        self._installed = await install(
            self.api, self._objects, system=self.system, webhook_url=self._urls["webhook"]
        )
        made = await self.eventually(lambda: token(self.api, self.system), "the manager has a token")
        self._kubeconfig = write_kubeconfig(self.settings.kubeconfig, made, self._folder)
        # Each writer on the volume is its own user, who does not own the directory.
        await self.in_volume("import os; os.chmod('/volume', 0o777)")

    async def close(self) -> None:
        """End everything and remove it; raises where something does not go."""
        for manager in self.managers:
            with contextlib.suppress(Exception):
                manager.stop()
        await self._webhook.stop()
        await self._reports.stop()
        async with contextlib.AsyncExitStack() as last:
            last.push_async_callback(self.gone, PVS, self.namespace)
            last.push_async_callback(self.gone, NAMESPACES, self.namespace, self.system)
            last.push_async_callback(self._clean_volume)
            last.push_async_callback(self._end_jobs)
            for resource, name in () if self._installed is None else self._installed.cluster_wide:
                last.push_async_callback(self.gone, resource, name)

    # -- managers --------------------------------------------------------------------------------

    async def manage(
        self, *identities: str, decisions: Mapping[str, Any] = _DECISIONS, injects: bool = True
    ) -> list[LiveManager]:
        """Start managers and wait until one leads and, with `injects`, pods get a sidecar."""
        config = self._folder / "config.yaml"
        sidecar = {"image": self.settings.sidecar_image}
        config.write_text(yaml.safe_dump({**decisions, "sidecar": sidecar, "progress_seconds": 1}))
        started = []
        for identity in identities or ("first",):
            manager = LiveManager(identity, self.settings.address, self._folder)
            self.managers.append(manager)
            manager.start(self.arguments)
            await self.eventually(manager.ready, f"manager {identity} is ready")
            started.append(manager)
        await self.eventually(self.leader, "a manager leads")
        if injects:
            await self.eventually(self._injects, "the webhook is called")
        return started

    @property
    def arguments(self) -> list[str]:
        """What every manager of this test is started with."""
        assert self._installed is not None
        return [
            *self._installed.arguments,
            f"--config={self._folder / 'config.yaml'}",
            f"--kubeconfig={self._kubeconfig}",
            f"--webhook-url={self._urls['webhook']}",
            f"--reports-url={self._urls['reports']}",
        ]

    async def leader(self) -> LiveManager | None:
        """Return the manager that the Lease names."""
        lease = await self.found(LEASES, LEASE, self.system)
        holder = ((lease or {}).get("spec") or {}).get("holderIdentity") or ""
        # What follows the name tells one life of a manager from the next.
        name = holder.rpartition("_")[0] or holder
        return next((one for one in self.managers if one.alive and one.identity == name), None)

    # -- what is done ----------------------------------------------------------------------------

    async def create(self, manifest: Object) -> Object:
        """Create a job; raises ApiError where it is refused."""
        return await self.api.create(resource_of(manifest), manifest, self.namespace)

    async def ask_for_move(self, name: str, pod: Object, target: str) -> None:
        """Create a Migration, as a person would."""
        spec = {"pod": pod["metadata"]["name"], "target": target, "reason": "an end-to-end test asks for it"}
        kind = {"apiVersion": MIGRATIONS.api_version, "kind": MIGRATIONS.kind}
        await self.api.create(MIGRATIONS, {**kind, "metadata": {"name": name}, "spec": spec}, self.namespace)

    async def never_disrupt(self, name: str, labels: Mapping[str, str]) -> None:
        """Create a PodDisruptionBudget by which the only pod with these labels has to stay."""
        budget = {"minAvailable": 1, "selector": {"matchLabels": dict(labels)}}
        kind = {"apiVersion": PDBS.api_version, "kind": PDBS.kind}
        await self.api.create(PDBS, {**kind, "metadata": {"name": name}, "spec": budget}, self.namespace)

        async def seen() -> bool:
            found = await self.api.get(PDBS, name, self.namespace)
            status = found.get("status") or {}
            return bool(status.get("observedGeneration")) and status.get("expectedPods", 0) > 0

        await self.eventually(seen, "the disruption controller knows of the budget")

    async def in_volume(self, code: str) -> dict[str, Any]:
        """Run Python with the volume at /volume; return the JSON object that it prints last, if any."""
        self._runs += 1
        name = f"in-volume-{self._runs}"
        await self.api.create(PODS, self.jobs.in_volume(name, code), self.namespace)

        async def ended() -> str | None:
            status = (await self.api.get(PODS, name, self.namespace)).get("status") or {}
            return status.get("phase") if status.get("phase") in {"Succeeded", "Failed"} else None

        phase = await self.eventually(ended, f"{name} has ended", seconds=120)
        assert phase == "Succeeded", code
        return await self.api.get(PODS, name, self.namespace, subresource="log") if "print" in code else {}

    async def let_finish(self, directory: str) -> None:
        """Let the trainer in that directory do the rest of its steps at once."""
        await self.in_volume(f"open('/volume/{directory}/{HURRY}', 'w').close()")

    # -- what is seen ----------------------------------------------------------------------------

    async def nodes(self) -> list[str]:
        """Return the names of the nodes that may be used, in their order."""
        selector = ",".join(f"{key}={value}" for key, value in self.settings.node_selector.items())
        found, _ = await self.api.list(NODES, label_selector=selector)
        return sorted(node["metadata"]["name"] for node in found if _usable(node))

    async def other_node(self, pod: Object) -> str:
        """Return a node on which the pod is not."""
        return next(name for name in await self.nodes() if name != pod["spec"]["nodeName"])

    async def pods_of(self, job: str, index: int = 0) -> list[Object]:
        """Return the pods of a replica, whatever their phase."""
        pods, _ = await self.api.list(PODS, self.namespace)
        wanted = f"{self.namespace}/{job}/worker/{index}"
        return [pod for pod in pods if (found := identity_of(pod)) is not None and found.replica == wanted]

    async def training(self, job: str, index: int = 0, *, former: str = "") -> Object:
        """Wait until a replica runs whose pod is not `former` (a UID), and return the pod."""

        async def running() -> Object | None:
            for pod in await self.pods_of(job, index):
                ready = pod["metadata"]["uid"] != former and pod["status"].get("phase") == "Running"
                if ready and not pod["metadata"].get("deletionTimestamp"):
                    return pod
            return None

        return await self.eventually(running, f"{job}/{index} runs")

    async def progress(self, job: str, index: int = 0) -> Object:
        """Return the status of the replica's TrainingProgress; empty while there is none."""
        replica = f"{self.namespace}/{job}/worker/{index}"
        found, _ = await self.api.list(TRAINING_PROGRESSES, self.namespace)
        return next((one.get("status") or {} for one in found if one["spec"]["replica"] == replica), {})

    async def reported(self, job: str, index: int = 0, *, step: int = 1) -> Object:
        """Wait until the manager knows of that step, and of a checkpoint; return the status."""

        async def known() -> Object | None:
            status = await self.progress(job, index)
            return status if status.get("step", 0) >= step else None

        return await self.eventually(known, f"step {step} of {job}/{index} is reported")

    async def migration(self, name: str) -> Object:
        """Return the status of a Migration."""
        return (await self.api.get(MIGRATIONS, name, self.namespace)).get("status") or {}

    async def reaches(self, name: str, states: Sequence[str], *, seconds: float = SECONDS) -> Object:
        """Wait until a Migration is in one of the states, or has ended; return its status."""

        async def there() -> Object | None:
            status = await self.migration(name)
            return status if status.get("state") in {*states, *FINAL} else None

        return await self.eventually(there, f"{name} is in {' or '.join(states)}", seconds=seconds)

    async def ended(self, name: str, *, seconds: float = 120) -> Object:
        """Wait until a Migration has ended; return its status."""
        return await self.reaches(name, ["Succeeded"], seconds=seconds)

    async def owner(self, job: str) -> Object:
        """Return the Job of that name."""
        return await self.api.get(JOBS, job, self.namespace)

    async def phase(self, pod: Object) -> str:
        """Return the present phase of a pod; Gone where it is not there, or another one has its name."""
        found = await self.found(PODS, pod["metadata"]["name"], self.namespace)
        if found is None or found["metadata"]["uid"] != pod["metadata"]["uid"]:
            return "Gone"
        return str((found.get("status") or {}).get("phase"))

    async def completed(self, job: str) -> bool:
        """Whether a Job is complete; fails where it failed."""
        conditions = ((await self.api.get(JOBS, job, self.namespace)).get("status") or {}).get(
            "conditions"
        ) or []
        true = {one["type"]: one for one in conditions if one["status"] == "True"}
        assert "Failed" not in true, true["Failed"]
        return "Complete" in true

    async def notes(self, name: str) -> list[str]:
        """Return what the events on an object of that name say."""
        found, _ = await self.api.list(EVENTS, self.namespace)
        return [
            str(event.get("note", ""))
            for event in found
            if (event.get("regarding") or {}).get("name") == name
        ]

    async def result(self, directory: str) -> dict[str, Any]:
        """Return what the trainer in that directory left: its result, its log and what it complained of."""
        return await self.in_volume(
            "import json, pathlib\n"
            f"place = pathlib.Path('/volume/{directory}')\n"
            f"names = ['{RESULT}', '{VIOLATIONS}', '{TIMES}', 'train.log']\n"
            "print(json.dumps({n: (place / n).read_text() if (place / n).exists() else '' for n in names}))"
        )

    async def found(self, resource: Resource, name: str, namespace: str | None) -> Object | None:
        """Return an object, or None where there is none."""
        try:
            return await self.api.get(resource, name, namespace)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def eventually(
        self, look: Callable[[], Awaitable[Met | None]], what: str, *, seconds: float = SECONDS
    ) -> Met:
        """Look again and again until it is there, and return it; fails with what the managers said."""
        deadline = time.monotonic() + seconds
        while not (met := await look()):
            for manager in self.managers:
                manager.check_alive()
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}\n{await self.account()}"
            await asyncio.sleep(_LOOK_SECONDS)
        return met

    # -- parts -----------------------------------------------------------------------------------

    async def _any(self) -> list[tuple[str, int]]:
        """Return where admission is answered: every replica does."""
        return [(one.host, one.port) for one in self.managers if one.in_service]

    async def _leader(self) -> list[tuple[str, int]]:
        """Return where reports are taken: at the leader."""
        leader = await self.leader()
        return [] if leader is None else [(leader.host, leader.reports_port)]

    async def _injects(self) -> bool:
        made = await self.api.create(PODS, self.jobs.pod("probe"), self.namespace, dry_run=True)
        return INJECTED.items() <= (made["metadata"].get("labels") or {}).items()

    async def _install_custom_resources(self) -> None:
        for file in sorted(_CRDS.glob("*.yaml")):
            definition = yaml.safe_load(file.read_text("utf-8"))
            name = definition["metadata"]["name"]
            present = await self.found(CUSTOM_RESOURCES, name, None)
            # They are left behind: their removal would delete the objects of others who use them by then.
            if present is None:
                await self.api.create(CUSTOM_RESOURCES, definition)
            elif present["spec"]["versions"] != definition["spec"]["versions"]:
                change = {"spec": {"versions": definition["spec"]["versions"]}}
                await self.api.patch(CUSTOM_RESOURCES, name, None, change, form="merge")

            async def established(name: str = name) -> bool:
                status = (await self.api.get(CUSTOM_RESOURCES, name)).get("status") or {}
                true = {one["type"] for one in status.get("conditions") or [] if one["status"] == "True"}
                return "Established" in true

            await self.eventually(established, f"{name} is established")

    async def _check_nodes(self) -> None:
        nodes = await self.nodes()
        if len(nodes) < 2:
            raise NotAllowedError(
                f"needs two nodes that can be used, and there are: {', '.join(nodes) or 'none'}"
            )

    async def _make_volume(self) -> None:
        wanted: Object = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        if self.settings.host_path is not None:
            everywhere = {
                "key": "kubernetes.io/hostname",
                "operator": "In",
                "values": await self.nodes(),
            }
            spec = {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "claimRef": {"namespace": self.namespace, "name": CLAIM},
                "hostPath": {
                    "path": f"{self.settings.host_path}/{self.namespace}",
                    "type": "DirectoryOrCreate",
                },
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [everywhere]}]}},
            }
            kind = {"apiVersion": "v1", "kind": "PersistentVolume"}
            await self.api.create(PVS, {**kind, "metadata": {"name": self.namespace}, "spec": spec})
            wanted |= {"storageClassName": "", "volumeName": self.namespace}
        else:
            wanted["storageClassName"] = self.settings.storage_class
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        await self.api.create(PVCS, {**kind, "metadata": {"name": CLAIM}, "spec": wanted}, self.namespace)

    async def _end_jobs(self) -> None:
        # These first: they make their Jobs and StatefulSets anew.
        sets = [each for each in (JOB_SETS, LEADER_WORKER_SETS) if await self.api.serves(each)]
        for resource in (*sets, JOBS, STATEFUL_SETS, PODS):
            for one in (await self.api.list(resource, self.namespace))[0]:
                with contextlib.suppress(ApiError):
                    await self.api.delete(
                        resource,
                        one["metadata"]["name"],
                        self.namespace,
                        grace_seconds=0,
                        propagation="Background",
                    )

        async def none() -> bool:
            return not (await self.api.list(PODS, self.namespace))[0]

        self.managers.clear()
        await self.eventually(none, "all pods are gone")

    async def _clean_volume(self) -> None:
        await self.in_volume(
            "import pathlib, shutil\n"
            "for one in pathlib.Path('/volume').iterdir():\n"
            "    shutil.rmtree(one) if one.is_dir() else one.unlink()"
        )
        if self.settings.host_path is not None:
            with contextlib.suppress(OSError):  # it is on this machine only where that is the node
                (Path(self.settings.host_path) / self.namespace).rmdir()

    async def gone(self, resource: Resource, *names: str) -> None:
        """Delete objects that are in no namespace, and wait until they are gone."""
        for name in names:
            with contextlib.suppress(ApiError):
                await self.api.delete(resource, name)

        async def none_left() -> bool:
            return all([await self.found(resource, name, None) is None for name in names])

        await self.eventually(none_left, f"{' and '.join(names)} are gone", seconds=120)

    async def account(self) -> str:
        """Return what helps to understand why something did not come about."""
        parts = [f"--- manager {one.identity}\n{one.tail}" for one in self.managers]
        with contextlib.suppress(Exception):
            for resource in (PODS, MIGRATIONS, TRAINING_PROGRESSES):
                for one in (await self.api.list(resource, self.namespace))[0]:
                    metadata, status = one["metadata"], one.get("status") or {}
                    short = {key: status[key] for key in _TELLING if key in status}
                    where = (one.get("spec") or {}).get("nodeName", "")
                    parts.append(f"{resource.plural} {metadata['name']} {where} {json.dumps(short)[:1500]}")
            for event in (await self.api.list(EVENTS, self.namespace))[0][-40:]:
                about = (event.get("regarding") or {}).get("name")
                parts.append(f"event {about}: {event.get('reason')}: {event.get('note')}")
        return "\n".join(parts)


def check_trained(left: Mapping[str, str], steps: int = STEPS) -> list[int]:
    """Check that nothing was lost and that two never trained at once; return the steps it resumed from.

    `left` is what `LiveStage.result` returns: the parameters are a chain over all steps, so they come out as
    those of an uninterrupted run only where each step was done after the one before.
    """
    assert json.loads(left[RESULT]) == {"step": steps, "parameters": parameters_after(steps)}
    assert left[VIOLATIONS] == "", "two incarnations at once"
    return [int(step) for step in _RESUMED.findall(left["train.log"])]


_RESUMED: Final = re.compile(r"^resumed from step=(\d+) ", re.MULTILINE)
_TELLING: Final = (
    "phase", "state", "message", "reason", "step", "category", "node", "target", "deadline", "attempt",
    "incarnation", "conditions", "checkpoint", "moves",
)  # fmt: skip


def _usable(node: Object) -> bool:
    conditions = {one["type"]: one["status"] for one in (node.get("status") or {}).get("conditions") or []}
    taints = {one.get("effect") for one in (node.get("spec") or {}).get("taints") or []}
    unschedulable = (node.get("spec") or {}).get("unschedulable", False)
    return (
        conditions.get("Ready") == "True" and not unschedulable and not taints & {"NoSchedule", "NoExecute"}
    )
