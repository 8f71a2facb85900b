"""The life of a pod whose manager is killed."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import msgspec
import pytest

from specon_manager.backends.local import pods, supervise
from specon_manager.backends.local.processes import Process

if TYPE_CHECKING:
    from conftest import Place
    from specon_manager.backends.local.pods import PodSpec

pytestmark = pytest.mark.processes

START_AND_STAY = """
async def main():
    spec = msgspec.json.decode({spec!r}, type=pods.PodSpec)
    pod = await pods.start(spec)
    print('started', flush=True)
    await pod.wait()
    print('ended', flush=True)
asyncio.run(main())
"""
DIE_RIGHT_AFTER_THE_SPAWN = """
spawn = pods._spawn
def spawn_and_die(spec, lock):
    spawn(spec, lock)
    os.kill(os.getpid(), signal.SIGKILL)
pods._spawn = spawn_and_die
"""
DIE_RIGHT_BEFORE_THE_SPAWN = """
def die(*arguments, **named):
    os.kill(os.getpid(), signal.SIGKILL)
os.posix_spawn = die
"""
RELEASED = "print('ready', flush=True)\nwhile not os.path.exists('release'): time.sleep(0.01)\nsys.exit(9)"


def start_and_stay(spec: PodSpec) -> str:
    return START_AND_STAY.format(spec=msgspec.json.encode(spec))


async def test_a_pod_survives_its_manager_and_is_adopted(place: Place) -> None:
    """Kill -9 of the manager does not touch the pod; a new manager finds it and gets its exit code."""
    with place.manager(start_and_stay(place.spec(place.python(RELEASED)))) as manager:
        assert manager.stdout.readline() == "started\n"
        manager.kill()
    await place.ready()
    (pod,) = await pods.find_pods(place.root)
    assert (pod.replica, pod.incarnation, pod.alive) == ("default/vae-1/worker/0", "first", True)
    assert Process.of(pod.trainer_pid).alive
    waiting = asyncio.create_task(pod.wait())
    await asyncio.sleep(0)
    (place.folder / "release").touch()
    exit_ = await asyncio.wait_for(waiting, 60)
    assert (exit_.code, exit_.reason) == (9, "exited")
    (pod,) = await pods.find_pods(place.root)
    assert not pod.alive
    assert await pod.wait() == exit_


async def test_an_adopted_pod_can_be_evicted(place: Place) -> None:
    """An adopted pod ends in the same order, with the graces it was started with."""
    spec = place.spec(place.waiting(), sidecar_command=place.waiting())
    with place.manager(start_and_stay(spec)) as manager:
        assert manager.stdout.readline() == "started\n"
        manager.kill()
    (pod,) = await pods.find_pods(place.root)
    assert pod.spec == spec
    await place.ready()
    exit_ = await asyncio.wait_for(pod.evict(), 60)
    assert (exit_.signal, exit_.reason) == (15, "evicted")
    assert place.processes() == []


@pytest.mark.parametrize("find_first", [True, False])
async def test_a_manager_killed_right_after_the_spawn(place: Place, *, find_first: bool) -> None:
    """A pod whose supervisor had only just been spawned is found, and is not started a second time."""
    spec = place.spec(place.waiting())
    with place.manager(DIE_RIGHT_AFTER_THE_SPAWN + start_and_stay(spec)) as manager:
        assert manager.stdout.read() == ""
    assert manager.returncode == -signal.SIGKILL
    pod = (await pods.find_pods(place.root))[0] if find_first else await pods.start(spec)
    assert pod.alive
    assert (await pods.start(spec)).trainer_pid == pod.trainer_pid
    await place.ready()
    await pod.evict()
    assert place.lines() == ["ready"]


async def test_a_manager_killed_right_before_the_spawn(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An incarnation that was ordered and never spawned is no pod, holds nothing, and can be started."""
    spec = place.spec(["echo", "ran"])
    with place.manager(DIE_RIGHT_BEFORE_THE_SPAWN + start_and_stay(spec)) as manager:
        assert manager.stdout.read() == ""
    assert (spec.incarnation_directory / supervise.SPEC_FILE).exists()
    # Nobody holds the lock, so there is nothing to wait for.
    monkeypatch.setattr(pods, "START_SECONDS", 600.0)
    assert await asyncio.wait_for(pods.find_pods(place.root), 60) == []
    exit_ = await asyncio.wait_for((await pods.start(spec)).wait(), 60)
    assert exit_.code == 0
    assert place.lines() == ["ran"]


async def test_a_pod_may_be_bound_to_its_manager(place: Place) -> None:
    """With `end_with_manager` the death of the manager is an eviction."""
    spec = place.spec(place.waiting(), sidecar_command=place.waiting(), end_with_manager=True)
    with place.manager(start_and_stay(spec)) as manager:
        assert manager.stdout.readline() == "started\n"
        (pod,) = await pods.find_pods(place.root)
        assert pod.alive
        await place.ready()
        manager.kill()
    exit_ = await asyncio.wait_for(pod.wait(), 60)
    assert (exit_.signal, exit_.reason) == (15, "evicted")
    assert place.processes() == []


async def test_a_bound_pod_notices_a_manager_that_died_before(place: Place) -> None:
    """With `end_with_manager` no trainer runs when the manager was gone before the supervisor could look."""
    spec = place.spec(place.waiting(), end_with_manager=True)
    with place.manager(DIE_RIGHT_AFTER_THE_SPAWN + start_and_stay(spec)) as manager:
        assert manager.stdout.read() == ""
    pod = await pods.start(spec)
    exit_ = await asyncio.wait_for(pod.wait(), 60)
    assert exit_.reason == "evicted"
    await place.eventually(lambda: place.processes() == [])


async def test_a_pod_that_was_lost_meanwhile_is_found(place: Place) -> None:
    """A pod whose supervisor died with its manager is found and is `lost`, not forgotten."""
    pod = await pods.start(place.spec(place.waiting()))
    pod._record.supervisor.send(signal.SIGKILL)
    (found,) = await pods.find_pods(place.root)
    assert (await asyncio.wait_for(found.wait(), 60)).reason == "lost"


async def test_garbage_is_passed_over(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Strange files below the root keep no pod from being found."""
    pod = await pods.start(place.spec(["true"]))
    exit_ = await asyncio.wait_for(pod.wait(), 60)
    place.root.joinpath("a file").write_text("x")
    for name, files in {
        "empty": {},
        "no-spec": {"pod.json": "{}"},
        "bad-spec": {"spec.json": "{"},
        "copied": {"spec.json": (pod.spec.incarnation_directory / "spec.json").read_text()},
    }.items():
        folder = place.root / "default.x.worker.0" / "incarnations" / name
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(text)
    half = place.spec(["true"], incarnation="half")
    half.incarnation_directory.mkdir()
    (half.incarnation_directory / "spec.json").write_bytes(msgspec.json.encode(half))
    (half.incarnation_directory / "pod.json").write_text('{"supervisor":')
    (found,) = await pods.find_pods(place.root)
    assert await found.wait() == exit_
    assert [record.args[0].parent.name for record in caplog.records] == ["bad-spec", "copied"]
    assert await pods.find_pods(place.folder / "nowhere") == []
