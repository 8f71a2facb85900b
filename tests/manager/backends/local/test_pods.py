"""The life of a pod whose manager stays."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from specon_manager.backends.local import pods, supervise
from specon_manager.backends.local.pods import StartError

if TYPE_CHECKING:
    from conftest import Place

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("code", [0, 3, 77])
async def test_the_exit_code_arrives(place: Place, code: int) -> None:
    """The trainer's exit code is the pod's, and its output is in the log it was given."""
    pod = await pods.start(
        place.spec(
            place.python(
                "variables = os.environ['GREETING'], os.environ['SPECON_POD']\n"
                "print(*variables, os.getcwd(), sys.stdin.read(), flush=True)\n"
                "print('wrong', file=sys.stderr)\nsys.exit(int(sys.argv[1]))",
                str(code),
            )
        )
    )
    exit_ = await place.ended(pod)
    assert (exit_.code, exit_.signal, exit_.reason, exit_.error) == (code, None, "exited", None)
    assert exit_.started_at <= exit_.ended_at
    assert pod.started_at == exit_.started_at
    assert not pod.alive
    assert place.lines() == [f"hello {pod.spec.incarnation_directory}/ {place.folder} ", "wrong"]


async def test_the_log_is_continued(place: Place) -> None:
    """A new incarnation appends to the log of the one before."""
    for incarnation in ("first", "second"):
        await place.ended(await pods.start(place.spec(["echo", incarnation], incarnation=incarnation)))
    assert place.lines() == ["first", "second"]


async def test_a_killed_trainer_shows_its_signal(place: Place) -> None:
    """Kill -9 of the trainer is the end of the pod, by signal 9."""
    pod = await pods.start(place.spec(place.waiting()))
    assert pod.alive
    os.kill(pod.trainer_pid, signal.SIGKILL)
    exit_ = await place.ended(pod)
    assert (exit_.code, exit_.signal, exit_.reason) == (None, 9, "exited")


async def test_the_trainer_begins_with_clean_signals(place: Place) -> None:
    """No signal is blocked or ignored for the trainer, whatever its supervisor holds back."""
    await place.ended(await pods.start(place.spec(["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"])))
    # The C library keeps signals 32 and 33 to itself: no program can set them.
    own = 0b11 << 31
    assert [int(line.split()[1], 16) & ~own for line in place.lines()] == [0, 0]


async def test_a_killed_sidecar_comes_back(place: Place) -> None:
    """A sidecar that ends while the trainer runs is started again, and told the trainer's pid each time."""
    path = place.folder / "sidecars"
    sidecar = place.python(
        "print(os.getpid(), sys.argv[1], file=open(sys.argv[2], 'a'), flush=True)\nsignal.pause()",
        "{trainer_pid}",
        str(path),
    )
    pod = await pods.start(place.spec(place.waiting(), sidecar_command=sidecar))
    for number in (1, 2, 3):
        await place.eventually(lambda number=number: len(place.lines(path)) == number)
        os.kill(int(place.lines(path)[-1].split()[0]), signal.SIGKILL)
    await place.eventually(lambda: len(place.lines(path)) == 4)
    sidecars, trainers = zip(*(line.split() for line in place.lines(path)), strict=True)
    assert len(set(sidecars)) == 4
    assert set(trainers) == {str(pod.trainer_pid)}
    assert pod.alive


