"""A real manager of Kueue beside a real API server: its program, its definitions, its webhooks, unmodified.

KUEUE_ASSETS names a folder with the program `kueue` and the folder `config` of Kueue's own repository.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from specon_manager.backends.kube.certificates.bundle import Bundle, ca_bundle, make_bundle
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import (
    CUSTOM_RESOURCES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    VALIDATING_WEBHOOKS,
    Object,
)
from support.kube import server
from support.ports import free_port

SYSTEM = "kueue-system"
_CONVERTED = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")
_OWN = ("kueue.x-k8s.io",)
# Without its own authority it asks for the certificate of its metrics at this place, and at no other one. So
# it gets a folder of the test for its /etc.
_IN_OWN_ETC = 'mount --bind "$0" /etc && exec "$@"'


def assets() -> Path | None:
    """Return the folder with the program and its definitions; None without them."""
    place = os.environ.get("KUEUE_ASSETS", "")
    there = place and os.access(Path(place) / "kueue", os.X_OK) and shutil.which("unshare")
    return Path(place) if there else None


class RealKueue:
    """`install` it, and then let it be `running`."""

    def __init__(self, programs: Path, folder: Path, gates: Mapping[str, bool]) -> None:
        """Prepare, with these feature gates on or off."""
        self._components, self._program = programs / "config" / "components", programs / "kueue"
        self._folder, self._gates = folder, gates
        self._port, self._health = free_port(), free_port()
        self._bundle = make_bundle(["127.0.0.1"], datetime.now(UTC))
        self.log = folder / "kueue.log"

    async def install(self, api: Api) -> None:
        """Create its namespace, definitions and webhooks, as its deployment has them."""
        await api.create(NAMESPACES, {"metadata": {"name": SYSTEM}})
        for file in sorted((self._components / "crd" / "bases").glob("*.yaml")):
            definition = yaml.safe_load(file.read_text("utf-8"))
            if definition["spec"]["names"]["plural"] in _CONVERTED:
                client = self._client("/convert")
                webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
                definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
            await api.create(CUSTOM_RESOURCES, definition)
        for found in yaml.safe_load_all((self._components / "webhook" / "manifests.yaml").read_text("utf-8")):
            mutating = found["kind"].startswith("Mutating")
            found["metadata"] = {"name": f"kueue-{found['metadata']['name']}"}
            for hook in found["webhooks"]:
                hook["clientConfig"] = self._client(hook["clientConfig"]["service"]["path"])
                if not any(set(rule["apiGroups"]) <= set(_OWN) for rule in hook["rules"]):
                    hook["namespaceSelector"] = {"matchExpressions": [_ELSEWHERE]}
            await api.create(MUTATING_WEBHOOKS if mutating else VALIDATING_WEBHOOKS, found)

    @contextlib.contextmanager
    def running(self, kubeconfig: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Run it, and give its process."""
        config = self._folder / "kueue.yaml"
        config.write_text(yaml.safe_dump(self._configuration()))
        _write(self._bundle, self._folder / "kueue-webhook")
        etc = self._folder / "kueue-etc"
        _write(self._bundle, etc / "kueue" / "metrics" / "certs")
        inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _IN_OWN_ETC, str(etc)]
        command = [*inside, str(self._program), f"--kubeconfig={kubeconfig}", f"--config={config}"]
        with server.run_program([*command, "--zap-log-level=2"], self.log) as process:
            yield process

    async def ready(self) -> bool:
        """Whether it says that its webhooks are answered."""
        limit = aiohttp.ClientTimeout(total=2)
        url = f"http://127.0.0.1:{self._health}/readyz"
        try:
            async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    def _client(self, path: str) -> Object:
        return {"url": f"https://127.0.0.1:{self._port}{path}", "caBundle": ca_bundle(self._bundle)}

    def _configuration(self) -> dict[str, Any]:
        """Return its own configuration with our ports, one replica and one authority."""
        file = self._components / "manager" / "controller_manager_config.yaml"
        own = yaml.safe_load(file.read_text("utf-8"))
        return {
            **own,
            "namespace": SYSTEM,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {
                "host": "127.0.0.1",
                "port": self._port,
                "certDir": str(self._folder / "kueue-webhook"),
            },
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            # It would listen on a port of its own choice.
            "featureGates": {"VisibilityOnDemand": False, **self._gates},
        }


_ELSEWHERE = {
    "key": "kubernetes.io/metadata.name",
    "operator": "NotIn",
    "values": ["kube-system", SYSTEM],
}


def _write(bundle: Bundle, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "tls.crt").write_bytes(bundle.certificate)
    (folder / "tls.key").write_bytes(bundle.key)
