"""A JobSet of several Jobs as one gang: the numbers of its pods, and what stands against it. Pure.

Sources: JobSet v1alpha2 (`jobset_types.go`), and how its controller counts Jobs (`globalJobIndex`).
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from specon_manager.backends.kube.objects.annotation_reader import options_said
from specon_manager.backends.kube.objects.fields import mapping, mappings
from specon_manager.backends.kube.objects.job_patch import indexes_of
from specon_manager.backends.kube.objects.quantities import requested_amounts, resources_of
from specon_manager.backends.kube.objects.scheduling import constraints_of
from specon_manager.model.resources import Resources

PODS_OF_A_JOB: Final = 1000
"""So many at most: a pod tells the index of its Job and its own in that, not how many the others have."""
_JOBS: Final = 1_000_000
"""So many at most: the index of a replica has nine digits."""
_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"


def index_in_set(job: int | None, index: int | None) -> int | None:
    """Return the index of a pod among all of its JobSet, from that of its Job and its own in it.

    None where either is not known, or where there are too many Jobs, or pods of the Job, for a number each.
    """
    if job is None or index is None or job >= _JOBS or index >= PODS_OF_A_JOB:
        return None
    return job * PODS_OF_A_JOB + index


def members_of(times: Sequence[int], sizes: Sequence[int], most: int) -> Iterator[int]:
    """Yield the indices of all pods, `most` at most.

    `times` says how often each replicated Job is made, `sizes` how many pods each such Job has. One without
    any is not gone through: an object may say that there are billions.
    """
    found = (
        index_in_set(job, index)
        for begun, several, size in zip(itertools.accumulate(times, initial=0), times, sizes, strict=False)
        if size > 0
        for job in range(begun, min(begun + several, _JOBS))
        for index in range(min(size, PODS_OF_A_JOB))
    )
    return itertools.islice((index for index in found if index is not None), most)


def requests_by_index(
    times: Sequence[int], jobs: Sequence[Mapping[str, Any]]
) -> tuple[tuple[int, Resources], ...]:
    """Return what a pod requests from which index on, empty where all request the same.

    `times` says how often each replicated Job is made, `jobs` are their specifications.
    """
    found: list[tuple[int, Resources]] = []
    begun = 0
    for several, job in zip(times, jobs, strict=True):
        asked = resources_of(requested_amounts(mapping(mapping(job.get("template")).get("spec"))))
        if several > 0 and (not found or found[-1][1] != asked):
            found.append((begun * PODS_OF_A_JOB, asked))
        begun += max(0, several)
    return tuple(found) if len(found) > 1 else ()


def why_apart(job_set: Mapping[str, Any], jobs: Sequence[Mapping[str, Any]]) -> str:
    """Return why its Jobs cannot come and go as one, in words that follow "Jobs,"; empty where they can.

    `jobs` are the specifications of its replicated Jobs.
    """
    listed = mappings(mapping(job_set.get("spec")).get("replicatedJobs"))
    if any(each.get("dependsOn") for each in listed):
        return "and some wait for others (dependsOn)"
    holders = (job_set, *(mapping(each.get("template")) for each in listed))
    if any(_EXCLUSIVE in mapping(mapping(each.get("metadata")).get("annotations")) for each in holders):
        return f"and each has nodes of its own ({_EXCLUSIVE})"
    templates = [mapping(job.get("template")) for job in jobs]
    pods = [mapping(each.get("spec")) for each in templates]
    said = [options_said(mapping(mapping(each.get("metadata")).get("annotations"))) for each in templates]
    if _differ([constraints_of(pod) for pod in pods]):
        return "whose pods may not run on the same nodes"
    if _differ(said):
        return "whose pods have different annotations"
    if any(indexes_of(job) > PODS_OF_A_JOB for job in jobs):
        return f"and one has more than {PODS_OF_A_JOB} pods"
    return ""


def _differ(found: Sequence[object]) -> bool:
    return any(each != found[0] for each in found)
