"""The chart as a user installs it on a real cluster: managers in pods, beside the jobs of `LiveStage`."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import (
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    Object,
    Resource,
)
from support.kube.front import Front
from support.live.helm_release import Release
from support.live.jobs import script
from support.live.settings import LiveSettings
from support.live.stage import MOVES_NOTHING, LiveStage

RELEASE: Final = "specon"
LEADER: Final = "specon.io/leader"
_CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
_PORT: Final = 9443
_RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}
_OURS: Final = "app.kubernetes.io/name=specon"


class ChartStage(LiveStage):
    """One test's release and jobs; everything is removed by `close`.

    Set in the environment, beside what `LiveStage` needs:
    SPECON_E2E_MANAGER_IMAGE   of manager/Dockerfile (default: specon/manager:0.2.0)
    SPECON_E2E_NO_SERVICES     1 where pods reach no Service by name: reports go by way of this machine
    """

    def __init__(self, api: Api, settings: LiveSettings, folder: Path) -> None:
        """Prepare; raises NotAllowedError where there is no helm."""
        super().__init__(api, settings, folder)
        self.release = Release(RELEASE, self.system, settings.kubeconfig, folder)
        self._around = Front(self._leader)
        self._reports_url = ""

    async def open(self) -> None:
        """Make the namespaces and the volume; the chart is not installed yet."""
        await self._check_nodes()
        for name in (self.namespace, self.system):
            labels = {"specon-e2e": self.namespace, **(_RESTRICTED if name == self.system else {})}
            await self.api.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        await self.api.create(_CONFIG_MAPS, script(), self.namespace)
        await self._make_volume()
        if os.environ.get("SPECON_E2E_NO_SERVICES"):
            port = await self._around.start(self.settings.address)
            self._reports_url = f"https://{self.settings.address}:{port}"
        await self.in_volume("import os; os.chmod('/volume', 0o777)")

    async def close(self) -> None:
        """Remove everything, the release first."""
        async with contextlib.AsyncExitStack() as last:
            last.push_async_callback(super().close)
            last.push_async_callback(self._around.stop)
            last.push_async_callback(self.release.uninstall)

    def values(self, decisions: Mapping[str, Any] = MOVES_NOTHING, **more: Any) -> dict[str, Any]:
        """Return values for the chart: these decisions, the images and nodes of the tests."""
        manager, sidecar = (
            _image(name)
            for name in (
                os.environ.get("SPECON_E2E_MANAGER_IMAGE", "specon/manager:0.2.0"),
                self.settings.sidecar_image,
            )
        )
        arguments = [f"--reports-url={self._reports_url}"] if self._reports_url else []
        return {
            "image": manager,
            "sidecar": {"image": sidecar},
            "nodeSelector": dict(self.settings.node_selector),
            "watchNamespaces": [self.namespace],
            "settings": {**decisions, "progress_seconds": 1},
            "extraArguments": arguments,
            **more,
        }

    async def install(self, values: Mapping[str, Any] | None = None) -> str:
        """Install the chart and wait until pods get a sidecar; return its notes."""
        notes = await self.release.install(self.values() if values is None else values)
        await self.eventually(self.leading, "a manager leads")
        await self.eventually(self._injects, "the webhook is called")
        return notes

    async def pods_of_managers(self) -> list[Object]:
        """Return the managers' pods that are not being deleted, in the order of their names."""
        found, _ = await self.api.list(PODS, self.system, label_selector=_OURS)
        found = [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    async def leading(self) -> Object | None:
        """Return the pod that has both the Lease and the label by which reports find it; None for none."""
        holder = await self.holder()
        return next(
            (
                pod
                for pod in await self.pods_of_managers()
                if holder.startswith(f"{pod['metadata']['name']}_")
                and pod["metadata"]["labels"].get(LEADER) == "true"
            ),
            None,
        )

    async def holder(self) -> str:
        """Return whom the Lease names; empty for nobody."""
        lease = await self.found(LEASES, RELEASE, self.system)
        return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")

    async def webhook(self) -> Object | None:
        """Return the configuration of the webhook."""
        return await self.found(MUTATING_WEBHOOKS, f"{self.system}-{RELEASE}", None)

    async def _leader(self) -> list[tuple[str, int]]:
        found, _ = await self.api.list(PODS, self.system, label_selector=f"{LEADER}=true")
        return [(pod["status"]["podIP"], _PORT) for pod in found if (pod.get("status") or {}).get("podIP")]


def _image(name: str) -> dict[str, str]:
    repository, _, tag = name.rpartition(":")
    return {"repository": repository, "tag": tag}
