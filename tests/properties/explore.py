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


def explore(machine: type[RuleBasedStateMachine], seed: int, *, shrink: bool) -> bool:
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
            found += not explore(machine, seed, shrink=arguments.shrink)
        if arguments.seed is not None:
            break
    print(f"{runs} runs of {_EXAMPLES} examples, {found} with a finding")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
