"""Dashboards as data, and as the JSON that Grafana (10 or later) takes in."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from specon_manager.runtime.job_metrics import CATEGORY_NUMBERS
from specon_sidecar.classify import Category

_SCHEMA_VERSION: Final = 39
_COLUMNS: Final = 24
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
COLOURS: Final = {
    Category.UNKNOWN: "#8e8e8e",
    Category.PROGRESSING: "#5794f2",
    Category.WATCHING: "#fade2a",
    Category.CONVERGED: "#73bf69",
    Category.STALLED: "#ff9830",
    Category.DIVERGING: "#f2495c",
    Category.NOT_CLASSIFIABLE: "#b877d9",
}

GOOD, WARNING, BAD, PLAIN = "green", "orange", "red", "blue"
NONE_IS_GOOD: Final = ((None, GOOD), (1.0, WARNING))
"""Thresholds of what there should be none of."""

Kind = Literal["timeseries", "stat", "state-timeline", "table", "bargauge"]


class Query(Struct, frozen=True):
    """What a panel asks Prometheus for."""

    expr: str
    legend: str = ""
    """How a series is called; `{{label}}` is filled in by Grafana."""


class Panel(Struct, frozen=True, kw_only=True):
    """A figure."""

    title: str
    text: str
    """Its tooltip: what it shows."""
    queries: tuple[Query, ...]
    kind: Kind = "timeseries"
    unit: str = "short"
    """Grafana's name of the unit."""
    width: int = 12
    """Of 24 columns."""
    height: int = 8
    stacked: bool = False
    by_category: bool = False
    """Whether series are categories, by name, or values their numbers (state timelines)."""
    matrix: tuple[str, str] | None = None
    """Of a table: the label that makes rows and the one that makes columns."""
    thresholds: tuple[tuple[float | None, str], ...] = ()
    """Of a stat: from which value on it has which colour, rising; None is from the beginning."""


class PanelRow(Struct, frozen=True):
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


class Variable(Struct, frozen=True):
    """A choice of label values above the panels; all of them at first."""

    name: str
    title: str
    metric: str
    """Selector of the series whose label it is."""
    label: str


class Annotation(Struct, frozen=True):
    """Marks on every figure where an expression has a value."""

    name: str
    expr: str
    title: str
    colour: str


class Dashboard(Struct, frozen=True, kw_only=True):
    """A page of figures."""

    uid: str
    title: str
    text: str
    rows: tuple[PanelRow, ...]
    variables: tuple[Variable, ...] = ()
    annotations: tuple[Annotation, ...] = ()

    @property
    def panels(self) -> Iterable[Panel]:
        """All panels, in order."""
        return (panel for row in self.rows for panel in row.panels)


def render(dashboard: Dashboard, others: Sequence[Dashboard] = ()) -> str:
    """Return the JSON of a dashboard, with links to the others."""
    content = {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.text,
        "tags": ["specon"],
        "schemaVersion": _SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "links": [_link(other) for other in others if other.uid != dashboard.uid],
        "templating": {"list": [_datasource(), *map(_variable, dashboard.variables)]},
        "annotations": {"list": [*map(_annotation, dashboard.annotations)]},
        "panels": _laid_out(dashboard.rows),
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _laid_out(rows: Sequence[PanelRow]) -> list[dict[str, Any]]:
    """Return the panels from left to right and from top to bottom, each row under its heading."""
    placed: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        heading = {"type": "row", "title": row.title, "collapsed": False, "panels": []}
        placed.append({"id": len(placed) + 1, **heading, "gridPos": _place(0, y, _COLUMNS, 1)})
        x, y, tallest = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > _COLUMNS:
                x, y, tallest = 0, y + tallest, 0
            where = _place(x, y, panel.width, panel.height)
            placed.append({"id": len(placed) + 1, **_panel(panel), "gridPos": where})
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
    return placed


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(panel: Panel) -> dict[str, Any]:
    content: dict[str, Any] = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _DATASOURCE,
        "targets": [_target(panel, number, query) for number, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "options": _options(panel),
    }
    if panel.matrix is not None:
        row, column = panel.matrix
        fields = {"rowField": row, "columnField": column, "valueField": "Value", "emptyValue": "zero"}
        content["transformations"] = [{"id": "groupingToMatrix", "options": fields}]
    return content


def _target(panel: Panel, number: int, query: Query) -> dict[str, Any]:
    now = panel.kind in {"table", "stat", "bargauge"}
    return {
        "refId": chr(ord("A") + number),
        "datasource": _DATASOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "format": "table" if panel.kind == "table" else "time_series",
        "instant": now,
        "range": not now,
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "color": {"mode": "palette-classic"}}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
        # A missing value is a gap: a line through it would be a lie.
        looks = {"lineWidth": 1, "fillOpacity": 30 if panel.stacked else 0, "spanNulls": False}
        defaults["custom"] = {**looks, "showPoints": "auto", "stacking": stacking}
    if panel.thresholds:
        steps = [{"value": least, "color": colour} for least, colour in panel.thresholds]
        defaults["color"] = {"mode": "thresholds"}
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    if panel.kind == "state-timeline":
        defaults["color"] = {"mode": "fixed", "fixedColor": COLOURS[Category.UNKNOWN]}
        defaults["custom"] = {"fillOpacity": 80, "lineWidth": 0}
        defaults["mappings"] = [{"type": "value", "options": _category_mapping()}]
    return defaults


def _category_mapping() -> Mapping[str, Any]:
    return {
        str(number): {"text": category.value, "color": COLOURS[category], "index": number}
        for category, number in CATEGORY_NUMBERS.items()
    }


def _overrides(panel: Panel) -> list[dict[str, Any]]:
    if not panel.by_category or panel.kind == "state-timeline":
        return []
    return [
        {
            "matcher": {"id": "byName", "options": category.value},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
        }
        for category, colour in COLOURS.items()
    ]


def _options(panel: Panel) -> dict[str, Any]:
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
    reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    if panel.kind == "timeseries":
        return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    if panel.kind == "state-timeline":
        return {"legend": legend, "showValue": "auto", "mergeValues": True, "rowHeight": 0.8}
    if panel.kind == "table":
        return {"showHeader": True}
    if panel.kind == "bargauge":
        return {"displayMode": "basic", "orientation": "horizontal", "reduceOptions": reduced}
    return {"colorMode": "value", "graphMode": "none", "textMode": "auto", "reduceOptions": reduced}


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(variable: Variable) -> dict[str, Any]:
    query = f"label_values({variable.metric}, {variable.label})"
    return {
        "name": variable.name,
        "label": variable.title,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": f"variable-{variable.name}"},
        "definition": query,
        "refresh": 2,  # whenever the range of time changes
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _annotation(annotation: Annotation) -> dict[str, Any]:
    return {
        "name": annotation.name,
        "datasource": _DATASOURCE,
        "enable": True,
        "expr": annotation.expr,
        "step": "60s",
        "titleFormat": annotation.title,
        "iconColor": annotation.colour,
    }


def _link(other: Dashboard) -> dict[str, Any]:
    return {
        "type": "link",
        "title": other.title,
        "url": f"/d/{other.uid}",
        "keepTime": True,
        "includeVars": True,
        "targetBlank": False,
    }
