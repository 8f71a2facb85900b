"""The dashboard of decisions: moves, their price, refusals, the queue."""

from typing import Final

from specon_tools.observability.headline import HEADLINE, MOVES
from specon_tools.observability.panels import BAD, GOOD, Dashboard, Panel, PanelRow, Query

_CHANGES: Final = '{kind!="move"}'


def _quantiles(metric: str, label: str = "", *, only: str = "") -> tuple[Query, ...]:
    """Return median and 90th percentile of a histogram over the range that is shown, by a label.

    Before anything was observed a quantile is no number, which is no value: `>= 0` leaves it out.
    """
    by = f"le, {label}" if label else "le"
    prefix = f"{{{{{label}}}}}: " if label else ""
    return tuple(
        Query(
            f"histogram_quantile({share}, sum by ({by}) (rate({metric}_bucket{only}[$__range]))) >= 0",
            prefix + legend,
        )
        for share, legend in (("0.5", "median"), ("0.9", "90th percentile"))
    )


def _increase(series: str, window: str) -> str:
    """Return by how much counters grew, those that did not exist before included.

    The first decision of a kind makes a new series. `increase` does not see that decision, although
    everything that the series has counted is new.
    """
    return f"(({series} unless {series} offset {window}) or increase({series}[{window}]))"


