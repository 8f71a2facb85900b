"""The cluster that a user points the marked tests at, and the guard against the wrong one."""

import base64
import os
import ssl
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from support.kube.client import Endpoint

_LOCAL = {"127.0.0.1", "localhost", "::1"}


class WrongContextError(Exception):
    """The context is not one that tests may change."""


def endpoint(path: Path) -> Endpoint:
    """Return the server of a kubeconfig's current context.

    Raises WrongContextError unless it is on this machine, or ALLOW_CONTEXT is its name.
    """
    document = yaml.safe_load(path.read_text())
    name = document.get("current-context", "")
    context = _named(document, "contexts", name)["context"]
    cluster = _named(document, "clusters", context["cluster"])["cluster"]
    user = _named(document, "users", context["user"]).get("user") or {}
    host = urlsplit(cluster["server"]).hostname
    if host not in _LOCAL and os.environ.get("ALLOW_CONTEXT") != name:
        raise WrongContextError(
            f"context {name!r} is at {host}, not on this machine: "
            f"set ALLOW_CONTEXT={name} to let tests change it"
        )
    return Endpoint(cluster["server"].rstrip("/"), _tls(cluster, user), user.get("token", ""), name)


def _named(document: dict[str, Any], group: str, name: str) -> dict[str, Any]:
    for entry in document.get(group) or []:
        if entry["name"] == name:
            found: dict[str, Any] = entry
            return found
    raise WrongContextError(f"the kubeconfig has no {name!r} under {group}")


def _tls(cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext | bool:
    if cluster["server"].startswith("http:"):
        return True
    data = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(
        cafile=cluster.get("certificate-authority"), cadata=base64.b64decode(data).decode() if data else None
    )
    if "client-certificate-data" in user:
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            certificate.write_bytes(base64.b64decode(user["client-certificate-data"]))
            key.write_bytes(base64.b64decode(user["client-key-data"]))
            context.load_cert_chain(certificate, key)
    elif "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    return context
