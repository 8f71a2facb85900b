"""Run the property machines with fresh seeds for so many seconds: `make properties SECONDS=600`.

The suite runs them with seeds of its own, the same each time; what is rare is found here. A finding prints
the machine and the seed that shows it again: `python tests/properties/explore.py 60 --only Gangs --seed 7`.
"""

import argparse
import importlib.util
import secrets
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import hypothesis.core
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

_HERE = Path(__file__).parent
_EXAMPLES = 40
"""With each seed; another machine has its turn then."""
_WIDTH = 1200


def machines() -> Iterator[type[RuleBasedStateMachine]]:
    """Yield the machine of each test file here."""
    for path in sorted(_HERE.glob("test_*.py")):
        spec = importlib.util.spec_from_file_location(f"explored_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for each in vars(module).values():
            own = isinstance(each, type) and each.__module__ == module.__name__
            if own and issubclass(each, RuleBasedStateMachine):
                yield each


def show(error: BaseException, trail: int, about: str) -> None:
    """Print the last events and orders before an error that speak of `about`, and what stands in the end."""
    frames, cluster = error.__traceback__, None
    while frames is not None:
        cluster = getattr(frames.tb_frame.f_locals.get("self"), "cluster", cluster)
        frames = frames.tb_next
    if cluster is None or not trail:
        return
    lines = []
    for now, event, actions in cluster.history:
        ordered = [f"    {action}" for action in actions if about in repr(action)]
        quiet = type(event).__name__ in {"ReportReceived", "InstructionDelivered"}
        if ordered or (about in repr(event) and not quiet):
            lines += [f"{now:.1f} {event}", *ordered]
    state = cluster.state
    lines += [str(each) for each in state.replicas.values() if about in each.name]
    lines += [str(each) for each in (*state.transactions.values(), *state.history[-2:]) if about in repr(each)]
    print("\n".join(line[:_WIDTH] for line in lines[-trail:]))


def explore(machine: type[RuleBasedStateMachine], seed: int, *, shrink: bool, trail: int, about: str) -> bool:
    """Run a machine with this seed; return whether all went well."""
    hypothesis.core.global_force_seed = seed
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    found = settings(
        max_examples=_EXAMPLES,
        stateful_step_count=40,
        deadline=None,
        database=None,
        phases=phases,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(machine, settings=found)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is a finding)
        for each in error.exceptions if isinstance(error, ExceptionGroup) else [error]:
            show(each, trail, about)
            where = traceback.extract_tb(each.__traceback__)[-1]
            words = str(each)[:300] or where.line
            place = f"{Path(where.filename).name}:{where.lineno} {where.name}"
            print(f"FOUND {machine.__name__} --seed {seed}: {place}: {words}", flush=True)
        return False
    return True


def main() -> int:
    """Explore for so many seconds; return 1 where anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--only", help="one machine, by its name")
    parser.add_argument("--seed", type=int, help="this seed alone")
    parser.add_argument("--shrink", action="store_true", help="look for the shortest way to a finding")
    parser.add_argument("--trail", type=int, default=0, help="print so many lines of what led to a finding")
    parser.add_argument("--about", default="", help="only what speaks of this job or replica")
    arguments = parser.parse_args()
    sys.path.insert(0, str(_HERE.parent))
    known = [each for each in machines() if arguments.only in {None, each.__name__}]
    if not known:
        parser.error(f"--only: there is no machine {arguments.only}")
    ends, runs, found = time.monotonic() + arguments.seconds, 0, 0
    while time.monotonic() < ends:
        for machine in known:
            seed = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed
            runs += 1
            found += not explore(
                machine, seed, shrink=arguments.shrink, trail=arguments.trail, about=arguments.about
            )
        if arguments.seed is not None:
            break
    print(f"{runs} runs of {_EXAMPLES} examples, {found} with a finding")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
