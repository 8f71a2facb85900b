"""An API server with a large cluster in it, for `cluster.py`; run in a process of its own.

It is the in-process server of the tests, without controllers: nothing happens but what it is told to. Its
arguments are a directory and the numbers of nodes, of jobs of one pod each, and of pods of other people. It
prints its URL once everything is there; a line on standard input is an order, and gets one answer.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from cluster_messages import Answer, Order
from cluster_objects import NAMESPACE, Object, Templates, job_names, progress_of, replica_of, uid_of_pod
from fakekube import schemas
from fakekube.clock import Clock
from fakekube.faults import Faults
from fakekube.kinds import (
    BUILT_IN_KINDS,
    JOBS,
    MIGRATIONS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    OPTIONAL_KINDS,
    OWN_KINDS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    TRAINING_PROGRESSES,
    Kind,
)
from fakekube.machinery import Machinery
from fakekube.server import Server
from fakekube.store import Entry, Store, key_of
from fakekube.tokens import Tokens
from fakekube.webhooks import Webhooks
from specon_manager.backends.kube.admission.sidecar_container import AUDIENCE
from specon_manager.backends.kube.certificates.bundle import dns_names, make_bundle, to_secret_data

OWN_NAMESPACE: Final = "specon"
_DEFINITIONS: Final = Path(__file__).parents[1] / "charts" / "specon" / "crds"
_AT_ONCE: Final = 250


class SharingStore(Store):
    """A store whose objects may have parts in common."""

    def seed(self, kind: Kind, value: Object) -> None:
        """Take an object in as it is, as the newest."""
        self.revision += 1
        metadata = {**value["metadata"], "resourceVersion": str(self.revision)}
        kept = {**value, "metadata": metadata}
        key = key_of(kept)
        before = self._objects.setdefault(kind, {}).get(key)
        self._objects[kind][key] = kept
        self._append(kind, Entry(self.revision, before, kept))


class Cluster:
    """The server and its objects."""

    def __init__(self, directory: Path, nodes: int, jobs: int, others: int) -> None:
        self._directory = directory
        self._store = SharingStore()
        clock = Clock()
        self._tokens = Tokens(self._store, clock)
        machinery = Machinery(self._store, clock)
        kinds = [*BUILT_IN_KINDS, *OWN_KINDS, *OPTIONAL_KINDS]
        definitions = schemas.read(_DEFINITIONS)
        machinery.schemas = {kind: definitions[kind.plural] for kind in (TRAINING_PROGRESSES, MIGRATIONS)}
        self.server = Server(machinery, self._tokens, Faults(), kinds, Webhooks(self._store))
        services = dns_names(("specon-webhook", "specon-reports"), OWN_NAMESPACE)
        self._bundle = make_bundle(services, datetime.now(UTC))
        self._templates = Templates(self._bundle.trusted)
        self._nodes = [f"node-{number:04d}" for number in range(nodes)]
        self._placed, self._jobs = 0, jobs
        self._fill(jobs, others)

    def _fill(self, jobs: int, others: int) -> None:
        seed = self._store.seed
        for name in ("default", NAMESPACE, OWN_NAMESPACE):
            metadata = {"name": name, "uid": name}
            seed(NAMESPACES, {"kind": "Namespace", "apiVersion": "v1", "metadata": metadata})
        account = {"name": "default", "namespace": NAMESPACE, "uid": "account"}
        seed(SERVICE_ACCOUNTS, {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": account})
        metadata = {"name": "specon-certificates", "namespace": OWN_NAMESPACE, "uid": "certificates"}
        metadata["labels"] = {"app.kubernetes.io/managed-by": "specon"}
        secret = {"kind": "Secret", "apiVersion": "v1", "type": "kubernetes.io/tls", "metadata": metadata}
        seed(SECRETS, {**secret, "data": to_secret_data(self._bundle)})
        webhook = {"kind": "MutatingWebhookConfiguration", "apiVersion": MUTATING_WEBHOOKS.api_version}
        seed(MUTATING_WEBHOOKS, {**webhook, "metadata": {"name": "specon", "uid": "webhook"}, "webhooks": []})
        for name in self._nodes:
            seed(NODES, self._templates.node(name))
        now = time.time()
        speakers = []
        for name in job_names(jobs):
            node = self._place()
            seed(JOBS, self._templates.job(name))
            pod = self._templates.pod(name, node)
            seed(PODS, pod)
            seed(TRAINING_PROGRESSES, progress_of(name, node, now))
            speakers.append((replica_of(name), uid_of_pod(name), self._token(pod)))
        for number in range(others):
            seed(PODS, self._templates.other(f"other-{number:05d}", self._place()))
        self._store.compact()
        (self._directory / "speakers.json").write_text(json.dumps(speakers))

    def pod_bytes(self) -> int:
        """Return the size of a pod that runs, as JSON."""
        return len(msgspec.json.encode(self._templates.pod("resnet-00000", "node-0000")))

    async def carry_out(self, order: Order) -> Answer:
        """Create the ordered objects, as fast as its watchers are served."""
        began_at = time.monotonic()
        if order.create:
            names = list(job_names(order.create, first=self._jobs))
            self._jobs += order.create
            for number, name in enumerate(names, 1):
                self._store.seed(JOBS, self._templates.job(name))
                self._store.seed(PODS, self._templates.pod(name))
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
            for number, name in enumerate(names, 1):
                self._store.seed(PODS, self._templates.pod(name, self._place()))
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
        counted = Counter(f"{method} {_resource(url)}" for method, url in self.server.requests)
        return Answer(requests=dict(counted), began_at=began_at, done_at=time.monotonic())

    def _place(self) -> str:
        self._placed += 1
        return self._nodes[self._placed % len(self._nodes)]

    def _token(self, pod: Object) -> str:
        bound = {"kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        spec = {"audiences": [AUDIENCE], "expirationSeconds": 3600, "boundObjectRef": bound}
        issued = self._tokens.issue(NAMESPACE, "default", {"spec": spec})
        return str(issued["status"]["token"])


def _resource(url: str) -> str:
    path, _, query = url.partition("?")
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    verb = " watch" if "watch=" in query else ""
    return f"{parts[0] if parts else 'discovery'}{'/' + parts[2] if len(parts) > 2 else ''}{verb}"


async def main() -> None:
    """Serve until standard input ends."""
    directory, nodes, jobs, others = sys.argv[1:]
    cluster = Cluster(Path(directory), int(nodes), int(jobs), int(others))
    await cluster.server.open()
    print(json.dumps({"url": cluster.server.url, "pod_bytes": cluster.pod_bytes()}), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        answer = await cluster.carry_out(msgspec.json.decode(line, type=Order))
        print(msgspec.json.encode(answer).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
