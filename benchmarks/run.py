"""All benchmarks, or those that are named: each prints its figures beside their bounds.

`python benchmarks/run.py [NAME ...] [--smallest] [--json FILE]`. Figures are ratios against a baseline of the
same run where that makes sense; nothing here is a test, and a missed bound is told, not punished.
"""

import argparse
import json
import time
from pathlib import Path

import blocked_worker
import checkpoints
import cluster
import defragment
import defragment_cluster
import drain_cluster
import fair_shares
import gang_move
import gpu_turns
import helper_call
import log_relay
import manager_memory
import move_downtime
import plan
import report_ingestion
import sidecar_lines
import sidecar_process
import simulated_reports
import simulator
import starts
import time_slices
import trainer_slowdown
import waiting
from figure import Figure, Measure, as_json, show
from specon_manager.usage import UsageError

BENCHMARKS: dict[str, tuple[str, Measure, Measure]] = {
    "sidecar-lines": (
        "how fast logs are read",
        lambda: sidecar_lines.figures(sidecar_lines.measure()),
        sidecar_lines.smallest,
    ),
    "sidecar-process": ("a whole sidecar", sidecar_process.measure, sidecar_process.smallest),
    "checkpoints": ("looking for and verifying checkpoints", checkpoints.measure, checkpoints.smallest),
    "trainer-slowdown": (
        "what a sidecar takes from its trainer",
        trainer_slowdown.measure,
        trainer_slowdown.smallest,
    ),
    "helper-call": ("what a call of the trainer's helper costs", helper_call.measure, helper_call.smallest),
    "move-downtime": (
        "downtime of a move beyond the trainer's own",
        move_downtime.measure,
        move_downtime.smallest,
    ),
    "gang-move": (
        "downtime of a gang's move beyond the trainer's own",
        gang_move.quick,
        gang_move.smallest,
    ),
    "report-ingestion": (
        "reports against a bare handler",
        report_ingestion.measure,
        report_ingestion.smallest,
    ),
    "log-relay": ("what trainers print, relayed", log_relay.measure, log_relay.smallest),
    "plan": ("one Tick on large clusters", plan.measure, plan.smallest),
    "defragment": ("moves that make room on 500 nodes", defragment.measure, defragment.smallest),
    "defragment-cluster": (
        "moves that make room, carried out on 500 nodes",
        defragment_cluster.measure,
        defragment_cluster.smallest,
    ),
    "drain-cluster": ("gangs leave 200 drained nodes", drain_cluster.measure, drain_cluster.smallest),
    "manager-memory": ("a manager of 10,000 replicas", manager_memory.measure, manager_memory.smallest),
    "cluster": ("the manager of a large cluster", cluster.measure, cluster.smallest),
    "simulator": ("simulations of full size", simulator.measure, simulator.smallest),
    "simulated-reports": (
        "what a simulated sidecar's report costs",
        simulated_reports.measure,
        simulated_reports.smallest,
    ),
    "blocked-worker": (
        "what a worker uses that waits for the network",
        blocked_worker.measure,
        blocked_worker.smallest,
    ),
    "time-slices": ("what stopping a whole trainer costs", time_slices.measure, time_slices.smallest),
    "gpu-turns": ("what turns are worth on a GPU", gpu_turns.measure, gpu_turns.smallest),
    "starts": ("how well it is told when waiting jobs start", starts.measure, starts.smallest),
    "fair-shares": ("what two teams of equal quotas get", fair_shares.measure, fair_shares.smallest),
    "waiting": ("how long jobs wait, without and with a bound", waiting.measure, waiting.smallest),
}
"""By name: what it is about, the benchmark, and its smallest form."""


def main() -> None:
    """Run the chosen benchmarks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    parser.add_argument("--smallest", action="store_true", help="show that they work, measure nothing")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"{', '.join(unknown)}: not one of {', '.join(BENCHMARKS)}")
    measured: dict[str, list[Figure]] = {}
    for name in arguments.names or BENCHMARKS:
        title, measure, smallest = BENCHMARKS[name]
        began = time.perf_counter()
        try:
            measured[name] = list(smallest() if arguments.smallest else measure())
        except UsageError as error:  # there is no GPU
            print(f"{name}: {title}: left out: {error}\n", flush=True)
            continue
        print(f"{name}: {title} ({time.perf_counter() - began:.0f} s)")
        show(measured[name])
        print(flush=True)
    _summarize(measured)
    if arguments.json is not None:
        content = {name: as_json(figures) for name, figures in measured.items()}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _summarize(measured: dict[str, list[Figure]]) -> None:
    """Print how many bounds hold, and each that does not."""
    judged = [(name, figure) for name, figures in measured.items() for figure in figures]
    bounds = [(name, figure) for name, figure in judged if figure.holds is not None]
    missed = [(name, figure) for name, figure in bounds if not figure.holds]
    print(f"{len(bounds) - len(missed)} of {len(bounds)} bounds hold")
    for name, figure in missed:
        print(f"  missed: {name}, {figure.what}: {figure.value:.3g} {figure.unit}, bound {figure.bound}")


if __name__ == "__main__":
    main()
