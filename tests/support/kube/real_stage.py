"""A real API server, its controllers and its scheduler, a real manager; and nodes and trainers that are not.

Everything that answers or decides is the original; what a kubelet would do to a pod is done here, and what a
sidecar would say of a trainer.
"""

import asyncio
import contextlib
import json
import ssl
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import yaml
from msgspec import Struct

from fakekube.kinds import PODS as FAKE_PODS
from fakekube.store import Entry
from specon_manager.backends.kube.admission.webhook import WebhookSettings, webhook_configuration
from specon_manager.backends.kube.interception.webhook import eviction_webhook
from specon_manager.backends.kube.transport.access import direct_access
from specon_manager.backends.kube.transport.api import Api, ApiError
from specon_manager.backends.kube.transport.reflector import ObjectChange, Reflector
from specon_manager.backends.kube.transport.resources import (
    CUSTOM_RESOURCES,
    LEASES,
    MIGRATIONS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    STATEFUL_SETS,
    VALIDATING_WEBHOOKS,
    Object,
    Resource,
)
from support.kube import server
from support.kube.pods import annotated
from support.kube.scripted_sidecar import Sidecars
from support.kube.training_templates import training_template
from support.live.manager import LiveManager
from support.ports import free_port

SYSTEM, TRAINING = "specon", "training"
_CRDS = Path(__file__).parents[3] / "charts" / "specon" / "crds"
_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
_CONTROLLERS = (
    "statefulset-controller",
    "job-controller",
    "disruption-controller",
    "garbage-collector-controller",
)
DECISIONS = {
    "policy": "fifo",
    "tick": 0.5,
    "gate": {"enabled": False},
    "budgets": {"cooldown": 0, "moves_at_once": 100, "moves_at_once_per_node": 100},
    "interception": {"enabled": True},
    "sidecar": {"heartbeat": 1.0},
    "progress_seconds": 5,
}


class _Pod(Struct, frozen=True):
    uid: str
    raw: Object


