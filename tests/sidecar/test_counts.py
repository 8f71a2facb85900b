"""Numbers with their nouns, and every text of a screen, which may speak of one of something."""

import ast
import itertools
import re
from pathlib import Path

import pytest

from specon_sidecar.counts import format_count, format_times

ROOT = Path(__file__).parents[2]
SCREENS = (
    "manager/specon_manager/cli",
    "manager/specon_manager/views",
    "manager/specon_manager/backends/kube/reporting",
    "manager/specon_manager/backends/kube/interception",
    "manager/specon_manager/core",
    "manager/specon_manager/model",
    "manager/specon_manager/policies",
    "lab/specon_lab/commands",
    "sidecar/specon_sidecar/reporting",
    "sidecar/specon_sidecar/observing",
    "sidecar/specon_sidecar/classify",
)
NOUNS = (
    "change checkpoint core CPU crash file GPU interval job line move node pod point preemption processor"
    " proposal record replica request run sample simulation step time turn victim worker"
)
WORDS = "damaged good likely likelier more of other older of_its running such"
BETWEEN = "|".join(WORDS.split()).replace("_", " ")
PLURAL = re.compile(rf" (?:(?:{BETWEEN}) )?(?:{'|'.join(NOUNS.split())})e?s\b")
MORE_THAN_ONE = {
    "all {len(members)} replicas of it",  # one is `it`
    "{count} replicas that train",  # one is taken without a question
    "cannot go to {len(request.targets)} nodes",  # one is a target
    "it needs {count} times",  # one is said in another way
    "{len(missing)} of its pods",  # a part of several
    "is given {labels.count(label)} times",  # once is no mistake
}


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (1.0, "1 job"), (0.5, "0.5 jobs")]
)
def test_a_noun_is_in_the_number_that_fits(number, text):
    """One of it is singular, whether it was counted or measured."""
    assert format_count(number, "job") == text


def test_plurals_and_numbers_may_have_a_form_of_their_own():
    """A plural without a mere s is given, verbs with it."""
    assert format_count(2, "crash", "crashes") == "2 crashes"
    assert format_count(1, "job waits", "jobs wait") == "1 job waits"
    assert format_count(1200, "line", form=",") == "1,200 lines"
    assert [format_times(number) for number in (1, 2)] == ["once", "2 times"]


def _plurals(file):
    """Yield the texts in which a plural follows a number that may be one."""
    for node in ast.walk(ast.parse(file.read_text())):
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for part, text in itertools.pairwise(parts):
            if not isinstance(part, ast.FormattedValue) or not isinstance(text, ast.Constant):
                continue
            found = PLURAL.match(text.value)
            value = ast.unparse(part.value)
            form = "" if part.format_spec is None else ast.unparse(part.format_spec)
            known = value.startswith("format_count(") or value.strip("_").isupper()
            if found is not None and not known and not re.search(r"[%f]'$", form):
                yield ast.unparse(node)


@pytest.mark.parametrize("folder", SCREENS)
def test_no_text_of_a_screen_has_a_plural_after_a_number_that_may_be_one(folder):
    """`1 jobs wait` is written with `format_count`, wherever people read it."""
    wrong = [
        f"{file.relative_to(ROOT)}: {text}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        for text in _plurals(file)
        if not any(each in text for each in MORE_THAN_ONE)
    ]
    assert wrong == []