async def test_a_sidecar_that_cannot_be_started_harms_nobody(place: Place) -> None:
    """The trainer runs on to its own end; the reason is in the supervisor's log."""
    release = place.folder / "release"
    trainer = place.python(
        "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\nsys.exit(5)", str(release)
    )
    pod = await pods.start(place.spec(trainer, sidecar_command=["no-such-sidecar"]))
    log = pod.spec.incarnation_directory / "supervisor.log"
    await place.eventually(lambda: len(place.lines(log)) >= 2)
    assert "no-such-sidecar" in place.lines(log)[0]
    release.touch()
    assert (await place.ended(pod)).code == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"command": ["no-such-trainer", "--fast"]}, r"\['no-such-trainer', '--fast'\].*No such file"),
        ({"command": ["/dev/null"]}, r"/dev/null.*Permission denied"),
        ({"working_directory": "/no/such/folder"}, r"No such file.*/no/such/folder"),
        ({"log": "/dev/null/trainer.log"}, r"/dev/null"),
        ({"cpus": (1023,)}, r"Invalid argument: CPUs \[1023\]"),
        ({"command": ["echo", "a\0b"]}, r"null byte"),
    ],
)
async def test_a_trainer_that_cannot_start_says_why(
    place: Place, changes: dict[str, object], message: str
) -> None:
    """The end of a pod without a trainer names the command and the reason, and frees the replica at once."""
    spec = place.spec(**{"command": ["true"], **changes})
    pod = await pods.start(spec)
    assert not pod.alive
    assert pod.trainer_pid is None
    exit_ = await pod.evict()
    assert (exit_.reason, exit_.code, exit_.signal) == ("not started", None, None)
    assert exit_.error.startswith(f"the trainer {spec.command} cannot be started: ")
    assert re.search(message, exit_.error)
    assert pod.started_at == exit_.started_at
    assert (await place.ended(await pods.start(place.spec(["true"], incarnation="second")))).code == 0


async def test_a_trainer_stays_on_its_cpus(place: Place) -> None:
    """It runs on the node's CPUs only; what watches it takes none of them where another is idle."""
    anywhere = os.sched_getaffinity(0)
    cpu = max(anywhere)
    pod = await pods.start(place.spec(place.waiting(), cpus=(cpu,), sidecar_command=place.waiting()))
    log = pod.spec.incarnation_directory / "sidecar.log"
    await place.eventually(lambda: place.lines(log) == ["ready"])
    members = {process.pid: os.sched_getaffinity(process.pid) for process in place.processes()}
    assert len(members) == 3
    assert members.pop(pod.trainer_pid) == {cpu}
    assert list(members.values()) == [anywhere] * 2


async def test_a_broken_supervisor_is_an_error_and_not_a_wait(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor that fails by itself is reported with what it said, and the start may be repeated."""
    spec = place.spec(["true"])
    broken = place.folder / "broken.py"
    broken.write_text("raise SystemExit('out of order')")
    with monkeypatch.context() as patch:
        patch.setattr(supervise, "__file__", str(broken))
        with pytest.raises(StartError, match="ended early: out of order"):
            await pods.start(spec)
        broken.write_text("import signal; signal.pause()")
        patch.setattr(pods, "START_SECONDS", 0.1)
        with pytest.raises(StartError, match="not ready after"):
            await pods.start(spec)
    assert place.processes() == []
    assert (await place.ended(await pods.start(spec))).code == 0


def open_files(pid: int) -> list[str]:
    return [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]


async def test_the_trainer_has_the_lock_and_the_sidecar_has_not(place: Place) -> None:
    """Only trainer and supervisor hold the replica's lock, and the pod is in a session of its own."""
    pod = await pods.start(place.spec(place.waiting(), sidecar_command=place.waiting()))
    log = pod.spec.incarnation_directory / "sidecar.log"
    await place.eventually(lambda: place.lines(log) == ["ready"])
    lock = f"{pod.spec.directory}/lock"
    holders = {process.pid for process in place.processes() if lock in open_files(process.pid)}
    supervisor = pod._record.supervisor.pid
    assert holders == {supervisor, pod.trainer_pid}
    assert {os.getsid(process.pid) for process in place.processes()} == {supervisor}


async def test_what_holds_the_environment_is_for_its_owner_only(place: Place) -> None:
    """Secrets in the environment of a trainer are not readable by other users of the machine."""
    pod = await pods.start(place.spec(place.python("pass")))
    await place.ended(pod)
    written = list(pod.spec.incarnation_directory.glob("*.json"))
    assert {path.name for path in written} == {"spec.json", "pod.json", "exit.json"}
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}
