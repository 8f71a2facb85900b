"""`specon serve` as a process that manages a cluster in memory, with pods whose sidecars are scripted."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import yaml

from fakekube.cluster import FakeCluster
from fakekube.kinds import MUTATING_WEBHOOKS, NAMESPACES, PODS
from specon_manager.backends.kube.admission.webhook import WebhookSettings, webhook_configuration
from support.kube.scripted_sidecar import Sidecars
from support.live.manager import LiveManager

_HOST = "127.0.0.1"
_SYSTEM = "specon"
_SECONDS = 30.0
_LOOK_SECONDS = 0.1


class ScrapedCluster:
    """`async with ScrapedCluster(folder) as cluster`: a manager leads, and its webhook is called."""

    def __init__(self, folder: Path) -> None:
        self._cluster = FakeCluster(nodes=2)
        self._sidecars = Sidecars(self._cluster, folder)
        self._manager = LiveManager("manager", _HOST, folder)
        self._folder = folder
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._cluster)
            stack.push_async_callback(self._sidecars.close)
            url = f"https://{_HOST}:{self._manager.port}"
            self._cluster.webhooks.services[_SYSTEM, "specon-webhook"] = url
            for name in (_SYSTEM, "training"):
                labels = {"kubernetes.io/metadata.name": name}
                namespace = {"metadata": {"name": name, "labels": labels}}
                await self._cluster.machinery.create(NAMESPACES, "", namespace)
            about = WebhookSettings(name="specon", namespace=_SYSTEM, service="specon-webhook")
            await self._cluster.machinery.create(MUTATING_WEBHOOKS, "", webhook_configuration(about, None))
            config = self._folder / "serve.yaml"
            config.write_text(yaml.safe_dump({"tick": 0.5, "sidecar": {"image": "x", "heartbeat": 1}}))
            self._manager.start(
                [
                    f"--config={config}",
                    f"--kubeconfig={self._cluster.kubeconfig(self._folder / 'kubeconfig')}",
                    f"--namespace={_SYSTEM}",
                    f"--webhook-url={url}",
                    f"--reports-url=https://{_HOST}:{self._manager.reports_port}",
                    "--webhook-configuration=specon",
                ]
            )
            stack.push_async_callback(asyncio.to_thread, self._manager.stop)
            await self._until(self._webhook_works)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def metrics_port(self) -> int:
        return self._manager.metrics_port

    async def train(self, name: str) -> None:
        """Create a pod that asks for a sidecar."""
        annotations = {
            "specon.io/inject": "true",
            "specon.io/log-path": "/data/train.log",
            "specon.io/checkpoint-path": "/data/checkpoints",
        }
        container = {
            "name": "trainer",
            "image": "registry.example/train:1",
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        spec: dict[str, Any] = {
            "containers": [container],
            "volumes": [{"name": "data", "nfs": {"server": "nas", "path": "/data"}}],
            "restartPolicy": "Never",
        }
        metadata = {"name": name, "annotations": annotations}
        await self._cluster.machinery.create(PODS, "training", {"metadata": metadata, "spec": spec})

    def converge(self, name: str) -> None:
        """Have the sidecar of a pod say that its training has converged."""
        self._sidecars.converged.add(f"training/{name}/worker/0")

    def _webhook_works(self) -> bool:
        self._manager.check_alive()
        hooks = (self._cluster.store.get(MUTATING_WEBHOOKS, ("", "specon")) or {}).get("webhooks") or []
        return bool(hooks) and all(hook["clientConfig"].get("caBundle") for hook in hooks)

    async def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _SECONDS
        while not holds():
            assert time.monotonic() < deadline, self._manager.log.read_text()[-3000:]
            await asyncio.sleep(_LOOK_SECONDS)
