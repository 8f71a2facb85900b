"""The files that are kept in the chart."""

from typing import Final

from specon_tools.observability import alerts
from specon_tools.observability.convergence import CONVERGENCE
from specon_tools.observability.operations import OPERATIONS
from specon_tools.observability.panels import render
from specon_tools.observability.scheduling import SCHEDULING

DASHBOARDS: Final = (CONVERGENCE, SCHEDULING, OPERATIONS)
_BEGIN: Final = "<!-- metrics: begin -->\n"
_END: Final = "<!-- metrics: end -->"


def chart_files() -> dict[str, str]:
    """Return what belongs into `charts/specon/files`, by relative path."""
    found = {f"dashboards/{dashboard.uid}.json": render(dashboard, DASHBOARDS) for dashboard in DASHBOARDS}
    return {**found, "alerts.yaml": alerts.render()}
