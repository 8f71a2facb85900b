"""Five thousand pods that appear at once."""

import asyncio
import resource
import time

from fakekube.kinds import PODS

COUNT = 5000


async def test_five_thousand_pods_at_once_never_block_the_loop_of_a_manager_for_long(stage, record_property):
    """The CPU time between two turns of the loop counts: other processes take as much of the clock as they like.

    The fake cluster shares the loop, so its part is kept small: no controllers, and pods stored as they are.
    """
    manager = await stage.manage_and_lead()
    controller = manager.serves._server.controller
    await stage.freeze_controllers()
    turns: list[float] = []
    beating = asyncio.create_task(beat(turns))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(COUNT):
        stage.cluster.store.put(PODS, stage.running_pod(f"many-{number}"))
        if number % 50 == 0:
            await asyncio.sleep(0)
    await stage.until(lambda: len(controller.state.replicas) == COUNT, "all are known", seconds=90)
    beating.cancel()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    longest = max(turns)
    record_property("longest_turn_seconds", longest)
    record_property("grown_kib", grown)
    print(f"longest turn {1000 * longest:.0f} ms of CPU, {grown / 1024:.0f} MiB more")
    assert longest < 0.2


async def beat(turns: list[float]) -> None:
    """Note the CPU time of each turn of the loop."""
    while True:
        began = time.process_time()
        await asyncio.sleep(0)
        turns.append(time.process_time() - began)
