"""The dashboards: in step with the code, well formed, and asking for nothing that is not there."""

import json
import re
from pathlib import Path

import pytest

from specon_manager.runtime.job_metrics import CATEGORY_NUMBERS
from specon_sidecar.classify import Category
from specon_tools.observability.__main__ import main
from specon_tools.observability.catalogue import EVERYWHERE, ON_KUBERNETES, catalogue
from specon_tools.observability.files import DASHBOARDS, chart_files
from specon_tools.observability.panels import COLOURS, Dashboard, Panel, PanelRow, Query, render
from support.watching.promql import filled_in, kept, selected

FILES = Path(__file__).parents[2] / "charts" / "specon" / "files"
KNOWN = {
    name: set(labels)
    for info in catalogue()
    if info.told_by in {EVERYWHERE, ON_KUBERNETES}
    for name, labels in info.series.items()
}
QUERIES = [
    pytest.param(query, id=f"{dashboard.uid}: {panel.title}: {query.legend}")
    for dashboard in DASHBOARDS
    for panel in dashboard.panels
    for query in panel.queries
]
MARKS = [
    pytest.param(Query(mark.expr, mark.title), id=f"{dashboard.uid}: {mark.name}")
    for dashboard in DASHBOARDS
    for mark in dashboard.annotations
]


def check(query):
    """Every series that is asked for is told, with the labels that it is selected and grouped by."""
    expr = filled_in(query.expr)
    asked = selected(expr)
    assert asked
    for name, labels in asked.items():
        assert name in KNOWN, f"no metric {name}"
        assert labels | kept(expr).get(name, set()) <= KNOWN[name], name
    there = set.union(*({*kept(expr).get(name, KNOWN[name])} for name in asked))
    assert set(re.findall(r"{{(\w+)}}", query.legend)) <= there - {"le"}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_parses_and_asks_for_what_there_is(query):
    """Its legend too."""
    check(query)


@pytest.mark.parametrize("query", MARKS)
def test_so_does_an_annotation(query):
    """And it marks something, not everything."""
    check(query)
    assert query.expr.endswith("> 0")


def test_files_are_in_step():
    """Written by `python -m specon_tools.observability charts/specon/files`, and nothing else is there."""
    there = {str(path.relative_to(FILES)): path.read_text() for path in FILES.rglob("*") if path.is_file()}
    assert there == chart_files()


