"""Installs permissions and webhook of the chart for a manager outside the cluster, with its service account.

So the tests run with the rights that the chart gives, and no more.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct

from specon_manager.backends.kube.admission.webhook import PATHS
from specon_manager.backends.kube.interception.webhook import PATH
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.resources import (
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    Object,
    Resource,
)
from support.packaging.helm import of_kind, render, the

_RBAC: Final = "rbac.authorization.k8s.io"
_KINDS: Final = (
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False),
    Resource("", "v1", "serviceaccounts", "ServiceAccount"),
    Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    Resource(_RBAC, "v1", "roles", "Role"),
    Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
)
_TOKEN: Final = "manager-token"
_TOKEN_TYPE: Final = "kubernetes.io/service-account-token"
_OURS: Final = ("--config=", "--identity=", "--listen=", "--reports-listen=", "--metrics-listen=")
"""Arguments of the chart that are other ones for a manager outside."""


class Installed(Struct, frozen=True, kw_only=True):
    """What the chart made, and what a manager is to be told of it."""

    arguments: tuple[str, ...]
    """Of the chart's Deployment, but for what differs outside a cluster."""
    cluster_wide: tuple[tuple[Resource, str], ...]
    """Objects that no namespace takes along when it is deleted."""


def rendered(system: str, namespace: str, values: Mapping[str, Any]) -> list[Object]:
    """Return the chart's objects for a manager in `system` that looks at `namespace` only."""
    return render({**values, "watchNamespaces": [namespace]}, f"--namespace={system}")


async def install(api: Api, objects: list[Object], *, system: str, webhook_url: str) -> Installed:
    """Create the chart's objects except its workload; admission is answered at `webhook_url`.

    The `token` of the service account is there a moment later.
    """
    cluster_wide = []
    for resource in _KINDS:
        for one in of_kind(objects, resource.kind):
            if resource in {MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS}:
                _redirect(one, webhook_url)
            if not resource.namespaced:
                cluster_wide.append((resource, one["metadata"]["name"]))
            await api.create(resource, one, one["metadata"].get("namespace"))
    (container,) = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    account = the(objects, "ServiceAccount")["metadata"]["name"]
    annotation = {"kubernetes.io/service-account.name": account}
    secret = {"metadata": {"name": _TOKEN, "annotations": annotation}, "type": _TOKEN_TYPE}
    await api.create(SECRETS, secret, system)
    return Installed(
        arguments=tuple(one for one in container["args"][1:] if not one.startswith(_OURS)),
        cluster_wide=tuple(cluster_wide),
    )


def _redirect(configuration: Object, url: str) -> None:
    for webhook in configuration["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        assert path in {*PATHS.values(), PATH}
        webhook["clientConfig"] = {"url": url + path}


async def token(api: Api, namespace: str) -> str | None:
    """Return the token of the manager's service account; None until the cluster has made it."""
    data = (await api.get(SECRETS, _TOKEN, namespace)).get("data") or {}
    return base64.b64decode(data["token"]).decode() if "token" in data else None


def write_kubeconfig(original: Path, token: str, folder: Path) -> Path:
    """Write a kubeconfig for the bearer of a token at the server of another one's current context."""
    document = yaml.safe_load(original.read_text("utf-8"))
    contexts = {one["name"]: one["context"] for one in document["contexts"]}
    clusters = {one["name"]: one["cluster"] for one in document["clusters"]}
    name = "manager"
    written = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": clusters[contexts[document["current-context"]]["cluster"]]}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    path = folder / "manager-kubeconfig.yaml"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(written), "utf-8")
    return path
