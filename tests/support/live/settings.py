"""On which cluster the end-to-end tests run, and with what; it must be allowed by name."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml
from msgspec import Struct

VARIABLES: Final = """
KUBECONFIG                   the cluster, by the current context of this file
ALLOW_CONTEXT                the name of that context: without it nothing is touched
SPECON_E2E_ADDRESS           an address of this machine that the API server and the pods reach
SPECON_E2E_HOST_PATH         a directory that all nodes share (a cluster on one machine), or
SPECON_E2E_STORAGE_CLASS     a storage class whose volumes several nodes can mount (ReadWriteMany)
SPECON_E2E_NODE_SELECTOR     label=value of the nodes to use; at least two (default: all)
SPECON_E2E_SIDECAR_IMAGE     of sidecar/Dockerfile (default: specon/sidecar:0.2.0)
HELM                         helm, unless it is in PATH: permissions and webhook are those of the chart
SPECON_E2E_TRAINER_IMAGE     any image with sh and python3 (default: python:3.11-slim)
SPECON_E2E_SAMPLES_IMAGE     of samples/Dockerfile; without it no gang is moved
CONTRACT_IMAGE               any image with sh; without it contract tests that run pods are skipped
"""
"""What can be set, for the reason of a skip and for the documentation."""


class NotAllowedError(Exception):
    """The tests must not, or cannot, run here; the text says why."""


class LiveSettings(Struct, frozen=True, kw_only=True):
    """A cluster to test on."""

    kubeconfig: Path
    context: str
    address: str
    node_selector: Mapping[str, str]
    host_path: str | None
    storage_class: str | None
    sidecar_image: str
    trainer_image: str


def read_live_settings(environment: Mapping[str, str] | None = None) -> LiveSettings:
    """Return what the environment says. Raises NotAllowedError."""
    given = os.environ if environment is None else environment
    kubeconfig = given.get("KUBECONFIG", "").split(os.pathsep)[0]
    if not kubeconfig:
        raise NotAllowedError(f"needs a cluster: KUBECONFIG is not set{VARIABLES}")
    context = _current_context(Path(kubeconfig))
    if given.get("ALLOW_CONTEXT") != context:
        raise NotAllowedError(
            f"the current context of {kubeconfig} is {context!r}, and ALLOW_CONTEXT does not name it: "
            f"{given.get('ALLOW_CONTEXT')!r}"
        )
    missing = [name for name in ("SPECON_E2E_ADDRESS",) if not given.get(name)]
    host_path, storage_class = given.get("SPECON_E2E_HOST_PATH"), given.get("SPECON_E2E_STORAGE_CLASS")
    if not host_path and not storage_class:
        missing.append("SPECON_E2E_HOST_PATH or SPECON_E2E_STORAGE_CLASS")
    if missing:
        raise NotAllowedError(f"{', '.join(missing)}: not set{VARIABLES}")
    return LiveSettings(
        kubeconfig=Path(kubeconfig),
        context=context,
        address=given["SPECON_E2E_ADDRESS"],
        node_selector=_labels(given.get("SPECON_E2E_NODE_SELECTOR", "")),
        host_path=host_path or None,
        storage_class=storage_class or None,
        sidecar_image=given.get("SPECON_E2E_SIDECAR_IMAGE", "specon/sidecar:0.2.0"),
        trainer_image=given.get("SPECON_E2E_TRAINER_IMAGE", "python:3.11-slim"),
    )


def _current_context(path: Path) -> str:
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
        return str(content["current-context"])
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise NotAllowedError(f"KUBECONFIG: {path}: no current context can be read: {error}") from error


def _labels(text: str) -> dict[str, str]:
    found = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise NotAllowedError(f"SPECON_E2E_NODE_SELECTOR: {part!r} is not label=value")
        found[key] = value
    return found
