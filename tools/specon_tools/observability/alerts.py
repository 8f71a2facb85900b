"""Alert rules for Prometheus; what to do about each is in docs/runbooks.md, under the name of the alert."""

from typing import Any, Final, Literal

import yaml
from msgspec import Struct

from specon_manager.runtime.report_metrics import SILENT_SECONDS

_HOURS: Final = 3600


class Alert(Struct, frozen=True, kw_only=True):
    """One rule."""

    name: str
    expr: str
    lasting: str
    """How long the expression has to hold before somebody is told."""
    severity: Literal["critical", "warning"]
    summary: str
    description: str


ALERTS: Final = (
    Alert(
        name="SpeconMoveFailed",
        expr="sum by (policy, state) "
        '(increase(specon_transactions_total{kind="move",state=~"Failed|RolledBack"}[15m])) > 0',
        lasting="0s",
        severity="warning",
        summary="A move did not succeed",
        description="In the last 15 minutes a move of policy {{ $labels.policy }} ended as "
        "{{ $labels.state }}.",
    ),
    Alert(
        name="SpeconMovesStuck",
        expr='max(specon_oldest_transaction_age_seconds{kind="move"}) > 3600',
        lasting="5m",
        severity="critical",
        summary="A move does not end",
        description="The oldest move in flight was proposed {{ $value | humanizeDuration }} ago.",
    ),
    Alert(
        name="SpeconChangeFailed",
        expr="sum by (kind, state) "
        '(increase(specon_transactions_total{kind!="move",state=~"Failed|RolledBack"}[15m])) > 0',
        lasting="0s",
        severity="warning",
        summary="A job could not be changed",
        description="In the last 15 minutes a change of a job ({{ $labels.kind }}) ended as "
        "{{ $labels.state }}.",
    ),
    Alert(
        name="SpeconChangesStuck",
        expr='max(specon_oldest_transaction_age_seconds{kind!="move"}) > 3600',
        lasting="5m",
        severity="critical",
        summary="A change of a job does not end",
        description="The oldest admission, scaling or preemption in flight was proposed "
        "{{ $value | humanizeDuration }} ago.",
    ),
    Alert(
        name="SpeconTransactionStuck",
        expr="sum by (kind) (specon_stuck_transactions) > 0",
        lasting="2m",
        severity="critical",
        summary="A move or a change is stuck",
        description="{{ $value }} transactions ({{ $labels.kind }}) cannot end: "
        "specon moves --open and specon changes --open say why.",
    ),
    Alert(
        name="SpeconJobStarves",
        expr=f"max(specon_starvation_excess_seconds) > {_HOURS}",
        lasting="10m",
        severity="warning",
        summary="A job waits for too long",
        description="A job has waited for {{ $value | humanizeDuration }} longer than the starvation limit.",
    ),
    Alert(
        name="SpeconQueueOverQuota",
        expr="max by (queue) (specon_queue_over_quota) > 0",
        lasting="1h",
        severity="warning",
        summary="A queue uses more than its quota and may not borrow",
        description="Queue {{ $labels.queue }} uses more than its quota and may not borrow: "
        "none of its jobs starts until some have ended.",
    ),
    Alert(
        name="SpeconNoLeader",
        # A manager on one machine has no Lease and tells of no leader; `specon_paused` shows that it runs.
        expr="sum(specon_leader) == 0 or absent(specon_leader) unless on() specon_paused",
        lasting="2m",
        severity="critical",
        summary="No manager leads",
        description="No manager has the Lease: nobody decides, and sidecars retry later.",
    ),
    Alert(
        name="SpeconSidecarsSilent",
        expr="sum(specon_silent_replicas) > 0",
        lasting="5m",
        severity="warning",
        summary="Running replicas are silent",
        description=f"{{{{ $value }}}} running replicas sent no report for {SILENT_SECONDS:.0f} s and more.",
    ),
    Alert(
        name="SpeconJobsHung",
        expr="sum(specon_replicas_hung) > 0",
        lasting="1m",
        severity="warning",
        summary="Jobs hang",
        description="{{ $value }} running replicas make no steps, and their processes wait.",
    ),
    Alert(
        name="SpeconJobsDiverging",
        expr='sum(specon_replicas{category="diverging"}) > 0',
        lasting="10m",
        severity="warning",
        summary="Jobs diverge",
        description="The loss of {{ $value }} running replicas rises or is not a finite number.",
    ),
    Alert(
        name="SpeconCheckpointTooOld",
        expr=f"max by (job_namespace, job_name, replica) (specon_job_checkpoint_age_seconds) > {6 * _HOURS}",
        lasting="10m",
        severity="warning",
        summary="A checkpoint is too old",
        description="The newest checkpoint of {{ $labels.job_namespace }}/{{ $labels.job_name }} "
        "{{ $labels.replica }} is {{ $value | humanizeDuration }} old.",
    ),
    Alert(
        name="SpeconPlanTooSlow",
        expr="histogram_quantile(0.95, sum by (le) (rate(specon_plan_duration_seconds_bucket[10m]))) > 1",
        lasting="10m",
        severity="warning",
        summary="Planning is slow",
        description="In the last 10 minutes 5 % of the plans took {{ $value | humanizeDuration }} or more: "
        "reports and probes wait as long.",
    ),
    Alert(
        name="SpeconPodsNotInjected",
        expr="sum(specon_pods_not_injected) > 0",
        lasting="15m",
        severity="warning",
        summary="Pods have no sidecar",
        description="{{ $value }} pods asked for a sidecar and have none.",
    ),
    Alert(
        name="SpeconCertificateExpires",
        expr=f"min(specon_certificate_expiry_timestamp_seconds > 0) - time() < {7 * 24 * _HOURS}",
        lasting="1h",
        severity="critical",
        summary="The certificate of the webhook expires",
        description="It ends in {{ $value | humanizeDuration }} and was not renewed.",
    ),
)


def anchor(alert: str) -> str:
    """Return the anchor of the section on an alert in docs/runbooks.md."""
    return alert.lower()


def render() -> str:
    """Return the rules as Prometheus reads them."""
    rules: list[dict[str, Any]] = [
        {
            "alert": alert.name,
            "expr": alert.expr,
            "for": alert.lasting,
            "labels": {"severity": alert.severity},
            "annotations": {
                "summary": alert.summary,
                "description": alert.description,
                "runbook": f"docs/runbooks.md#{anchor(alert.name)}",
            },
        }
        for alert in ALERTS
    ]
    groups = {"groups": [{"name": "specon", "rules": rules}]}
    head = "# Written by python -m specon_tools.observability; tests keep it in step with the code.\n"
    return head + yaml.safe_dump(groups, sort_keys=False, width=1000, allow_unicode=True)
