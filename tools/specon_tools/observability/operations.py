"""The dashboard of the manager itself: who leads, what it hears, how fast it plans, what the API says."""

from typing import Final

from specon_tools.observability.headline import HEADLINE, MOVES
from specon_tools.observability.panels import (
    BAD,
    GOOD,
    NONE_IS_GOOD,
    WARNING,
    Dashboard,
    Panel,
    PanelRow,
    Query,
)

_DAY: Final = 86400.0

OPERATIONS: Final = Dashboard(
    uid="specon-operations",
    title="specon / Operations",
    text="Leadership, reports of sidecars, planning, the API server, the webhook.",
    annotations=(MOVES,),
    rows=(
        HEADLINE,
        PanelRow(
            "Managers",
            (
                Panel(
                    title="Leaders",
                    text="One, except for the seconds in which another manager takes over.",
                    kind="stat",
                    queries=(Query("sum(specon_leader)", "leaders"),),
                    width=6,
                    thresholds=((None, BAD), (1.0, GOOD), (2.0, WARNING)),
                ),
                Panel(
                    title="Webhook certificate expires in",
                    text="The leader renews it when a third of its time is left.",
                    kind="stat",
                    queries=(
                        Query("min(specon_certificate_expiry_timestamp_seconds > 0) - time()", "certificate"),
                    ),
                    unit="s",
                    width=6,
                    thresholds=((None, BAD), (7 * _DAY, WARNING), (14 * _DAY, GOOD)),
                ),
                Panel(
                    title="Pods without their sidecar",
                    text="They request a sidecar and have none: the webhook was away, or refused.",
                    kind="stat",
                    queries=(Query("sum(specon_pods_not_injected)", "pods"),),
                    width=6,
                    thresholds=NONE_IS_GOOD,
                ),
                Panel(
                    title="Replicas without series",
                    text="Replicas beyond the limit on series of single jobs.",
                    kind="stat",
                    queries=(Query("sum(specon_job_series_missing)", "replicas"),),
                    width=6,
                    thresholds=NONE_IS_GOOD,
                ),
                Panel(
                    title="Time of a plan",
                    text="Deadlines, policy and plan of one Tick.",
                    queries=tuple(
                        Query(
                            f"histogram_quantile({share}, sum by (le) "
                            "(rate(specon_plan_duration_seconds_bucket[$__rate_interval]))) >= 0",
                            legend,
                        )
                        for share, legend in (("0.5", "median"), ("0.99", "99th percentile"))
                    ),
                    unit="s",
                ),
                Panel(
                    title="Replicas by phase",
                    text="The phase of each replica.",
                    queries=(Query("sum by (phase) (specon_replica_phases)", "{{phase}}"),),
                    stacked=True,
                ),
            ),
        ),
        PanelRow(
            "Sidecars",
            (
                Panel(
                    title="Reports",
                    text="Reports in a second: accepted, and those without news.",
                    queries=(
                        Query("sum(rate(specon_reports_total[$__rate_interval]))", "taken in"),
                        Query("sum(rate(specon_reports_ignored_total[$__rate_interval]))", "ignored"),
                    ),
                    unit="reqps",
                ),
                Panel(
                    title="Silent replicas",
                    text="Running replicas whose sidecar has sent no report for five minutes.",
                    queries=(Query("sum(specon_silent_replicas)", "silent"),),
                ),
                Panel(
                    title="Hung replicas",
                    text="Running replicas without a step for many usual intervals, with waiting processes.",
                    queries=(Query("sum(specon_replicas_hung)", "hung"),),
                ),
                Panel(
                    title="Oldest reports",
                    text="The ten replicas with the oldest reports.",
                    kind="bargauge",
                    queries=(
                        Query(
                            "topk(10, max by (job_namespace, job_name, replica) "
                            "(specon_job_report_age_seconds))",
                            "{{job_namespace}}/{{job_name}} {{replica}}",
                        ),
                    ),
                    unit="s",
                ),
                Panel(
                    title="Lines of training logs",
                    text="Read in a second; samples found in them; lines that could not be parsed.",
                    queries=tuple(
                        Query(f"sum(rate(specon_log_{what}_total[$__rate_interval]))", legend)
                        for what, legend in (
                            ("lines", "lines"),
                            ("samples", "samples"),
                            ("unparsed_lines", "not parsed"),
                        )
                    ),
                    unit="cps",
                ),
                Panel(
                    title="Crashes of replicas",
                    text="In the last hour.",
                    queries=(Query("sum(increase(specon_replica_crashes_total[1h]))", "crashes"),),
                    width=24,
                    height=6,
                ),
            ),
        ),
        PanelRow(
            "Kubernetes",
            (
                Panel(
                    title="Requests to the API server",
                    text="In a second, by verb and code; `unavailable` without an answer.",
                    queries=(
                        Query(
                            "sum by (verb, code) (rate(specon_api_requests_total[$__rate_interval]))",
                            "{{verb}} {{code}}",
                        ),
                    ),
                    unit="reqps",
                ),
                Panel(
                    title="Share of requests that failed",
                    text="Codes from 400 on, conflicts included, and missing answers.",
                    queries=(
                        Query(
                            "(sum(rate(specon_api_requests_total"
                            '{code=~"[45]..|unavailable"}[$__rate_interval])) or vector(0))'
                            " / (sum(rate(specon_api_requests_total[$__rate_interval])) > 0)",
                            "failed",
                        ),
                    ),
                    unit="percentunit",
                ),
                Panel(
                    title="Time of requests",
                    text="95th percentile by verb, without watches.",
                    queries=(
                        Query(
                            "histogram_quantile(0.95, sum by (le, verb) "
                            "(rate(specon_api_request_duration_seconds_bucket[$__rate_interval]))) >= 0",
                            "{{verb}}",
                        ),
                    ),
                    unit="s",
                ),
                Panel(
                    title="Answers of the webhook",
                    text="In the last ten minutes, by entry and outcome.",
                    queries=(
                        Query(
                            "sum by (entry, outcome) (increase(specon_admissions_total[10m]))",
                            "{{entry}}: {{outcome}}",
                        ),
                    ),
                ),
                Panel(
                    title="Events that were not written",
                    text="Events on objects that this leader has dropped.",
                    queries=(Query("sum(specon_events_dropped)", "events"),),
                    width=24,
                    height=6,
                ),
            ),
        ),
    ),
)
