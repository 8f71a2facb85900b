"""Feeds the manager's readers of objects, and its reviews, with mutated objects.

`make fuzz-objects`, or `python tests/fuzz/fuzz_objects.py COUNT`. An object that breaks something is written
to `object_cases/`, where `test_objects.py` finds it again.
"""

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from fuzz import objects_target  # noqa: E402
from fuzz.object_mutations import mutated  # noqa: E402
from fuzz.object_seeds import SEEDS  # noqa: E402

CASES: Final = HERE / "object_cases"
_SHOWN: Final = 20_000


def objects(count: int, seed: int) -> Any:
    """Yield so many mutated objects with what they are; the same for the same seed."""
    random = Random(seed)
    everything = [each for listed in SEEDS.values() for each in listed]
    kinds = [*SEEDS, "review", "pod", "owner", "record"]  # what tenants write most easily
    for _ in range(count):
        what = random.choice(kinds)
        yield what, mutated(random.choice(SEEDS[what]), everything, random)


def main() -> None:
    """Fuzz; the process ends with an error where something broke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, help="how many objects")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    if arguments.count < 1:
        parser.error(f"count must be at least 1, not {arguments.count}")
    _say(f"seed {arguments.seed}")
    broken: Counter[str] = Counter()
    read: Counter[tuple[str, bool]] = Counter()
    began = time.monotonic()
    for number, (what, item) in enumerate(objects(arguments.count, arguments.seed), 1):
        try:
            read[what, objects_target.check(what, item)] += 1
        except Exception as error:  # noqa: BLE001  (this is what is looked for)
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            words = f"{what}: {type(error).__name__} at {where}: {str(error)[:200]}"
            broken[words] += 1
            if broken[words] == 1:
                _say(words)
                CASES.mkdir(exist_ok=True)
                name = f"{what}-{arguments.seed}-{number}.json"
                (CASES / name).write_text(json.dumps({"what": what, "item": item}))
        if number % _SHOWN == 0:
            _say(f"{number} objects, {number / (time.monotonic() - began):.0f} a second")
    for what in SEEDS:
        _say(f"{what}: {read[what, True]} read, {read[what, False]} said nothing")
    raised = Counter(getattr(each, "__qualname__", str(each)) for each in objects_target.unreadable)
    _say(f"raised in a guard: {dict(raised)}")
    if broken:
        sys.exit(f"{sum(broken.values())} objects broke something")


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
