"""What two teams get in the fluid, which the benchmark of fair shares is measured by."""

from pathlib import Path

import msgspec
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.parametrize(("quiet_jobs", "part"), [(64, 0.5), (8, 0.25)])
def test_a_team_gets_half_or_what_its_jobs_can_use(monkeypatch, quiet_jobs, part):
    """The cluster has 32 GPUs; the other team gets the part that it cannot use."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import fair_shares  # noqa: PLC0415 - it is no package

    work = fair_shares.workload(64, (1.0,))
    both = {fair_shares.BUSY: 64, fair_shares.QUIET: quiet_jobs}
    jobs = []
    for job in work.jobs:
        if both[job.spec.queue] > 0:
            both[job.spec.queue] -= 1
            training = msgspec.structs.replace(job.training, seconds=1e6)
            jobs.append(msgspec.structs.replace(job, at=0.0, training=training))
    same = msgspec.structs.replace(work, jobs=tuple(jobs))
    assert fair_shares.fluid(same, 600.0) == pytest.approx(part)
