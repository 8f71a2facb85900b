"""The pages in docs/results are what the code prints: the same tables, rows and figures of the papers."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from specon_lab.commands.reproduction_figures import title
from specon_lab.commands.reproduction_page import page
from specon_lab.commands.reproduction_run import Measured, _measure, _note_death, collect, make_plan, tasks_of
from specon_lab.process_pool import Job, run_all
from specon_lab.reproduction.table import NAMES, reproduction_named
from support.lab.reproductions import TINY

pytest.importorskip("scipy")

PAGES = Path(__file__).parents[3] / "docs" / "results"
SHARED = {"dragon": "elastic", "kod2": "elastic"}
"""Papers that share a page."""
OURS = "ours"  # its figures of the papers' policies are measured, and differ with the runs


def reproduced(reproduction):
    """Return what the quick runs come to."""
    plan = make_plan(reproduction, quick=True)
    tasks = tasks_of([plan])
    done, _ = run_all(tasks, Job(work=_measure, died=_note_death), processes=1, on_progress=lambda *_: None)
    by_key: dict[tuple[str, int], Measured] = {(each.key, each.seed): each for each in done.values()}
    return collect(plan, by_key)


def tables(text):
    """Return the rows of each table of a page: what the figure is, and the paper's figure, as text."""
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line.startswith(("## ", "### ")):
            found[line.lstrip("# ")] = {}
        elif line.startswith("| ") and not line.startswith("| | "):
            cells = [cell.strip() for cell in line.replace(r"\|", "¦").split("|")]
            found[list(found)[-1]][uncounted(cells[1])] = cells[2]
    return found


def uncounted(name):
    """Return the name without how many of something it is about: of a quick run they are fewer."""
    return re.sub(r"\bof \d+\b", "of N", name)


def differences(text, sections, *, figures):
    """Return what the sections have and the page has not, or has otherwise."""
    found = []
    there = tables(text)
    for section in sections:
        rows = there.get(section.title.replace("|", "¦"))
        if rows is None:
            found.append(f"no table {section.title!r}")
            continue
        for row in section.rows:
            shown = rows.get(uncounted(title(row).replace("|", "¦")))
            if shown is None:
                found.append(f"{section.title}: no row {title(row)!r}")
            elif figures and not same(shown, row.paper):
                found.append(f"{section.title}: {title(row)} is {shown}, not {row.paper}")
    return found


def same(shown, paper):
    """Whether the page shows this number, as exactly as it shows it."""
    if shown == "-" or paper is None:
        return shown == "-" and paper is None
    places = len(shown.partition(".")[2])
    return abs(float(shown.replace(",", "")) - paper) <= 0.5 * 10**-places + 1e-9


@pytest.mark.timeout(400)  # half a minute of an idle processor
@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_committed_page_has_the_rows_that_the_code_makes(name):
    """Whatever quick runs show stands in the page: tables, rows, and the paper's figures."""
    path = PAGES / f"{SHARED.get(name, name)}.md"
    if not path.exists():
        pytest.skip(f"{path.name} is not there yet")
    text = path.read_text()
    assert f"$ specon reproduce {name}\n" in text
    found = reproduced(reproduction_named(name))
    assert found.complete
    assert found.sections
    assert differences(text, found.sections, figures=name != OURS) == []


def test_a_page_that_is_not_what_the_code_makes_is_found():
    """Another figure of the paper, another row, another table."""
    found = reproduced(TINY)
    text = page(found, command="", wall_seconds=0.0)
    assert differences(text, found.sections, figures=True) == []
    section = found.sections[0]
    first, *rest = section.rows
    for row, words in (
        (msgspec.structs.replace(first, paper=4.1), "is 4.0, not 4.1"),
        (msgspec.structs.replace(first, what="last in"), "no row 'last in (s)'"),
    ):
        changed = msgspec.structs.replace(section, rows=[row, *rest])
        assert words in differences(text, [changed], figures=True)[0]
    renamed = msgspec.structs.replace(section, title="Table 2")
    assert differences(text, [renamed], figures=True) == ["no table 'Table 2'"]
