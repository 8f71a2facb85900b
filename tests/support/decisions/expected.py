"""Layouts with known expectations: the rest of a job, the duration of its kind, the sharers of a node."""

import msgspec
from hypothesis import strategies as st

from specon_manager.model.cluster import JobSpec, Phase, Served
from specon_manager.model.progress import Progress
from specon_manager.model.resources import NOTHING
from specon_sidecar.classify.curve import Estimate
from support.decisions.gang_worlds import NOW, Layout, layouts, spec_of


def sharing(name: str, workers: int = 1, **changes: object) -> JobSpec:
    """Return a job that reserves nothing."""
    return spec_of(name, workers, requests=NOTHING, **changes)


def left(layout: Layout, job: str, seconds: float, *, at: float = NOW) -> Layout:
    """Let the sidecars of a job have said at `at` that so many seconds are left."""
    spec = layout.state.jobs[f"default/{job}"].spec
    told = Progress(
        step=50,
        total_steps=100,
        remaining_seconds=Estimate(value=seconds, uncertainty=0.0),
        reported_at=at,
    )
    for name in spec.replicas:
        layout.change(name.removeprefix("default/"), progress=told)
    return layout


def left_alone(layout: Layout, job: str, seconds: float, *, cores: float = 8.0, at: float = NOW) -> Layout:
    """Let a sidecar have measured what a step costs, so that alone on its node so much is left."""
    told = Progress(step=50, total_steps=150, cpu_per_step=seconds * cores / 100, reported_at=at)
    return layout.change(f"{job}/worker/0", progress=told)


def served(layout: Layout, **kinds: tuple[int, float]) -> Layout:
    """Let so many jobs of each kind have taken so many seconds on average."""
    learnt = {kind: Served(jobs=jobs, mean_seconds=mean) for kind, (jobs, mean) in kinds.items()}
    layout.state = msgspec.structs.replace(layout.state, served=learnt)
    return layout


def in_place(layout: Layout, *, reweight: bool = True) -> Layout:
    """Let shares of processors be changeable in place, or not."""
    settings = msgspec.structs.replace(layout.state.settings, reweight=reweight)
    layout.state = msgspec.structs.replace(layout.state, settings=settings)
    return layout


@st.composite
def worlds(draw: st.DrawFn) -> Layout:
    """Draw what `layouts` draws, and trials, jobs that share, crashed or starve, and what is known."""
    layout = in_place(draw(layouts()), reweight=draw(st.booleans()))
    for job in list(layout.state.jobs.values()):
        changes = dict[str, object]()
        if draw(st.sampled_from([False, False, True])):
            changes["spec"] = msgspec.structs.replace(job.spec, job_class="trial")
        if draw(st.sampled_from([False, False, True])):
            changes["submitted_at"] = NOW - 1e6
        changed = msgspec.structs.replace(job, **changes)
        layout.state = layout.state.with_job(changed)
        members = [layout.state.replicas[name] for name in job.spec.replicas]
        running = [replica for replica in members if replica.phase is Phase.RUNNING]
        if len(running) > 1 and draw(st.sampled_from([False, False, False, True])):
            crashed = msgspec.structs.replace(running[-1], phase=Phase.PENDING, crashes=1, leaving=None)
            stopped = msgspec.structs.replace(changed, trains_since=None)
            layout.state = layout.state.with_replica(crashed).with_job(stopped)
    nodes = sorted(layout.state.nodes)
    for number in range(draw(st.integers(0, 4))):
        spec = sharing(
            f"sharing-{number}",
            draw(st.sampled_from([1, 1, 2])),
            checkpointing=draw(st.sampled_from(["asked", "asked", "none"])),
        )
        runs = draw(st.booleans())
        places = [draw(st.sampled_from(nodes))[-1] for _ in spec.replicas] if runs else []
        layout.add(spec, " ".join(places))
        for name in spec.replicas:
            layout.change(name.removeprefix("default/"), weight=draw(st.sampled_from([1.0, 0.02])))
    for job in layout.state.jobs.values():
        if draw(st.booleans()):
            left(layout, job.name.removeprefix("default/"), float(draw(st.integers(0, 3000))))
    return layout
