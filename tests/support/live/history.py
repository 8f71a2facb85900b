"""What a trainer says of its interruptions: steps that it trained twice, seconds between two lives."""

import itertools
import re
from typing import Final

from specon_manager.backends.kube.transport.resources import Object
from support.live.stage import LiveStage
from support.local.trainer import TIMES

_TIME: Final = re.compile(r"(began|ended) step=\d+ at=([\d.]+)")


def steps_lost(log: str) -> int:
    """Return how many steps a log tells of twice, at each start those after its checkpoint."""
    steps, last = 0, 0
    for line in log.splitlines():
        if resumed := re.match(r"resumed from step=(\d+) ", line):
            steps += max(0, last - int(resumed[1]))
        elif found := re.match(r"(?:stopped at |checkpoint saved )?step=(\d+)", line):
            last = int(found[1])
    return steps


def downtimes(times: str) -> list[float]:
    """Return the seconds from each end of a trainer to the first step of the next one.

    One that was killed told of no end: what it ended in is not among them.
    """
    found = [(match[1], float(match[2])) for match in map(_TIME.fullmatch, times.splitlines()) if match]
    return [
        round(after - before, 1)
        for (what, before), (next_, after) in itertools.pairwise(found)
        if (what, next_) == ("ended", "began")
    ]


async def cost(live: LiveStage, what: str, directory: str, migration: Object) -> int:
    """Return the steps lost by the trainer's own word; print them and the downtime beside the record's."""
    left = await live.result(directory)
    steps = steps_lost(left["train.log"])
    told = [migration.get(key) for key in ("state", "stepsLost", "downtimeSeconds")]
    seconds = downtimes(left[TIMES])
    print(f"{what}: recorded {told}; the trainer: {steps} steps lost, down for {seconds} s", flush=True)  # noqa: T201
    return steps
