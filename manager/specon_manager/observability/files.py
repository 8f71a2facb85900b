"""The files that are kept in the chart and in the docs."""

from typing import Final

from specon_manager.observability import alerts
from specon_manager.observability.catalogue import table
from specon_manager.observability.convergence import CONVERGENCE
from specon_manager.observability.operations import OPERATIONS
from specon_manager.observability.panels import rendered
from specon_manager.observability.scheduling import SCHEDULING

DASHBOARDS: Final = (CONVERGENCE, SCHEDULING, OPERATIONS)
_BEGIN: Final = "<!-- metrics: begin -->\n"
_END: Final = "<!-- metrics: end -->"


def chart_files() -> dict[str, str]:
    """Return what belongs into `charts/specon/files`, by relative path."""
    found = {f"dashboards/{dashboard.uid}.json": rendered(dashboard, DASHBOARDS) for dashboard in DASHBOARDS}
    return {**found, "alerts.yaml": alerts.rendered()}


def with_table(page: str) -> str:
    """Return a page with the table of metrics between its two marks; raises ValueError without them."""
    head, begin, rest = page.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"the page lacks the lines {_BEGIN.strip()!r} and {_END!r}")
    return head + begin + table() + end + tail
