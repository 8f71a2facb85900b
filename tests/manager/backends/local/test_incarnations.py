"""At most one incarnation of a replica lives."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from specon_manager.backends.local import pods, supervise
from specon_manager.backends.local.pods import PodSpec, ReplicaBusy
from specon_manager.backends.local.processes import Process

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Place

pytestmark = pytest.mark.processes


async def test_only_one_incarnation_lives(place: Place) -> None:
    """While one incarnation lives another is refused and leaves no trace; afterwards it may start."""
    first = await pods.start(place.spec(place.waiting()))
    second = place.spec(place.waiting(), incarnation="second")
    with pytest.raises(ReplicaBusy, match=r"default/vae-1/worker/0: .*second"):
        await pods.start(second)
    assert not second.incarnation_directory.exists()
    await first.evict()
    assert (await pods.start(second)).alive


FAMILY = """
if os.fork() == 0:
    os.setsid()  # out of the trainer's group, and deaf
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print('child', os.getpid(), flush=True)
    while True: signal.pause()
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print('child', os.getpid(), flush=True)
    while True: signal.pause()
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
os._exit(6)
"""


async def test_nothing_of_the_trainer_survives_it(place: Place) -> None:
    """What the trainer leaves behind ends with it, even in a session of its own; then the lock is free."""
    release = place.folder / "release"
    pod = await pods.start(place.spec(place.python(FAMILY, str(release))))
    await place.eventually(lambda: len(place.lines()) == 2)
    release.touch()
    assert (await place.ended(pod)).code == 6
    for line in place.lines():
        with pytest.raises(ProcessLookupError):
            os.kill(int(line.split()[1]), 0)
    assert (await pods.start(place.spec(place.waiting(), incarnation="second"))).alive


async def test_the_trainer_dies_with_its_supervisor(place: Place) -> None:
    """Kill -9 of the supervisor ends the trainer and all it started; the pod is lost."""
    pod = await pods.start(place.spec(place.python(FAMILY, "/nonexistent"), sidecar_command=place.waiting()))
    await place.eventually(lambda: len(place.lines()) == 2)
    trainer = Process.of(pod.trainer_pid)
    pod._record.supervisor.send(signal.SIGKILL)
    await asyncio.wait_for(trainer.wait_until_gone(), 60)
    exit_ = await place.ended(pod)
    assert (exit_.reason, exit_.code, exit_.signal) == ("lost", None, None)
    assert place.processes() == []
    assert await place.ended(await pods.start(pod.spec)) == exit_


async def test_a_start_ends_what_a_lost_incarnation_left(place: Place) -> None:
    """A new incarnation never runs beside workers of a lost one, even workers without the lock."""
    worker = place.folder / "worker"
    trainer = place.python(
        "if os.fork() == 0:\n"
        "    os.closerange(3, 100)\n    open(sys.argv[1], 'w').write(str(os.getpid()))\n    signal.pause()\n"
        "signal.pause()",
        str(worker),
    )
    first = await pods.start(place.spec(trainer))
    await place.eventually(lambda: worker.exists() and worker.read_text())
    first._record.supervisor.send(signal.SIGKILL)
    await asyncio.wait_for(first._record.supervisor.wait_until_gone(), 60)
    look = (
        "try: sys.exit(open(f'/proc/{sys.argv[1]}/stat').read().rpartition(')')[2].split()[0] not in 'ZX')\n"
    )
    second = place.spec(
        place.python(f"{look}except FileNotFoundError: sys.exit(0)", worker.read_text()), incarnation="second"
    )
    while True:
        try:
            pod = await pods.start(second)
        except ReplicaBusy:  # the kernel is still about to end the first trainer
            await asyncio.sleep(0.01)
        else:
            break
    assert (await place.ended(pod)).code == 0
    assert (await place.ended(first)).reason == "lost"


async def test_the_kernel_keeps_the_lock_while_anyone_has_it(place: Place) -> None:
    """A process that hides from the manager but inherited the lock still keeps a new incarnation out."""
    release = place.folder / "release"
    hidden = place.python(
        "print('ready', flush=True)\nend = time.monotonic() + 60\n"
        "while not os.path.exists(sys.argv[1]) and time.monotonic() < end: time.sleep(0.01)",
        str(release),
    )
    trainer = place.python(
        "if os.fork() == 0:\n    os.setsid()\n    os.execve(sys.argv[1], sys.argv[1:], {})\nsignal.pause()",
        *hidden,
    )
    pod = await pods.start(place.spec(trainer))
    try:
        await place.ready()
        waiting = asyncio.create_task(place.lost(pod))
        await place.eventually(lambda: not place.processes())
        assert not pod.alive
        for _ in range(3):
            with pytest.raises(ReplicaBusy):
                await pods.start(place.spec(place.waiting(), incarnation="second"))
        assert not waiting.done()
    finally:
        release.touch()
    assert (await waiting).reason == "lost"


async def test_a_start_is_idempotent(place: Place) -> None:
    """The same incarnation started again is the one that runs, or its recorded end; its command ran once."""
    spec = place.spec(place.waiting())
    first, second = await asyncio.gather(pods.start(spec), pods.start(spec))
    third = await pods.start(spec)
    await place.ready()
    assert first.trainer_pid == second.trainer_pid == third.trainer_pid
    exit_ = await first.evict()
    late = await pods.start(spec)
    assert not late.alive
    assert late.trainer_pid == first.trainer_pid
    assert await place.ended(late) == await place.ended(third) == exit_
    assert place.lines() == ["ready"]


async def test_a_pid_of_another_process_is_not_the_pod(place: Place) -> None:
    """After its end, a process that got the supervisor's pid is neither taken for the pod nor harmed."""
    stranger = await pods.start(place.spec(place.waiting(), replica="default/other/worker/0"))
    pid = stranger._record.supervisor.pid
    spec: PodSpec = place.spec(["true"], directory=str(place.root / "default.old.worker.0"))
    spec.incarnation_directory.mkdir(parents=True)
    path: Path = spec.incarnation_directory / supervise.POD_FILE
    other = {"pid": pid, "start_time": 1}
    supervise.write_json(str(path), {"supervisor": other, "trainer": other, "started_at": 0.0})
    old = await pods.start(spec)
    assert not old.alive
    old.kill()
    assert (await old.evict()).reason == "lost"
    assert stranger.alive
    assert Process.of(stranger.trainer_pid).alive
