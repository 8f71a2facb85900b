"""The end of a pod, in order and out of it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from specon_manager.backends.local import pods, supervise

if TYPE_CHECKING:
    from conftest import Place

pytestmark = pytest.mark.processes


SIDECAR_THAT_LOOKS = """
def told(*_):
    there = os.path.exists(f'/proc/{sys.argv[1]}')
    print('sidecar told', 'before' if there else 'after', 'the trainer was gone', file=open(sys.argv[2], 'a'))
    sys.exit()
signal.signal(signal.SIGTERM, told)
print('sidecar ready', file=open(sys.argv[2], 'a'), flush=True)
while True: signal.pause()
"""
TRAINER_THAT_SAVES = """
def told(*_):
    time.sleep(0.2)
    print('trainer saved', file=open(sys.argv[1], 'a'), flush=True)
    sys.exit(4)
signal.signal(signal.SIGTERM, told)
print('ready', flush=True)
while True: signal.pause()
"""


async def test_the_sidecar_outlives_the_trainer(place: Place) -> None:
    """An eviction ends the trainer first; only when it is gone is the sidecar told to end."""
    path = place.folder / "order"
    pod = await pods.start(
        place.spec(
            place.python(TRAINER_THAT_SAVES, str(path)),
            sidecar_command=place.python(SIDECAR_THAT_LOOKS, "{trainer_pid}", str(path)),
        )
    )
    await place.ready()
    await place.eventually(lambda: place.lines(path) == ["sidecar ready"])
    exit_ = await pod.evict()
    assert (exit_.code, exit_.signal, exit_.reason) == (4, None, "evicted")
    assert place.lines(path)[1:] == ["trainer saved", "sidecar told after the trainer was gone"]
    assert place.processes() == []
    assert await pod.evict() == exit_


DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\nwhile True: signal.pause()"


async def test_a_deaf_trainer_is_killed_after_the_grace(place: Place) -> None:
    """A trainer that ignores SIGTERM has its grace and no more."""
    pod = await pods.start(place.spec(place.python(DEAF), grace_seconds=0.3))
    await place.ready()
    begun = time.monotonic()
    exit_ = await pod.evict()
    assert (exit_.code, exit_.signal, exit_.reason) == (None, 9, "killed after grace")
    assert time.monotonic() - begun >= 0.3


async def test_a_later_eviction_may_shorten_the_grace(place: Place) -> None:
    """The grace of an eviction wins over the specification's, and a second one may shorten the first."""
    pod = await pods.start(place.spec(place.python(DEAF), grace_seconds=600.0))
    await place.ready()
    first = asyncio.create_task(pod.evict())
    await asyncio.sleep(0)
    assert pod.alive
    second = await asyncio.wait_for(pod.evict(0.1), 60)
    assert second.reason == "killed after grace"
    assert await asyncio.wait_for(first, 60) == second


async def test_a_deaf_sidecar_is_killed_after_its_grace(place: Place) -> None:
    """A sidecar that ignores SIGTERM does not keep its pod."""
    sidecar = place.python(DEAF)
    pod = await pods.start(place.spec(place.waiting(), sidecar_command=sidecar, sidecar_grace_seconds=0.1))
    log = pod.spec.incarnation_directory / "sidecar.log"
    await place.eventually(lambda: place.lines(log) == ["ready"])
    os.kill(pod.trainer_pid, signal.SIGKILL)
    assert (await place.ended(pod)).signal == 9
    assert place.processes() == []


async def test_an_eviction_before_the_start_is_not_missed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM that comes while the supervisor itself still starts: no trainer is started at all."""
    early = place.folder / "early.py"
    early.write_text(
        "import os, signal, sys\nos.kill(os.getpid(), signal.SIGTERM)\n"
        f"os.execv(sys.executable, [sys.executable, '-I', '-S', {supervise.__file__!r}, sys.argv[1]])"
    )
    monkeypatch.setattr(supervise, "__file__", str(early))
    exit_ = await place.ended(await pods.start(place.spec(["echo", "trained"])))
    assert (exit_.reason, exit_.code, exit_.signal, exit_.error) == ("evicted", None, None, None)
    assert place.lines() == []


async def test_a_supervisor_that_hangs_does_not_hang_the_eviction(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the supervisor does not do its part in time, the whole pod is killed."""
    monkeypatch.setattr(pods, "EVICTION_MARGIN_SECONDS", 0.1)
    pod = await pods.start(
        place.spec(place.waiting(), sidecar_command=place.waiting(), sidecar_grace_seconds=0.0)
    )
    pod._record.supervisor.send(signal.SIGSTOP)
    exit_ = await asyncio.wait_for(pod.evict(0.1), 60)
    assert exit_.reason == "killed"
    assert not pod.alive
    assert place.processes() == []


async def test_kill_ends_everything_at_once(place: Place) -> None:
    """A killed pod leaves neither trainer nor sidecar nor a held lock."""
    pod = await pods.start(place.spec(place.python(f"os.fork()\n{DEAF}"), sidecar_command=place.python(DEAF)))
    await place.ready()
    pod.kill()
    await place.eventually(lambda: place.processes() == [])
    assert (await place.ended(pod)).reason == "killed"
    pod.kill()
    assert (await place.ended(await pods.start(place.spec(["true"], incarnation="second")))).code == 0