class RealStage:
    """`async with RealStage(folder, programs) as stage`."""

    def __init__(
        self, folder: Path, programs: Path, *, nodes: int = 5, decisions: Object | None = None
    ) -> None:
        """Prepare; `decisions` are settings of the manager besides those of all tests."""
        self._folder, self._programs = folder, programs
        self._decisions = {**DECISIONS, **(decisions or {})}
        self.nodes = [f"node-{number}" for number in range(nodes)]
        self._stack = contextlib.AsyncExitStack()
        self._ended: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        enter = self._stack.enter_context
        self.endpoint = enter(server.running(self._folder, self._programs))
        self.config = server.kubeconfig(self._folder, self.endpoint)
        self.api = Api(access=direct_access(self.endpoint.url, self.endpoint.token, self.endpoint.authority))
        self._stack.push_async_callback(self.api.close)
        await self._install()
        enter(server.controlling(self._folder, self._programs, self.config, *_CONTROLLERS))
        enter(server.scheduling(self._folder, self._programs, self.config))
        cluster: Any = SimpleNamespace(
            store=SimpleNamespace(written=[]), tokens=SimpleNamespace(issue=self._issue)
        )
        self.sidecars = Sidecars(cluster, self._folder)
        self._stack.push_async_callback(self.sidecars.close)
        self._pods = Reflector(self.api, PODS, slim=_raw, changed=self._changed)
        kubelet = asyncio.create_task(self._pods.run())
        self._stack.callback(kubelet.cancel)
        await self._join()
        await self._start_manager()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await self._stack.aclose()

    # -- what is there ---------------------------------------------------------------------------

    async def _install(self) -> None:
        for file in sorted(_CRDS.glob("*.yaml")):
            await self.api.create(CUSTOM_RESOURCES, yaml.safe_load(file.read_text("utf-8")))
        for namespace in (SYSTEM, TRAINING):
            await self.api.create(NAMESPACES, {"metadata": {"name": namespace}})
            await self.api.create(_ACCOUNTS, {"metadata": {"name": "default"}}, namespace)
        room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        for name in self.nodes:
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
            await self.api.create(NODES, {"metadata": {"name": name, "labels": labels}})
            # The node controller takes this taint off a ready node; here there is none.
            await self.api.patch(NODES, name, None, {"spec": {"taints": None}}, form="merge")
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
            status = {"allocatable": room, "capacity": room, "conditions": [ready]}
            await self.api.patch(NODES, name, None, {"status": status}, form="merge", subresource="status")

    async def _join(self) -> None:
        """Start the other controllers of this cluster, before our manager comes to it."""

    def _reviewed(self, about: WebhookSettings) -> Object:
        """Return what the API server asks our manager about before it creates it."""
        return webhook_configuration(about, None)

    async def _reached_at(self) -> tuple[str, str]:
        """Return the addresses of the manager's webhook and of its reports."""
        ports = self.manager.port, self.manager.reports_port
        return f"https://127.0.0.1:{ports[0]}", f"https://127.0.0.1:{ports[1]}"

    async def _start_manager(self) -> None:
        self.manager = LiveManager("first", "127.0.0.1", self._folder)
        self._urls = await self._reached_at()
        about = WebhookSettings(name="specon", namespace=SYSTEM, service="specon", url=self._urls[0])
        await self.api.create(MUTATING_WEBHOOKS, self._reviewed(about))
        await self.intercept(about)
        config = self._folder / "config.yaml"
        config.write_text(yaml.safe_dump(self._decisions))
        self._begin(self.manager)
        self._stack.callback(self.manager.stop)
        await self.eventually(self.manager.ready, "the manager is ready")

        async def leads() -> bool:
            try:
                return bool((await self.api.get(LEASES, "specon-manager", SYSTEM))["spec"]["holderIdentity"])
            except ApiError:
                return False

        await self.eventually(leads, "it leads")
        await self.eventually(self._known, "its authorities are known")

    def _begin(self, manager: LiveManager) -> None:
        webhook, reports = self._urls
        manager.start(
            [
                f"--config={self._folder / 'config.yaml'}",
                f"--kubeconfig={self.config}",
                f"--namespace={SYSTEM}",
                f"--webhook-url={webhook}",
                f"--reports-url={reports}",
                f"--page-listen=127.0.0.1:{free_port()}",
            ]
        )

    def config_of(self, user: str) -> Path:
        """Return a kubeconfig by which a client of Go is this user, who may do everything."""
        whole = json.loads(self.config.read_text())
        whole["users"][0]["user"] |= {"as": user, "as-groups": ["system:masters"]}
        path = self._folder / f"kubeconfig-{user}"
        path.write_text(json.dumps(whole))
        return path

    async def intercept(self, about: WebhookSettings, *, on: bool = True) -> None:
        """Have evictions reviewed, or not."""
        if on:
            await self.api.create(VALIDATING_WEBHOOKS, eviction_webhook(about, None))
        else:
            await self.api.delete(VALIDATING_WEBHOOKS, about.name)

    async def _known(self) -> bool:
        found = await self.api.get(VALIDATING_WEBHOOKS, "specon")
        return bool(found["webhooks"][0]["clientConfig"].get("caBundle"))

    async def train(self, name: str, number: int, **options: str) -> list[str]:
        """Create so many StatefulSets of one trainer; return their replicas once all of them report.

        `options` are more annotations of specon's, such as `instrument="true"`.
        """
        names = [f"{name}-{index}" for index in range(number)]
        for each in names:
            template = training_template(each)
            template["metadata"]["annotations"] |= annotated(**options)
            template["spec"] |= {"restartPolicy": "Always", "serviceAccountName": "default"}
            selector = {"matchLabels": {"job": each}}
            spec = {"replicas": 1, "serviceName": each, "selector": selector, "template": template}
            await self.api.create(STATEFUL_SETS, {"metadata": {"name": each}, "spec": spec}, TRAINING)
        replicas = [f"{TRAINING}/{each}/worker/0" for each in names]

        async def all_train() -> bool:
            return all(self.sidecars.last.get(replica, 0) > 0 for replica in replicas)

        await self.eventually(all_train, "all of them train", seconds=120)
        return replicas

    # -- what a kubelet does ---------------------------------------------------------------------

    def _changed(self, change: ObjectChange[_Pod]) -> None:
        before = None if change.before is None else change.before.raw
        after = None if change.after is None else change.after.raw
        for told in self.sidecars._cluster.store.written:
            told(FAKE_PODS, Entry(0, before, after))  # type: ignore[call-arg]
        if after is None or not after["spec"].get("nodeName"):
            return
        metadata, phase = after["metadata"], (after.get("status") or {}).get("phase")
        if metadata.get("deletionTimestamp") and metadata["uid"] not in self._ended:
            self._ended.add(metadata["uid"])
            self._spawn(self._end(after))
        elif phase == "Pending" and not metadata.get("deletionTimestamp"):
            self._spawn(self._run(after))

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, pod: Object) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = _status(pod, "Running", {"running": {"startedAt": now}}, ready=True)
        await self._write(pod, {**status, "startTime": now})

    async def _end(self, pod: Object) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        over = {"terminated": {"exitCode": 143, "reason": "Error", "finishedAt": now}}
        await self._write(pod, _status(pod, "Failed", over, ready=False))
        metadata = pod["metadata"]
        with contextlib.suppress(ApiError):
            await self.api.delete(
                PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"], grace_seconds=0
            )

    async def _write(self, pod: Object, status: Object) -> None:
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        with contextlib.suppress(ApiError):
            await self.api.patch(
                PODS, metadata["name"], metadata["namespace"], body, form="strategic", subresource="status"
            )

    def _issue(self, namespace: str, account: str, request: Object) -> Object:
        """Ask for the token that the kubelet projects."""
        url = f"{self.endpoint.url}/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        asked = urllib.request.Request(
            url,
            data=json.dumps({**kind, **request}).encode(),
            headers={"Authorization": f"Bearer {self.endpoint.token}", "Content-Type": "application/json"},
        )
        assert isinstance(self.endpoint.tls, ssl.SSLContext)
        with urllib.request.urlopen(asked, context=self.endpoint.tls, timeout=10) as answer:
            found: Object = json.loads(answer.read())
        return found

    # -- what is seen ----------------------------------------------------------------------------

    async def run(self, *command: str) -> tuple[int, str]:
        """Run a program, and return its exit status and what it said."""
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        said, _ = await process.communicate()
        return process.returncode or 0, said.decode()

    def on_node(self, node: str) -> list[Object]:
        """Return the training pods of a node."""
        return [
            each.raw
            for each in self._pods.items.values()
            if each.raw["spec"].get("nodeName") == node and each.raw["metadata"]["namespace"] == TRAINING
        ]

    async def wishes(self) -> list[Object]:
        """Return the Migrations that evictions were turned into."""
        found, _ = await self.api.list(MIGRATIONS, TRAINING)
        return [each for each in found if each["metadata"]["name"].startswith("evict-")]

    async def eventually(self, look: Any, what: str, *, seconds: float = 60.0) -> None:
        """Wait until it is so."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while not await look():
            self.manager.check_alive()
            assert loop.time() < until, f"not within {seconds:g} s: {what}\n{self.manager.tail}"
            await asyncio.sleep(0.2)


def _raw(pod: Object) -> _Pod:
    return _Pod(pod["metadata"]["uid"], pod)


def _status(pod: Object, phase: str, state: Object, *, ready: bool) -> Object:
    def of(container: Object) -> Object:
        about = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
        return {**about, "ready": ready, "started": ready, "state": state}

    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    word = "True" if ready else "False"
    spec = pod["spec"]
    return {
        "phase": phase,
        "conditions": [
            {"type": each, "status": word, "lastTransitionTime": now} for each in ("Ready", "ContainersReady")
        ],
        "initContainerStatuses": [of(each) for each in spec.get("initContainers") or []],
        "containerStatuses": [of(each) for each in spec["containers"]],
    }
