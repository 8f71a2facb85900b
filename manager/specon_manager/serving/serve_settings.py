"""What `specon serve` is told: flags for what differs between installations, a file for the decisions."""

import argparse
import os
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, field

from specon_manager.backends.kube.admission.instrumentation import HelperVolume
from specon_manager.backends.kube.interception.desk import InterceptionSettings
from specon_manager.backends.kube.kueue.decision import PreemptionGateSettings
from specon_manager.backends.kube.kueue.standing import KueueMoveSettings
from specon_manager.core.given_settings import convert, describe_no_yaml, read_settings
from specon_manager.model.settings import Deadlines, Settings
from specon_manager.usage import UsageError

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_HIGHEST_PORT: Final = 65535

CLUSTER_DEFAULTS: Final = Settings(
    deadlines=Deadlines(start=300, hold=300, checkpoint=600, eviction_margin=60, verify=900, ready=900),
    starvation=6 * 3600,
)
"""Images are pulled, volumes detached and schedulers asked: all of it takes longer than on one machine.

A job that waits for six hours comes before whatever the policy would prefer.
"""

Signal = Literal["pod-deletion-cost", "eviction-cost", "priority-boost", "do-not-disrupt", "safe-to-evict"]


class SidecarImage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The container that the webhook adds."""

    image: Annotated[str, Meta(min_length=1, max_length=512)] = "docker.io/specon/sidecar:0.2.0"
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    resources: Mapping[str, Mapping[str, str]] = field(
        default_factory=lambda: {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            "limits": {"cpu": "200m", "memory": "192Mi"},
        }
    )
    heartbeat: Annotated[float, Meta(ge=0.1, le=3600)] = 10.0
    """Seconds between two reports when nothing changes."""
    status_port: Annotated[int, Meta(ge=0, le=65535)] = 28411
    """Of loopback, where sidecars take reports for Kubeflow Trainer; 0: they take none."""
    helper_volume: HelperVolume = "emptyDir"
    """What brings the helper to instrumented trainers: `image` needs image volumes (Kubernetes 1.35)."""


class ListenAddress(Struct, frozen=True):
    """Where a server listens."""

    host: str
    port: int


class ServeSettings(Struct, frozen=True, kw_only=True):
    """Everything that `specon serve` is told."""

    decisions: Settings
    sidecar: SidecarImage
    hold_room: bool
    """Whether room on the target is held by a placeholder pod, which pulls the image there as well."""
    signals: tuple[Signal, ...]
    progress_seconds: float
    """How often a replica's step and loss are written to its TrainingProgress when nothing else changes."""
    kubeconfig: Path | None
    context: str | None
    namespace: str
    watch_namespaces: tuple[str, ...]
    """Where pods are looked after; empty: everywhere."""
    lease_name: str
    listen: ListenAddress
    """Where the API server asks for admission."""
    reports_listen: ListenAddress
    """Where sidecars report, and owners read the state."""
    metrics_listen: ListenAddress
    webhook_service: str
    webhook_url: str | None
    """Where the API server reaches the webhook when the manager does not run in the cluster."""
    reports_service: str
    reports_url: str | None
    webhook_configuration: str
    certificates: Literal["self", "cert-manager", "provided"]
    certificate_secret: str
    certificate_directory: Path
    placeholder_priority_class: str | None
    guard_priority_class: str | None
    identity: str
    interception: InterceptionSettings = InterceptionSettings()
    """Whether evictions by others are answered, and become moves."""
    preemption_gate: PreemptionGateSettings = PreemptionGateSettings()
    """Whether Kueue's Workloads wait for checkpoints of those whom they would preempt."""
    kueue_moves: KueueMoveSettings = KueueMoveSettings()
    """Whether jobs in Kueue's queues are moved, by their Workloads."""
    reweight: bool = True
    """Whether processors of converged replicas are lowered in place, where the API server can do that."""
    train_job_status: bool = False
    """Whether `status.trainerStatus` of TrainJobs is written where their trainer says nothing."""
    log_streams: int = 0
    """Of how many pods the standard output is relayed at once (`specon.io/log-path: stdout`); 0: of none."""
    forecasts: bool = True
    """Whether jobs that wait are told when they start, by a process beside the manager's."""
    page_listen: ListenAddress | None = None
    """Where the status page is served, without TLS; None: nowhere."""


