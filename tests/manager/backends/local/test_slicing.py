"""Trainers that run in turns: stopped whole, continued before their end, and never stopped for ever."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from specon_manager.backends.local import pods
from specon_manager.backends.local.processes import Process, find_marked
from specon_manager.backends.local.share_files import STOPPED_FILE
from specon_manager.backends.local.supervise import read_stat
from specon_sidecar.slices.guardian import Guardian
from specon_sidecar.slices.lease import LONGEST_STOP, Lease

if TYPE_CHECKING:
    from conftest import Place
    from specon_manager.backends.local.pods import Pod

pytestmark = pytest.mark.processes

# A worker has a session of its own, as torchrun's do, and no trace of the pod in its environment.
TRAINER = """
signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), os._exit(5)))
if os.fork() == 0:
    os.setsid()
    os.execve(sys.executable, [sys.executable, '-I', '-S', '-c', 'import signal\\nsignal.pause()'], {})
print('ready', flush=True)
while True:
    time.sleep(0.01)
"""
SIDECAR = "while True: time.sleep(0.01)"
REST = 4.9
"""How long it is stopped in a period of 5 s."""


def lease(until: float = 8.0, period: float = 5.0, stop: float = REST) -> dict[str, object]:
    """Return one whose stop begins now and takes so long."""
    now = time.monotonic()
    begin = (now + stop) % period
    return {"period": period, "on": [(begin, period - stop)], "until": now + until}


def state(process: Process) -> str:
    with contextlib.suppress(OSError):
        return read_stat(process.pid)[0]
    return ""


def trainers(pod: Pod) -> list[Process]:
    """Return the trainer and what descends from it, stopped or not."""
    assert pod.trainer_pid is not None
    children = {}
    for name in filter(str.isdecimal, (entry.name for entry in Path("/proc").iterdir())):
        with contextlib.suppress(OSError):
            children.setdefault(int(read_stat(int(name))[1]), []).append(int(name))
    found = [pod.trainer_pid]
    for pid in found:
        found += children.get(pid, [])
    return [process for pid in found if (process := Process.of(pid)) is not None]


def all_in(processes: list[Process], states: str) -> bool:
    return all(state(process) in states for process in processes)


async def start(place: Place, **changes: object) -> tuple[Pod, list[Process]]:
    pod = await pods.start(
        place.spec(place.python(TRAINER), sidecar_command=place.python(SIDECAR), **changes)
    )
    await place.ready()
    await place.eventually(lambda: len(trainers(pod)) == 2)
    return pod, trainers(pod)


async def stop(place: Place, pod: Pod, processes: list[Process], **changes: float) -> None:
    pod.share(lease(**changes), news=True)
    await place.eventually(lambda: all_in(processes, "T"))


def read_account(pod: Pod) -> dict[str, Any]:
    """Return for how long the trainer was stopped, as its supervisor has written it down."""
    return msgspec.json.decode((pod.spec.incarnation_directory / STOPPED_FILE).read_bytes())


async def test_a_trainer_is_stopped_whole_and_nothing_else_is(place: Place) -> None:
    """Workers with sessions of their own stop too; supervisor and sidecar do not, and are told."""
    pod, processes = await start(place)
    others = [each for each in find_marked(pod.spec.mark) if each not in processes]
    await stop(place, pod, processes)
    assert len(others) == 2
    assert all_in(others, "RS")
    account = read_account(pod)
    assert account["seconds"] == 0
    assert 0 <= time.monotonic() - account["since"] < 60
    pod.share(None, news=True)
    await place.eventually(lambda: all_in(processes, "RS"))
    # Its processes run again before that is written down.
    await place.eventually(lambda: read_account(pod)["since"] is None)
    account = read_account(pod)
    assert 0 < account["seconds"] < 60
    assert (await pod.evict()).code == 5
    assert place.processes() == []


async def test_turns_are_kept(place: Place) -> None:
    """Over several periods a trainer runs for about its share, and its account says so."""
    pod, _ = await start(place)
    began = time.monotonic()
    pod.share(lease(period=0.4, stop=0.2), news=True)
    await asyncio.sleep(3)
    account = read_account(pod)
    stopped = account["seconds"] + (0 if account["since"] is None else time.monotonic() - account["since"])
    assert 0.3 < stopped / (time.monotonic() - began) < 0.7
    await pod.evict()


async def test_a_lease_that_nobody_renews_is_over(place: Place) -> None:
    """A manager that is gone leaves a trainer stopped until its lease ends, and no longer."""
    pod, processes = await start(place)
    await stop(place, pod, processes, until=0.5)
    began = time.monotonic()
    await place.eventually(lambda: all_in(processes, "RS"))
    assert time.monotonic() - began < REST / 2
    await pod.evict()


async def test_sigterm_reaches_a_stopped_trainer_at_once(place: Place) -> None:
    """An eviction waits for no turn, and nothing is stopped again before the end."""
    pod, processes = await start(place)
    await stop(place, pod, processes)
    began = time.monotonic()
    assert (await pod.evict()).code == 5
    assert time.monotonic() - began < REST / 2
    assert "saved" in place.lines()
    assert place.processes() == []


async def test_whatever_is_in_a_lease_a_trainer_runs_on(place: Place) -> None:
    """Garbage, turns out of order, a stop or a lease that is too long: none of them stops anybody."""
    pod, processes = await start(place)
    await stop(place, pod, processes)
    path = pod.spec.incarnation_directory / "share.json"
    wrong = (
        {"period": 50.0, "on": [(0.0, 1.0)]},
        {"until": time.monotonic() + 1e6},
        {"on": []},
        {"on": [(0, -1)]},
    )
    for content in (
        b"",
        b"[]",
        b"{" * 5000,
        b"\xff",
        *(msgspec.json.encode({**lease(), **each}) for each in wrong),
    ):
        path.write_bytes(content)
        pod._record.supervisor.send(signal.SIGHUP)
        await place.eventually(lambda: all_in(processes, "RS"))
        await stop(place, pod, processes)
    await pod.evict()


async def test_who_was_stopped_by_somebody_else_stays_so(place: Place) -> None:
    """A process that a person has stopped is not continued at the begin of a turn."""
    pod, processes = await start(place)
    processes[1].send(signal.SIGSTOP)
    await place.eventually(lambda: state(processes[1]) == "T")
    await stop(place, pod, processes)
    pod.share(None, news=True)
    await place.eventually(lambda: state(processes[0]) in "RS")
    assert state(processes[1]) == "T"
    await pod.evict()


async def test_a_supervisor_that_is_killed_leaves_nothing_stopped(place: Place) -> None:
    """Its trainer dies with it, and its guardian continues what has a session of its own."""
    pod, processes = await start(place)
    await stop(place, pod, processes)
    pod._record.supervisor.send(signal.SIGKILL)
    await place.eventually(lambda: state(processes[0]) in "ZX")
    await place.eventually(lambda: state(processes[1]) != "T")
    processes[1].send(signal.SIGKILL)
    await pod.wait()


@pytest.mark.parametrize("seed", range(6))
async def test_whenever_a_supervisor_is_killed_nothing_is_stopped_for_ever(place: Place, seed: int) -> None:
    """In the middle of a stop, or of its end: it is stopped and continued all the time until then."""
    pod, processes = await start(place)
    pod.share(lease(period=0.004, stop=0.002), news=True)
    await asyncio.sleep(0.3 + random.Random(seed).random() / 5)
    pod._record.supervisor.send(signal.SIGKILL)
    await place.eventually(lambda: state(processes[0]) in "ZX")
    await place.eventually(lambda: state(processes[1]) != "T", Guardian.SECONDS + 1)
    await asyncio.sleep(0.1)
    assert state(processes[1]) != "T"
    processes[1].send(signal.SIGKILL)
    await pod.wait()


async def test_a_supervisor_that_hangs_leaves_nothing_stopped(place: Place) -> None:
    """Its guardian continues what is stopped for longer than anything may be."""
    pod, processes = await start(place)
    await stop(place, pod, processes)
    began = time.monotonic()
    pod._record.supervisor.send(signal.SIGSTOP)
    await place.eventually(lambda: all_in(processes, "RS"))
    assert time.monotonic() - began < LONGEST_STOP + 5
    pod._record.supervisor.send(signal.SIGCONT)
    await pod.evict()


async def test_without_its_guardian_nothing_stays_stopped(place: Place) -> None:
    """A guardian that is killed is noticed: everything runs, and the next stop has another guardian."""
    pod, processes = await start(place)
    before = find_marked(pod.spec.mark)
    await stop(place, pod, processes)
    [guardian] = [each for each in find_marked(pod.spec.mark) if each not in before]
    guardian.send(signal.SIGKILL)
    began = time.monotonic()
    await place.eventually(
        lambda: [each for each in find_marked(pod.spec.mark) if each not in (*before, guardian)]
    )
    assert time.monotonic() - began < REST
    await pod.evict()
    assert place.processes() == []


@pytest.mark.parametrize("now", [0.0, 0.5, 2.9, 3.0, 99.5, 101.0])
def test_a_turn_may_go_on_in_the_next_period(now: float) -> None:
    """A turn from 4 to 6 of a period of 5 is on at 0.5, and off from 1 on."""
    on, until = Lease(5.0, [(4.0, 2.0)], 1000.0).turn(now)
    assert on is (now % 5 < 1 or now % 5 >= 4)
    assert until - now == pytest.approx(
        (1 - now % 5) if on and now % 5 < 1 else (4 - now % 5) if not on else 6 - now % 5
    )
