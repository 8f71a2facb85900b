"""Every made-up workload by name: what it is, what can be set, and the function that generates it."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from specon_lab.workloads import dragon, fitgpp, kod2, kubeflow, poisson, specon
from specon_lab.workloads.parameters import parameters_of
from specon_lab.workloads.workload import Workload


class WorkloadKind(Struct, frozen=True, kw_only=True):
    """One generator: a pure function of its settings and a seed."""

    name: str
    summary: str
    settings: type[Struct]
    generate: Callable[[Any, int], Workload]


WORKLOADS: Final[Mapping[str, WorkloadKind]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            WorkloadKind(
                name="specon-fixed",
                summary="SpeCon: 20 VAE jobs, one every 50 s, on 4 nodes",
                settings=specon.SpeConFixed,
                generate=specon.make_regular_arrivals,
            ),
            WorkloadKind(
                name="specon-random",
                summary="SpeCon: 20 VAE jobs within 300 s on 4 nodes",
                settings=specon.SpeConRandom,
                generate=partial(specon.draw_arrivals, "specon-random"),
            ),
            WorkloadKind(
                name="specon-mixed-20",
                summary="SpeCon: 20 jobs of 10 types within 300 s on 4 nodes",
                settings=specon.SpeConMixed20,
                generate=partial(specon.draw_arrivals, "specon-mixed-20"),
            ),
            WorkloadKind(
                name="specon-mixed-30",
                summary="SpeCon: 30 jobs of 10 types within 600 s on 4 nodes",
                settings=specon.SpeConMixed30,
                generate=partial(specon.draw_arrivals, "specon-mixed-30"),
            ),
            WorkloadKind(
                name="specon-mixed-50",
                summary="SpeCon: 50 jobs of 10 types within 1200 s on 8 nodes",
                settings=specon.SpeConMixed50,
                generate=partial(specon.draw_arrivals, "specon-mixed-50"),
            ),
            WorkloadKind(
                name="kod2",
                summary="KOD2: 10 parameter-server jobs, one every 30 s, on 3 nodes; model and batch",
                settings=kod2.KOD2Workload,
                generate=kod2.generate,
            ),
            WorkloadKind(
                name="dragon-table1",
                summary="DRAGON: the 12 jobs of Table 1 on 2 nodes with 4 GPUs",
                settings=dragon.DragonTable1,
                generate=dragon.table_1,
            ),
            WorkloadKind(
                name="dragon-random",
                summary="DRAGON: 100 jobs of 2 to 8 workers on 4 nodes with 8 GPUs",
                settings=dragon.DragonRandom,
                generate=dragon.draw_workload,
            ),
            WorkloadKind(
                name="fitgpp",
                summary="FitGpp: 24,000 trials and best-effort jobs on 84 nodes, kept at twice its capacity",
                settings=fitgpp.FitGppWorkload,
                generate=fitgpp.generate,
            ),
            WorkloadKind(
                name="kubeflow",
                summary="Kubeflow dynamic scheduler: three scenarios of 12 jobs with utilities on 3 nodes",
                settings=kubeflow.KubeflowWorkload,
                generate=kubeflow.generate,
            ),
            WorkloadKind(
                name="poisson",
                summary="independent arrivals, log-normal durations, 1 to 8 GPUs, some of them elastic",
                settings=poisson.PoissonWorkload,
                generate=poisson.generate,
            ),
        )
    }
)


def workload_named(text: str, seed: int) -> Workload:
    """Return the workload `NAME` or `NAME:key=value,key=value`; a list is written 1/2/3.

    Raises ValueError that names the workload, or the key with its value.
    """
    name, _, given = text.partition(":")
    if name not in WORKLOADS:
        raise ValueError(f"workload: {name!r} is not one of {', '.join(WORKLOADS)}")
    kind = WORKLOADS[name]
    try:
        return kind.generate(parameters_of(given, kind.settings), seed)
    except ValueError as error:
        raise ValueError(f"workload {name}: {error}") from error