SCHEDULING: Final = Dashboard(
    uid="specon-scheduling",
    title="specon / Moves and scheduling",
    text="Moves by state and result, their cost and benefit, decisions, queues, and changes of jobs.",
    annotations=(MOVES,),
    rows=(
        HEADLINE,
        PanelRow(
            "Moves",
            (
                Panel(
                    title="In flight",
                    text="Moves by state.",
                    queries=(
                        Query('sum by (state) (specon_transactions_in_flight{kind="move"})', "{{state}}"),
                    ),
                    stacked=True,
                ),
                Panel(
                    title="Ended",
                    text="Moves that ended in the last hour, by final state and policy (`request`: by hand).",
                    queries=(
                        Query(
                            'sum by (policy, state) (increase(specon_transactions_total{kind="move"}[1h]))',
                            "{{state}} ({{policy}})",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    title="Oldest move in flight",
                    text="Time since it was proposed.",
                    queries=(Query('max(specon_oldest_transaction_age_seconds{kind="move"})', "oldest"),),
                    unit="s",
                    width=8,
                ),
                Panel(
                    title="Downtime of moves",
                    text="From the last step before to the first step after a move.",
                    queries=_quantiles("specon_transaction_downtime_seconds", only='{kind="move"}'),
                    unit="s",
                    width=8,
                ),
                Panel(
                    title="Steps trained again",
                    text="Steps that were lost in the last hour, by cause.",
                    queries=(
                        Query(
                            "sum by (kind) (increase(specon_transaction_lost_steps_total[1h]))", "{{kind}}"
                        ),
                    ),
                    width=8,
                ),
                Panel(
                    title="Replicas helped and hurt",
                    text="Measured change of the steps per second of the replicas that moved, and of those "
                    "on the source and target of a move, over the range shown.",
                    kind="bargauge",
                    queries=(
                        Query(
                            "sum by (part, effect) (increase(specon_move_effects_total[$__range]))",
                            "{{part}}: {{effect}}",
                        ),
                    ),
                    width=24,
                ),
            ),
        ),
        PanelRow(
            "Decisions",
            (
                Panel(
                    title="Ordered",
                    text="Accepted proposals in the last ten minutes, by policy and kind.",
                    queries=(
                        Query(
                            "sum by (policy, proposal) "
                            + _increase('specon_decisions_total{outcome="accepted"}', "10m"),
                            "{{policy}}: {{proposal}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    title="Refused",
                    text="Proposals that were not ordered in the last ten minutes, by reason.",
                    queries=(
                        Query(
                            "sum by (proposal, outcome) "
                            + _increase('specon_decisions_total{outcome!="accepted"}', "10m"),
                            "{{proposal}}: {{outcome}}",
                        ),
                    ),
                    stacked=True,
                ),
            ),
        ),
        PanelRow(
            "Queue, preemption and scaling",
            (
                Panel(
                    title="Waiting jobs",
                    text="Jobs that wait for admission by this manager.",
                    queries=(Query("sum(specon_waiting_jobs) or vector(0)", "jobs"),),
                    width=8,
                ),
                Panel(
                    title="Longest wait now",
                    text="The longest wait of a waiting job.",
                    queries=(Query("max(specon_queue_oldest_seconds)", "oldest"),),
                    unit="s",
                    width=8,
                ),
                Panel(
                    title="Time to admission",
                    text="From submission to first admission, of jobs admitted in the range shown.",
                    queries=_quantiles("specon_queue_wait_seconds"),
                    unit="s",
                    width=8,
                ),
                Panel(
                    title="Preemptions",
                    text="In the last hour.",
                    queries=(Query("sum(increase(specon_preemptions_total[1h]))", "preemptions"),),
                ),
                Panel(
                    title="Scaled workers",
                    text="Workers started (out) and ended (in) in the last hour because a job was scaled.",
                    queries=(
                        Query(
                            "sum by (direction) (increase(specon_scaled_workers_total[1h]))", "{{direction}}"
                        ),
                    ),
                ),
            ),
        ),
        PanelRow(
            "Obstacles",
            (
                Panel(
                    title="Stuck",
                    text="Moves and changes that cannot end, by kind.",
                    kind="stat",
                    queries=(Query("sum by (kind) (specon_stuck_transactions)", "{{kind}}"),),
                    height=6,
                    thresholds=((None, GOOD), (1.0, BAD)),
                ),
                Panel(
                    title="Queued requests",
                    text="Requested moves that wait for others in flight.",
                    queries=(Query("sum(specon_queued_requests)", "requests"),),
                    height=6,
                ),
            ),
        ),
        PanelRow(
            "Changes of jobs",
            (
                Panel(
                    title="Changes in flight",
                    text="Open admissions, scalings and preemptions, by kind.",
                    queries=(
                        Query(
                            'sum by (kind) (specon_transactions_in_flight{kind!="move"})',
                            "{{kind}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    title="Changes ended",
                    text="In the last hour, by final state and kind.",
                    queries=(
                        Query(
                            'sum by (kind, state) (increase(specon_transactions_total{kind!="move"}[1h]))',
                            "{{state}} ({{kind}})",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    title="Oldest change in flight",
                    text="Time since it was proposed.",
                    queries=(Query('max(specon_oldest_transaction_age_seconds{kind!="move"})', "oldest"),),
                    unit="s",
                    width=8,
                ),
                Panel(
                    title="Duration of changes",
                    text="From proposal to end, of successful changes.",
                    queries=_quantiles("specon_transaction_duration_seconds", "kind", only=_CHANGES),
                    unit="s",
                    width=8,
                ),
                Panel(
                    title="Downtime of changes",
                    text="From the last step before to the first step after a change that restarts the job.",
                    queries=_quantiles("specon_transaction_downtime_seconds", "kind", only=_CHANGES),
                    unit="s",
                    width=8,
                ),
            ),
        ),
        PanelRow(
            "Queues with quotas",
            (
                Panel(
                    title="What jobs wait for",
                    text="Waiting jobs by queue and reason.",
                    queries=(
                        Query("sum by (queue, reason) (specon_waiting_jobs) > 0", "{{queue}}: {{reason}}"),
                    ),
                    stacked=True,
                ),
                Panel(
                    title="Use of quotas",
                    text="The use of a queue's jobs as a part of its quota; above 100 % the queue borrows.",
                    queries=(
                        Query(
                            "max by (queue, resource) (specon_queue_used) "
                            "/ (max by (queue, resource) (specon_queue_quota) > 0)",
                            "{{queue}}: {{resource}}",
                        ),
                    ),
                    unit="percentunit",
                ),
                Panel(
                    title="Running jobs by queue",
                    text="Running jobs of queues with a quota.",
                    queries=(Query("sum by (queue) (specon_queue_running_jobs)", "{{queue}}"),),
                    stacked=True,
                ),
                Panel(
                    title="Beyond the starvation limit",
                    text="How far the longest wait exceeds the limit; 0 below it.",
                    queries=(Query("max(specon_starvation_excess_seconds)", "longest"),),
                    unit="s",
                ),
            ),
        ),
    ),
)
