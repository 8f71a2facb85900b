"""What an earlier run of a job file left: which jobs are not run again, and what changed in them since."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from specon_manager.backends.local.jobs import LocalJob, job_spec
from specon_manager.core.state import State

_MOST_NAMES: Final = 10


def remarks(jobs: Sequence[LocalJob], state: State) -> Iterator[str]:
    """Yield which jobs were submitted by an earlier run, which of them ended, and what was changed since."""
    ended = []
    for job in jobs:
        known = state.jobs.get(job_spec(job).name)
        if known is None:
            continue
        over = known.ended_at is not None
        if changed := _changed(job, known.spec.template):
            fate = "it has ended, and is not run again" if over else "it goes on as it was submitted"
            yield f"job {job.name}: {', '.join(changed)} changed since it was submitted: {fate}"
        elif over:
            ended.append(job.name)
    if ended:
        names = ", ".join(ended[:_MOST_NAMES]) + (", ..." if len(ended) > _MOST_NAMES else "")
        yield f"not run again, for an earlier run brought them to their end: {names}"


def _changed(now: LocalJob, then: object) -> list[str]:
    """Return the fields in which a job differs from what was submitted, as a job file calls them."""
    try:
        # What a later version knows and an earlier one did not is as if it had not been given.
        before = msgspec.convert(then, LocalJob)
    except msgspec.ValidationError:
        return ["its description"]
    fields = msgspec.structs.fields(LocalJob)
    return [each.encode_name for each in fields if getattr(now, each.name) != getattr(before, each.name)]
