"""specon's own policy on published traces, beside other policies and beside published results.

Traces are read from a directory as their authors published them, and are no part of this project: `pollux`
(workloads, traces, results-jobload: the branch osdi21-artifact of github.com/petuum/adaptdl), `philly`
(philly.csv, from the same place) and `alibaba` (openb_pod_list_default.csv of
github.com/alibaba/clusterdata). A trace that is not there is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from specon_lab.engine.run import preempting_freely, settings_for
from specon_lab.reproduction.experiment import (
    Collected,
    Measures,
    Reproduction,
    Row,
    Run,
    Section,
    judge_figure,
)
from specon_lab.reproduction.ours_runs import BASELINES, BOUND, FAIRNESS, JOB, OURS, QUOTA, measure
from specon_lab.reproduction.ours_tables import (
    COLUMNS,
    LATER_PERCENT,
    compare_means,
    compare_pairs,
    later_row,
    restarts,
    side_by_side,
    values,
    way_row,
)
from specon_lab.reproduction.remarks import remarks_of
from specon_lab.results.statistics import mean
from specon_lab.traces.options import TraceOptions
from specon_lab.traces.pollux import read_summary
from specon_lab.traces.read import read_workload
from specon_lab.workloads.parameters import parameters_of

POLICIES: Final = (OURS, *BASELINES, "dragon", BOUND)
PUBLISHED: Final = ("pollux", "optimus", "tiresias")
"""Policies whose results were published with the workloads of Pollux, as their folders name them."""
_LOAD: Final = "1.0"  # of the published results: the job load of `workloads`
_NUMBERS: Final = range(1, 9)
_MOST_UNFAIR: Final = 2.0
_REMARKS: Final = remarks_of("ours_traces")


class Trace(Struct, frozen=True, kw_only=True):
    """One published trace, or all of its workloads of one kind."""

    name: str
    title: str
    files: Sequence[str]
    """Relative to the directory; each is a run of its own."""
    options: str = ""
    """As on the command line."""
    policies: Sequence[str] = POLICIES
    tick: float
    """How often a policy is asked when nothing else happens, seconds."""
    source: str

    def key(self, policy: str) -> str:
        """Return the key of the runs of a policy on it."""
        return f"{self.name}/{policy}"


_POLLUX: Final = tuple(f"pollux/workloads/workload-{number}.csv" for number in _NUMBERS)
_POLLUX_SOURCE: Final = (
    "Qiao et al., Pollux, OSDI 2021, branch osdi21-artifact of github.com/petuum/adaptdl, "
    "simulator/workloads and simulator/traces"
)
ELASTIC: Final = Trace(
    name="pollux, elastic",
    title="Pollux: 8 workloads of 160 jobs on 16 nodes with 4 GPUs, any number of replicas",
    files=_POLLUX,
    policies=(OURS, QUOTA, "dragon", BOUND),
    tick=60.0,
    source=_POLLUX_SOURCE,
)
RIGID: Final = Trace(
    name="pollux, rigid",
    title="Pollux: the same jobs, each with as many replicas as its row says",
    files=_POLLUX,
    options="elastic=false",
    tick=60.0,
    source=_POLLUX_SOURCE,
)
PHILLY: Final = Trace(
    name="philly",
    title="Philly: 2,000 jobs from the 31st day on, on 48 nodes with 8 GPUs",
    files=("philly/philly.csv",),
    options="start=2592000,limit=2000,nodes=48",
    tick=300.0,
    source=(
        "Jeon et al., USENIX ATC 2019, as cleaned by the authors of Pollux: branch osdi21-artifact of "
        "github.com/petuum/adaptdl, simulator/traces/philly.csv"
    ),
)
OPENB: Final = Trace(
    name="openb",
    title="Alibaba openb: the last 2,000 pods, on 3 nodes with 8 GPUs",
    files=("alibaba/openb_pod_list_default.csv",),
    options="start=12251429,limit=2000,nodes=3",
    tick=300.0,
    source=(
        "Weng et al., USENIX ATC 2023, github.com/alibaba/clusterdata, cluster-trace-gpu-v2023, "
        "openb_pod_list_default.csv"
    ),
)
TRACES: Final = (ELASTIC, RIGID, PHILLY, OPENB)


def trace_reproduction(directory: Path) -> Reproduction:
    """Return the comparison on the traces that the directory holds; raises ValueError where it holds none."""
    if not any(_files(directory, trace) for trace in TRACES):
        wanted = ", ".join(sorted({trace.files[0] for trace in TRACES}))
        raise ValueError(f"traces: {directory} holds none of {wanted}")
    return Reproduction(
        name="traces",
        title="specon's own policy, progress, on published traces",
        runs=partial(trace_runs, directory),
        sections=partial(trace_sections, directory),
        printed=False,
        remarks=_REMARKS["general"],
    )


def trace_runs(directory: Path, quick: bool) -> Sequence[Run]:  # noqa: FBT001  (as Reproduction.runs)
    """Return the runs; with `quick` 40 jobs of the first workload of each trace.

    The number of a workload stands in for the seed. Raises TraceError where a file cannot be read.
    """
    return tuple(run for trace in TRACES for run in _runs(directory, trace, quick=quick))


def _runs(directory: Path, trace: Trace, *, quick: bool) -> Iterator[Run]:
    files = _files(directory, trace)
    limit = "limit=40" if quick else ""
    kept = [option for option in trace.options.split(",") if option and not (quick and "limit" in option)]
    options = ",".join(filter(None, (*kept, limit)))
    for number, path in list(files.items())[: 1 if quick else None]:
        workload = read_workload(path, options=parameters_of(options, TraceOptions))
        settings = msgspec.structs.replace(settings_for(workload), tick=trace.tick)
        for policy in trace.policies:
            yield Run(
                key=trace.key(policy),
                workload=f"{path}:{options}" if options else str(path),
                seed=number,
                policy=policy,
                measure=measure,
                settings=preempting_freely(settings) if policy == BOUND else settings,
            )


def _files(directory: Path, trace: Trace) -> dict[int, Path]:
    """Return those of the trace's files that are there, by number."""
    paths = {number: directory / name for number, name in enumerate(trace.files, start=1)}
    return {number: path for number, path in paths.items() if path.is_file()}


