"""What a query of PromQL asks for, read from its syntax tree."""

import promql_parser

# Grafana fills these in before Prometheus sees a query.
_FILLED_IN = {"$__rate_interval": "5m", "$__range": "1h", "$namespace": ".*", "$job": ".*", "$node": ".*"}


def filled_in(query: str, **values: str) -> str:
    """Return a query of a panel as Prometheus gets it; values by name without the dollar."""
    for name, usual in _FILLED_IN.items():
        query = query.replace(name, values.get(name.removeprefix("$"), usual))
    assert "$" not in query, query
    return query


def _parts(query: str) -> list[promql_parser.Expr]:
    found: list[promql_parser.Expr] = []
    promql_parser.walk(promql_parser.parse(query), pre_visit=found.append)
    return found


def selected(query: str) -> dict[str, set[str]]:
    """Return the series that a query asks for, each with the labels that it is selected by."""
    found: dict[str, set[str]] = {}
    for part in _parts(query):
        selector = part.vector_selector if isinstance(part, promql_parser.MatrixSelector) else part
        if isinstance(selector, promql_parser.VectorSelector):
            labels = {matcher.name for matcher in selector.matchers.matchers}
            found.setdefault(selector.name, set()).update(labels)
    return found


def kept(query: str) -> dict[str, set[str]]:
    """Return the labels that aggregations keep, by series below them; no entry for what none is above."""
    found: dict[str, set[str]] = {}
    for part in _parts(query):
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None:
            assert part.modifier.type == promql_parser.AggModifierType.By, query
            for name in selected(str(part.expr)):
                found.setdefault(name, set()).update(part.modifier.labels)
    return found
