"""Five thousand pods that appear at once."""

import asyncio.events
import resource
import time

from fakekube.kinds import PODS
from support.kube.training_templates import running_pod

COUNT = 5000
LONGEST = 0.2


async def test_five_thousand_pods_at_once_never_block_the_loop_for_long(stage, record_property, monkeypatch):
    """The CPU time of each callback counts: other processes take as much of the clock as they like.

    The fake cluster shares the loop; it has no controllers here, and pods are stored as they are.
    """
    manager = await stage.manage_and_lead()
    controller = manager.serves._server.controller
    await stage.freeze_controllers()
    longest = 0.0
    run = asyncio.events.Handle._run

    def timed(handle: asyncio.events.Handle) -> None:
        nonlocal longest
        began = time.process_time()
        run(handle)
        longest = max(longest, time.process_time() - began)

    monkeypatch.setattr(asyncio.events.Handle, "_run", timed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(COUNT):
        stage.cluster.store.put(PODS, running_pod(f"many-{number}", stage.cluster.clock.text()))
        if number % 50 == 0:
            await asyncio.sleep(0)
    await stage.until(lambda: len(controller.state.replicas) == COUNT, "all are known", seconds=90)
    monkeypatch.undo()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    record_property("longest_callback_seconds", longest)
    record_property("grown_kib", grown)
    assert longest < LONGEST, f"and memory grew by {grown / 1024:.0f} MiB"
