"""The dashboard of learning: which job is in which category, since when, and what its loss does."""

from typing import Final

from specon_sidecar.classify import Category
from specon_tools.observability.headline import HEADLINE
from specon_tools.observability.panels import COLOURS, Annotation, Dashboard, Panel, PanelRow, Query, Variable

_CHOSEN: Final = 'job_namespace=~"$namespace", job_name=~"$job"'
_NAME: Final = "{{job_namespace}}/{{job_name}} {{replica}}"


def _of_job(expr: str) -> str:
    """Return the expression with one series for each replica, whichever manager tells of it."""
    return f"max by (job_namespace, job_name, replica) ({expr})"


_CATEGORY: Final = f"specon_job_category{{{_CHOSEN}}}"

CONVERGENCE: Final = Dashboard(
    uid="specon-convergence",
    title="specon / Convergence",
    text="Categories of training jobs over time, their losses and gains, and how soon converged jobs move.",
    variables=(
        Variable("namespace", "Namespace", "specon_job_category", "job_namespace"),
        Variable("node", "Node", "specon_node_replicas", "node"),
        Variable("job", "Job", 'specon_job_category{job_namespace=~"$namespace"}', "job_name"),
    ),
    annotations=(
        # Two minutes, looked at every minute: changes() does not see one between two windows.
        Annotation(
            "Category changes",
            _of_job(f"changes({_CATEGORY}[2m])") + " > 0",
            f"{_NAME}: another category",
            COLOURS[Category.WATCHING],
        ),
        Annotation(
            "Moves",
            _of_job(f"changes(specon_job_moves{{{_CHOSEN}}}[2m])") + " > 0",
            f"{_NAME}: moved",
            COLOURS[Category.PROGRESSING],
        ),
    ),
    rows=(
        HEADLINE,
        PanelRow(
            "All jobs",
            (
                Panel(
                    title="Running replicas by category",
                    text="What the logs say of all running replicas.",
                    queries=(Query("sum by (category) (specon_replicas)", "{{category}}"),),
                    stacked=True,
                    by_category=True,
                ),
                Panel(
                    title="Replicas by node and category",
                    text="Of the chosen nodes. Move jobs last from a node on which nothing converges.",
                    kind="table",
                    queries=(Query('sum by (node, category) (specon_node_replicas{node=~"$node"})'),),
                    matrix=("node", "category"),
                ),
                Panel(
                    title="From converged to moved",
                    text="Time from the convergence of a replica to the end of its move: median and 90th "
                    "percentile.",
                    queries=tuple(
                        Query(
                            f"histogram_quantile({share}, sum by (le) "
                            "(rate(specon_converged_to_moved_seconds_bucket[$__range]))) >= 0",
                            legend,
                        )
                        for share, legend in (("0.5", "median"), ("0.9", "90th percentile"))
                    ),
                    unit="s",
                ),
                Panel(
                    title="Converged since",
                    text="How long replicas have been converged, the longest first.",
                    kind="bargauge",
                    queries=(
                        Query(
                            "topk(20, time() - "
                            + _of_job(f"specon_job_converged_timestamp_seconds{{{_CHOSEN}}}")
                            + ")",
                            _NAME,
                        ),
                    ),
                    unit="s",
                ),
            ),
        ),
        PanelRow(
            "Chosen jobs",
            (
                Panel(
                    title="Category over time",
                    text="The category of each replica.",
                    kind="state-timeline",
                    queries=(Query(_of_job(_CATEGORY), _NAME),),
                    by_category=True,
                    width=24,
                    height=10,
                ),
                Panel(
                    title="Loss",
                    text="Last value of each replica's metric.",
                    queries=(Query(_of_job(f"specon_job_loss{{{_CHOSEN}}}"), _NAME),),
                    height=10,
                ),
                Panel(
                    title="Gain",
                    text="Gain of the last interval, relative to the scale of the replica.",
                    queries=(Query(_of_job(f"specon_job_gain_ratio{{{_CHOSEN}}}"), _NAME),),
                    unit="percentunit",
                    height=10,
                ),
                Panel(
                    title="Remaining gain",
                    text="Gain that is still expected, relative to the gain so far; as the sidecar told the "
                    "manager.",
                    queries=(Query(_of_job(f"specon_job_remaining_gain_ratio{{{_CHOSEN}}}"), _NAME),),
                    unit="percentunit",
                ),
                Panel(
                    title="Confidence that it has converged",
                    text="Of the classifier horizon; the classifier of the paper has none.",
                    queries=(Query(_of_job(f"specon_job_confidence{{{_CHOSEN}}}"), _NAME),),
                    unit="percentunit",
                ),
                Panel(
                    title="Steps per second",
                    text="Slope of the step; below zero when a replica returns to a checkpoint.",
                    queries=(
                        Query(_of_job(f"deriv(specon_job_step{{{_CHOSEN}}}[$__rate_interval])"), _NAME),
                    ),
                    unit="ops",
                ),
                Panel(
                    title="Age of the newest checkpoint",
                    text="The training to repeat if the replica were lost now.",
                    queries=(Query(_of_job(f"specon_job_checkpoint_age_seconds{{{_CHOSEN}}}"), _NAME),),
                    unit="s",
                ),
            ),
        ),
    ),
)