_FILE_KEYS: Final[Mapping[str, Any]] = {
    "sidecar": SidecarImage,
    "hold_room": bool,
    "reweight": bool,
    "forecasts": bool,
    "signals": tuple[Signal, ...],
    "train_job_status": bool,
    "log_streams": Annotated[int, Meta(ge=0, le=10_000)],
    "interception": InterceptionSettings,
    "preemption_gate": PreemptionGateSettings,
    "kueue_moves": KueueMoveSettings,
    "progress_seconds": Annotated[float, Meta(ge=1, le=86400)],
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help="policy, budgets, deadlines, sidecar; docs/kubernetes.md")
    add(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="reach the API server as this file says (default: in-cluster)",
    )
    add("--context", help="context of the kubeconfig (its current one)")
    add("--namespace", help="where the Lease and the Secret are (the pod's own, else specon)")
    add(
        "--watch-namespaces", default="", metavar="A,B", help="look after pods of these namespaces only (all)"
    )
    add("--lease-name", default="specon-manager", help="Lease by which one manager leads")
    add(
        "--listen", default="0.0.0.0:8443", metavar="HOST:PORT", help="HTTPS: the webhook, for the API server"
    )
    add("--reports-listen", default="0.0.0.0:9443", metavar="HOST:PORT", help="HTTPS: reports of sidecars")
    add(
        "--metrics-listen",
        default="0.0.0.0:8080",
        metavar="HOST:PORT",
        help="HTTP: /metrics /healthz /readyz",
    )
    add(
        "--page-listen",
        default="127.0.0.1:8081",
        metavar="HOST:PORT",
        help="HTTP: the status page, for kubectl port-forward; empty for none",
    )
    add(
        "--webhook-service",
        default="specon-webhook",
        help="Service of the webhook: a name in the certificate",
    )
    add("--webhook-url", metavar="URL", help="base URL of the webhook for a manager outside the cluster")
    add("--reports-service", default="specon-reports", help="Service to which sidecars report")
    add("--reports-url", metavar="URL", help="base URL to which sidecars report (that Service's)")
    add(
        "--webhook-configuration",
        default="specon",
        help="MutatingWebhookConfiguration whose CA is kept current",
    )
    add(
        "--certificates",
        default="self",
        choices=("self", "cert-manager", "provided"),
        help="who makes them (self)",
    )
    add("--certificate-secret", default="specon-certificates", help="Secret of the certificates")
    add(
        "--certificate-directory",
        type=Path,
        default=Path("/etc/specon/tls"),
        metavar="DIR",
        help="tls.crt, tls.key, ca.crt where they are not made here",
    )
    add(
        "--dry-run",
        action="store_true",
        help="judge and tell what the policy proposes, and order nothing",
    )
    add("--placeholder-priority-class", metavar="NAME", help="PriorityClass of the pods that hold room")
    add(
        "--guard-priority-class",
        metavar="NAME",
        help="PriorityClass of the pods that keep room from others while a job moves; above that of jobs",
    )
    add("--identity", help="name of this manager in the Lease (the host's name)")


