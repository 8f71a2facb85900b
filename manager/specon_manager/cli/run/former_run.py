"""What an earlier run of a job file left: which jobs are not run again, and what changed in them since."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from specon_manager.backends.local.jobs import LocalJob, job_spec
from specon_manager.core.state import State
from specon_manager.views.names import cut, job_label

_MOST_NAMES: Final = 10
_LONGEST: Final = 300  # characters of a line


def remarks(jobs: Sequence[LocalJob], state: State) -> Iterator[str]:
    """Yield which jobs were submitted by an earlier run, which of them ended, and the changes since."""
    ended, new = [], []
    for job in jobs:
        known = state.jobs.get(job_spec(job).name)
        if known is None:
            new.append(job.name)
            continue
        over = known.ended_at is not None
        if changed := _list_changes(job, known.spec.template):
            fate = "it has ended, and is not run again" if over else "it continues as it was submitted"
            yield f"job {job.name}: {', '.join(changed)} changed since it was submitted: {fate}"
            yield from _values(job, known.spec.template)
        elif over:
            ended.append(job.name)
    if new and state.jobs:
        yield f"run for the first time: {_list(new)}"
    gone = sorted(state.jobs.keys() - {job_spec(job).name for job in jobs})
    if jobs and (left := [job_label(name) for name in gone if state.jobs[name].ended_at is None]):
        yield f"not in the job file, and they go on: {_list(left)}"
    if ended:
        yield f"not run again, for an earlier run brought them to their end: {_list(ended)}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")


def _values(now: LocalJob, then: Mapping[str, object]) -> Iterator[str]:
    """Yield what each changed field was and is; of an environment its values may be secrets."""
    before, after = dict(then), msgspec.to_builtins(now)
    for name in _list_changes(now, then):
        if name in after and name != "environment":
            yield cut(
                f"{name} of job {now.name}: {_show(before.get(name))} is now {_show(after[name])}", _LONGEST
            )


def _show(value: object) -> str:
    if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        return shlex.join(value)
    return "not set" if value is None else str(value)


def _list_changes(now: LocalJob, then: object) -> list[str]:
    """Return the fields in which a job differs from the submitted one, as a job file calls them."""
    try:
        # What a later version knows and an earlier one did not is as if it had not been given.
        before = msgspec.convert(then, LocalJob)
    except msgspec.ValidationError:
        return ["its description"]
    fields = msgspec.structs.fields(LocalJob)
    return [each.encode_name for each in fields if getattr(now, each.name) != getattr(before, each.name)]