def trace_sections(directory: Path, collected: Collected) -> Sequence[Section]:
    """Return the tables of the measurements; the published results are read from the directory."""
    found = [_beside_published(directory, collected, trace) for trace in (ELASTIC, RIGID)]
    found += [_beside_others(collected, trace) for trace in TRACES]
    return [section for section in found if section.rows or section.lines]


def _beside_published(directory: Path, collected: Collected, trace: Trace) -> Section:
    rows: list[Row | None] = []
    ours = collected.get(trace.key(OURS), ())
    files = list(_files(directory, trace).values())[: len(ours)]
    for name in PUBLISHED:
        path = directory / "pollux" / "results-jobload" / f"{name}-{_LOAD}" / "summary.json"
        if not path.is_file() or not ours:
            continue
        published = read_summary(path)
        pairs = [
            (our, published[file.stem])
            for our, file in zip(ours, files, strict=True)
            if file.stem in published
        ]
        rows += _list_published(name, pairs)
    return Section(
        title=f"{trace.title}: beside published results",
        rows=[row for row in rows if row is not None],
        remarks=_REMARKS["published results"],
    )


def _list_published(name: str, pairs: Sequence[tuple[Measures, Mapping[str, float]]]) -> Iterator[Row | None]:
    """Yield the rows beside one published policy, of the workloads all of whose jobs ended here too."""
    theirs, ours, faster = [], [], []
    for our, their in pairs:
        times = {key.rpartition("/")[2]: value for key, value in our.items() if key.startswith(JOB)}
        if not times or times.keys() != their.keys():
            continue  # fewer jobs would have had less to wait for than those that were published
        ours.append(sum(times.values()) / len(times))
        theirs.append(sum(their.values()) / len(their))
        faster.append(100 * sum(times[job] < their[job] for job in times) / len(times))
    yield compare_means(f"{name}: average completion time", theirs, ours)
    yield compare_pairs(f"{name}: difference on the same workloads", theirs, ours)
    if faster:
        yield Row(what=f"{name}: jobs that are faster with ours", paper=None, default=mean(faster), unit="%")


def _beside_others(collected: Collected, trace: Trace) -> Section:
    rows: list[Row | None] = []
    ours = values(collected, trace.key(OURS))
    for policy in trace.policies[1:]:
        theirs = values(collected, trace.key(policy))
        if ours is None or theirs is None or len(ours) != len(theirs):
            continue
        if policy == BOUND:
            what = f"{policy}, which knows the future: average completion time"
            note = restarts(collected, trace.key(policy))
            rows.append(
                Row(what=what, paper=mean(theirs), default=mean(ours), unit="s", runs=len(ours), note=note)
            )
            continue
        rows.append(compare_means(f"{policy}: average completion time", theirs, ours))
        rows.append(compare_pairs(f"{policy}: difference on the same workloads", theirs, ours))
    baselines = [trace.key(policy) for policy in BASELINES]
    what = f"jobs that finish more than {LATER_PERCENT:g} % later than with the better baseline"
    rows.append(later_row(what, collected, trace.key(OURS), baselines))
    what = f"way from {QUOTA} to {BOUND}"
    rows.append(way_row(what, collected, trace.key(QUOTA), trace.key(OURS), trace.key(BOUND)))
    rows.append(_fairness(collected, trace))
    lines = [
        side_by_side(policy, collected, trace.key(policy), trace.key(QUOTA)) for policy in trace.policies
    ]
    options = trace.options or "(none)"
    return Section(
        title=trace.title,
        rows=[row for row in rows if row is not None],
        columns=COLUMNS,
        lines=[line for line in lines if line is not None],
        remarks=(
            f"Source: {trace.source}. Options of the trace: {options}.",
            *_REMARKS["each trace"],
        ),
    )


def _fairness(collected: Collected, trace: Trace) -> Row | None:
    ours, quota = (values(collected, trace.key(policy), FAIRNESS) for policy in (OURS, QUOTA))
    if ours is None:
        return None
    fair = mean(ours)
    assert fair is not None
    return Row(
        what=f"finish-time fairness, p99, beside {QUOTA}",
        paper=None if quota is None else mean(quota),
        default=fair,
        tolerance=f"below {_MOST_UNFAIR:g}",
        reproduced=judge_figure(fair < _MOST_UNFAIR, len(ours)),
        runs=len(ours),
    )