def read_serve_settings(arguments: argparse.Namespace) -> ServeSettings:
    """Return the settings; raises UsageError with every mistake, each naming the field and the value."""
    mistakes: list[str] = []
    content = _content(arguments.config)
    decisions = read_settings(content, mistakes, beside=tuple(_FILE_KEYS), defaults=CLUSTER_DEFAULTS)
    if arguments.dry_run:
        decisions = msgspec.structs.replace(decisions, dry_run=True)
    given = {
        key: value
        for key, kind in _FILE_KEYS.items()
        if (value := convert(content.get(key, UNSET), kind, key, mistakes)) is not UNSET
    }
    namespace = arguments.namespace or _own_namespace()
    namespaces = tuple(name for name in arguments.watch_namespaces.split(",") if name)
    for flag, value, pattern in (
        ("--namespace", namespace, _LABEL),
        *(("--watch-namespaces", name, _LABEL) for name in namespaces),
        ("--lease-name", arguments.lease_name, _NAME),
        ("--webhook-service", arguments.webhook_service, _LABEL),
        ("--reports-service", arguments.reports_service, _LABEL),
        ("--webhook-configuration", arguments.webhook_configuration, _NAME),
        ("--certificate-secret", arguments.certificate_secret, _NAME),
    ):
        if pattern.fullmatch(value) is None:
            mistakes.append(f"{flag}: {value!r} is not a name in Kubernetes")
    for flag, url in (("--webhook-url", arguments.webhook_url), ("--reports-url", arguments.reports_url)):
        if url is not None and not url.startswith("https://"):
            mistakes.append(f"{flag}: {url!r} does not begin with https://")
    listen = _try("--listen", read_address, arguments.listen, mistakes)
    reports_listen = _try("--reports-listen", read_address, arguments.reports_listen, mistakes)
    metrics_listen = _try("--metrics-listen", read_address, arguments.metrics_listen, mistakes)
    page = (
        _try("--page-listen", read_address, arguments.page_listen, mistakes)
        if arguments.page_listen
        else None
    )
    if mistakes or listen is None or reports_listen is None or metrics_listen is None:
        raise UsageError("\n".join(mistakes))
    return ServeSettings(
        decisions=decisions,
        sidecar=given.get("sidecar", SidecarImage()),
        hold_room=given.get("hold_room", True),
        interception=given.get("interception", InterceptionSettings()),
        preemption_gate=given.get("preemption_gate", PreemptionGateSettings()),
        kueue_moves=given.get("kueue_moves", KueueMoveSettings()),
        reweight=given.get("reweight", True),
        signals=given.get("signals", ()),
        train_job_status=given.get("train_job_status", False),
        log_streams=given.get("log_streams", 0),
        progress_seconds=given.get("progress_seconds", 60.0),
        kubeconfig=arguments.kubeconfig,
        context=arguments.context,
        namespace=namespace,
        watch_namespaces=namespaces,
        lease_name=arguments.lease_name,
        listen=listen,
        reports_listen=reports_listen,
        metrics_listen=metrics_listen,
        webhook_service=arguments.webhook_service,
        webhook_url=arguments.webhook_url,
        reports_service=arguments.reports_service,
        reports_url=arguments.reports_url,
        webhook_configuration=arguments.webhook_configuration,
        certificates=arguments.certificates,
        certificate_secret=arguments.certificate_secret,
        certificate_directory=arguments.certificate_directory,
        placeholder_priority_class=arguments.placeholder_priority_class or None,
        guard_priority_class=arguments.guard_priority_class or None,
        # Two processes of one name would take each other's Lease for their own.
        identity=f"{arguments.identity or os.environ.get('POD_NAME') or socket.gethostname()}_{token_hex(4)}",
        page_listen=page,
    )


def read_decisions(path: Path | None) -> Settings:
    """Return what of a configuration file is about decisions; raises UsageError with every mistake."""
    mistakes: list[str] = []
    decisions = read_settings(_content(path), mistakes, beside=tuple(_FILE_KEYS), defaults=CLUSTER_DEFAULTS)
    if mistakes:
        raise UsageError("\n".join(mistakes))
    return decisions


def _content(path: Path | None) -> Mapping[str, Any]:
    if path is None:
        return {}
    import yaml  # noqa: PLC0415 - these settings are imported where no file of them is read

    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"--config: {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"--config: {path}: not YAML: {describe_no_yaml(error)}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UsageError(f"--config: {path}: must be a mapping, not {type(content).__name__}")
    return content


def _own_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text("utf-8").strip() or "specon"
    except OSError:
        return "specon"


def read_address(text: str) -> ListenAddress:
    """Return the address in `HOST:PORT`; raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > _HIGHEST_PORT:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return ListenAddress(host.strip("[]") or "0.0.0.0", int(port))  # noqa: S104  (a pod's server)


def _try(
    flag: str, read: Callable[[str], ListenAddress], text: str, mistakes: list[str]
) -> ListenAddress | None:
    try:
        return read(text)
    except ValueError as error:
        mistakes.append(f"{flag}: {error}")
        return None
