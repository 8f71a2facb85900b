"""What every dashboard has: the figures of the status page's headline, and marks where something moved."""

from typing import Final

from specon_sidecar.classify import Category
from specon_tools.observability.panels import (
    COLOURS,
    GOOD,
    NONE_IS_GOOD,
    PLAIN,
    Annotation,
    Panel,
    PanelRow,
    Query,
)

_HOUR: Final = 3600


def _hours(kind: str, part: str, title: str, text: str, colour: str) -> Panel:
    """Return core-hours or GPU-hours of a part over the range that is shown."""
    series = f'specon_held_{kind}_seconds_total{{part="{part}"}}'
    return Panel(
        title=title,
        text=f"{text}, over the range that is shown.",
        kind="stat",
        queries=(Query(f"sum(increase({series}[$__range])) / {_HOUR}", "hours"),),
        width=4,
        height=4,
        thresholds=((None, colour),),
    )


_HELD: Final = "What converged replicas held"
_FREED: Final = "What converged replicas held on the nodes that they left by a move"

HEADLINE: Final = PanelRow(
    "In short",
    (
        Panel(
            title="Converged now",
            text="Running replicas that have converged.",
            kind="stat",
            queries=(Query('sum(specon_replicas{category="converged"})', "replicas"),),
            width=4,
            height=4,
            thresholds=((None, PLAIN),),
        ),
        _hours("core", "converged", "Core-hours held by converged jobs", _HELD, PLAIN),
        _hours("gpu", "converged", "GPU-hours held by converged jobs", _HELD, PLAIN),
        _hours("core", "freed", "Core-hours freed", _FREED, GOOD),
        _hours("gpu", "freed", "GPU-hours freed", _FREED, GOOD),
        Panel(
            title="Paused",
            text="1 while nothing new is ordered: specon pause, specon resume.",
            kind="stat",
            queries=(Query("max(specon_paused)", "paused"),),
            width=4,
            height=4,
            thresholds=NONE_IS_GOOD,
        ),
    ),
)

MOVES: Final = Annotation(
    "Moves",
    # Two minutes, looked at every minute: changes() does not see one between two windows.
    'sum by (state, policy) (changes(specon_transactions_total{kind="move"}[2m])) > 0',
    "move {{state}} ({{policy}})",
    COLOURS[Category.PROGRESSING],
)