@pytest.fixture(params=DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def page(request):
    return json.loads(render(request.param, DASHBOARDS))


def test_panels_have_ids_of_their_own(page):
    """And so have the queries of a panel."""
    ids = [panel["id"] for panel in page["panels"]]
    assert len(ids) == len(set(ids))
    for panel in page["panels"]:
        letters = [target["refId"] for target in panel.get("targets", [])]
        assert all(letters)
        assert len(letters) == len(set(letters))


def test_panels_do_not_overlap(page):
    """Each lies within the 24 columns; no two share a cell; each but a heading has a query."""
    taken = set()
    for panel in page["panels"]:
        place = panel["gridPos"]
        assert 0 <= place["x"] <= place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert cells
        assert not cells & taken, panel["title"]
        taken |= cells
        assert (panel["type"] == "row") == ("targets" not in panel)


def test_the_data_source_is_chosen_above(page):
    """By every panel, query, variable and annotation: none names one that somebody else does not have."""
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    (source, *variables) = page["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    panels = [panel for panel in page["panels"] if panel["type"] != "row"]
    users = [*panels, *variables, *page["annotations"]["list"]]
    users += [target for panel in panels for target in panel["targets"]]
    assert all(user["datasource"] == chosen for user in users)


def test_variables_are_labels_of_what_there_is(page):
    """Each that a query uses is there, and no other."""
    for variable in page["templating"]["list"][1:]:
        series, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"]).groups()
        ((name, _),) = selected(filled_in(series)).items()
        assert label in KNOWN[name]
    names = {variable["name"] for variable in page["templating"]["list"]}
    text = json.dumps([page["panels"], page["annotations"]])
    used = {name for name in re.findall(r"\$\{?(\w+)", text) if not name.startswith("__")}
    assert used == names


def test_every_panel_says_what_it_shows(page):
    """A reader need not know the table of metrics."""
    for panel in page["panels"]:
        if panel["type"] != "row":
            assert len(panel["description"]) > 10, panel["title"]
            assert panel["fieldConfig"]["defaults"]["unit"]


def test_every_page_begins_with_the_headline_and_marks_moves(page):
    """The same figures everywhere, those of the status page; and each figure shows where something moved."""
    titles = [panel["title"] for panel in page["panels"][1:7]]
    assert page["panels"][0]["title"] == "In short"
    assert titles[0] == "Converged now"
    assert titles[-1] == "Paused"
    assert "Moves" in {mark["name"] for mark in page["annotations"]["list"]}


def test_every_stat_has_thresholds(page):
    """Its colour says whether it is as it should be; the steps rise from the beginning."""
    for panel in page["panels"]:
        if panel["type"] == "stat":
            steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
            assert steps[0]["value"] is None, panel["title"]
            values = [step["value"] for step in steps[1:]]
            assert values == sorted(values)


@pytest.mark.parametrize("query", QUERIES)
def test_no_query_is_no_number_before_the_first_change(query):
    """A quantile of nothing, and a part of nothing, are left out rather than shown as NaN."""
    expr = query.expr
    if "histogram_quantile(" in expr:
        assert expr.endswith(">= 0")
    if ") / sum" in expr or ") / (sum" in expr:
        assert "> 0)" in expr


def test_pages_are_told_apart_and_know_each_other(page):
    """Each links to the others."""
    assert len({dashboard.uid for dashboard in DASHBOARDS}) == len(DASHBOARDS) == 3
    others = {f"/d/{dashboard.uid}" for dashboard in DASHBOARDS if dashboard.uid != page["uid"]}
    assert {link["url"] for link in page["links"]} == others


def test_numbers_of_categories_have_names_and_colours():
    """In the state timeline every number that a series can have is a category."""
    (convergence,) = [dashboard for dashboard in DASHBOARDS if dashboard.uid == "specon-convergence"]
    panels = json.loads(render(convergence))["panels"]
    (timeline,) = [panel for panel in panels if panel["type"] == "state-timeline"]
    (mapping,) = timeline["fieldConfig"]["defaults"]["mappings"]
    names = {int(number): look["text"] for number, look in mapping["options"].items()}
    assert names == {number: category.value for category, number in CATEGORY_NUMBERS.items()}
    assert len({*COLOURS.values()}) == len(Category)


def test_a_row_that_is_full_goes_on_below():
    """Also where panels differ in height."""
    panels = tuple(
        Panel(title=str(width), text="", queries=(Query("up"),), width=width, height=height)
        for width, height in ((8, 4), (12, 6), (6, 2), (24, 3))
    )
    page = json.loads(render(Dashboard(uid="x", title="x", text="x", rows=(PanelRow("r", panels),))))
    places = [tuple(panel["gridPos"][key] for key in "xywh") for panel in page["panels"]]
    assert places == [(0, 0, 24, 1), (0, 1, 8, 4), (8, 1, 12, 6), (0, 7, 6, 2), (0, 9, 24, 3)]


def test_files_are_written_once_and_checked(tmp_path, capsys):
    """A second time nothing is written; a file that was changed is named by --check, and left alone."""
    assert main([str(tmp_path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(chart_files())
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""
    (tmp_path / "alerts.yaml").write_text("")
    assert main([str(tmp_path), "--check"]) == 1
    assert capsys.readouterr().out == f"out of step: {tmp_path / 'alerts.yaml'}\n"
    assert (tmp_path / "alerts.yaml").read_text() == ""
