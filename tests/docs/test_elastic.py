"""docs/elastic.md says of each kind of job what the code finds it can do."""

import re

import pytest

from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.capability import SINCE, capability
from specon_manager.backends.kube.objects.owner import OwnerInfo
from specon_manager.core.waiting import KINDS
from support.packaging.documents import ROOT

PAGE = (ROOT / "docs" / "elastic.md").read_text()
ASKED = Options(queue="research", min_workers=1, max_workers=8)
GROUP = {"workers": 4, "asked": 4, "at_once": 4}
INDEXED = {**GROUP, "indexed": True}
EXAMPLES = {
    "Job, Indexed, `completions` equal to `parallelism`": ("Job", INDEXED),
    "Job, not Indexed, of one pod": ("Job", {}),
    "Job, Indexed, with a `successPolicy`": ("Job", {**INDEXED, "success_policy": True}),
    "TFJob": ("TFJob", GROUP),
    "TFJob with `enableDynamicWorker`": ("TFJob", {**GROUP, "dynamic": True}),
    "PyTorchJob": ("PyTorchJob", {**GROUP, "heads": 1}),
    "PyTorchJob with `elasticPolicy` and no Master": ("PyTorchJob", {**GROUP, "elastic": (1, 8)}),
    "MPIJob (v2beta1)": ("MPIJob", GROUP),
    "JobSet of one Indexed Job": ("JobSet", INDEXED),
    "JobSet of several Indexed Jobs": ("JobSet", {**INDEXED, "jobs": 2}),
    "TrainJob of one Indexed Job": ("TrainJob", INDEXED),
    "LeaderWorkerSet of one group": ("LeaderWorkerSet", GROUP),
    "StatefulSet, bare pod, ReplicaSet and others": ("StatefulSet", GROUP),
}
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.partition("## Supported kinds")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| ") and not line.startswith("| kind |")
]


def capability_of(kind, facts):
    owner = OwnerInfo(kind=kind, namespace="n", name="o", uid="u", job="o", **facts)
    return capability(owner, ASKED, (1, 33))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_says_what_is_found(row):
    """Whether a job of that kind is held and preempted, how it is scaled, and since which version."""
    kind, facts = EXAMPLES[row[0]]
    found = capability_of(kind, facts)
    held = not found.unholdable
    assert held == (not found.unpreemptible)
    assert row[1] == ("yes" if held else "no")
    assert row[2] == found.resizing
    assert row[4] == (SINCE[kind] if held else "-")


def test_every_kind_has_a_row():
    """And every row is looked at."""
    assert {row[0] for row in ROWS} == set(EXAMPLES)
    assert {kind for kind, _ in EXAMPLES.values()} >= set(SINCE)


@pytest.mark.parametrize(
    "facts", [{"kueue": True}, {"volcano": "its scheduler"}, {"controller": "TrainJob t"}]
)
def test_what_others_manage_is_left_to_them(facts):
    """Neither held nor scaled nor preempted, as the page says of Kueue and Volcano."""
    found = capability_of("Job", {**INDEXED, **facts})
    assert all([found.unholdable, found.unpreemptible, found.unscalable])


def test_every_reason_for_waiting_is_explained():
    """In the table of what `specon explain` says, and in the page of commands."""
    table = PAGE.partition("## When something is not as expected")[2]
    commands = (ROOT / "docs" / "commands.md").read_text()
    for kind in KINDS:
        assert re.search(rf"`{kind}\b", table), kind
        assert f"`{kind}`" in commands, kind
