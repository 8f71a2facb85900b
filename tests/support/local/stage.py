"""A folder in which managers, sidecars and trainers run for a test, and what can be seen of them."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from specon_manager.backends.local.pod_files import replica_directory
from specon_manager.core.state import State
from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import Kind, Transaction
from support.local.trainer import RESULT, VIOLATIONS, parameters_after

HERE: Final = Path(__file__).parent
PATIENCE: Final = {
    **dict.fromkeys(("start", "hold", "checkpoint", "verify"), 60),
    "eviction_margin": 5,
    "crash_backoff": 0.1,
}
"""Deadlines that a busy machine keeps, where it is not the deadlines that a test is about."""
STEPS: Final = 5000
MOVER: Final = "mover"
NEIGHBOUR: Final = "neighbour"

_LOOK_SECONDS: Final = 0.02
_KILL_SECONDS: Final = 60.0
_HANG_SECONDS: Final = 600.0  # the limit of a test comes first, and how fast the machine is matters to none
_STEP: Final = re.compile(r"step=(\d+)/")
_RESUMED: Final = re.compile(r"resumed from step=(\d+) ")
_SETTINGS: Final = {
    "tick": 0.1,
    "parameters": {"rebalance": False},
    "policy": "specon",
    "budgets": {"cooldown": 0, "retry_cooldown": 60},
    "gate": {"enabled": False},
    "deadlines": PATIENCE,
}
_DEFAULTS: Final = {
    "classifier": "specon",  # converges within a few intervals; `horizon` wants to see more of a run
    "interval": 0.1,
    "alpha": 0.05,
    "heartbeat": 0.1,
    "checkpoint": "signal:USR1",
    "grace_seconds": 5,
}
Met = TypeVar("Met")


class Running:
    """A process that a test started, with what it wrote."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path, errors: Path) -> None:
        self._process = process
        self._output = output
        self._errors = errors

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def output(self) -> str:
        return self._output.read_text()

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    @property
    def told(self) -> list[dict[str, Any]]:
        """The JSON lines of `manager.py` so far; a last one that is not whole is left out."""
        lines = self.output.split("\n")[:-1]
        return [json.loads(line) for line in lines]

    def told_of(self, **fields: object) -> dict[str, Any] | None:
        """Return the first JSON line that has these fields."""
        return next((line for line in self.told if fields.items() <= line.items()), None)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, seconds: float = _HANG_SECONDS) -> int:
        return self._process.wait(seconds)

    @property
    def end(self) -> State:
        """The state with which every job had ended."""
        code = self.wait()
        last = self.told[-1] if self.told else {}
        assert code == 0, f"exit status {code}: {self.errors[-2000:]}"
        assert "end" in last, f"ended early: {last}"
        return msgspec.convert(last["end"], State)


class Stage:
    """One test's folder, and the processes in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.jobs = folder / "jobs.yaml"
        self.hurry = folder / "hurry"
        self._environment = {**os.environ, "TMPDIR": str(folder), "SPECON_STAGE": str(folder)}
        self._started: list[Running] = []

    # What is to run.

    def trainer(self, *flags: str, steps: int = STEPS, step_seconds: float = 0.01) -> list[str]:
        """Return the command of a trainer that hurries to its end once it may."""
        return [
            *("{python}", "-I", "-S", str(HERE / "trainer.py")),
            *("--directory", "{directory}", "--log", "{log}", "--checkpoint-dir", "{checkpoint_path}"),
            *("--steps", str(steps), "--step-seconds", str(step_seconds), "--hurry", str(self.hurry)),
            *flags,
        ]

    def job(self, name: str, *flags: str, **fields: Any) -> dict[str, Any]:
        return {"name": name, "command": self.trainer(*flags), **fields}

    def write_jobs(self, *jobs: Mapping[str, Any], **settings: Any) -> None:
        content = {**_SETTINGS, **settings, "defaults": _DEFAULTS, "jobs": list(jobs)}
        self.jobs.write_text(yaml.safe_dump(content))

    def write_move(self, *flags: str, settings: Mapping[str, Any] | None = None, **fields: Any) -> None:
        """Write jobs where `mover` converges beside one that does not, while the other node is idle."""
        self.write_jobs(
            self.job(MOVER, *flags, **fields),
            {"name": "filler", "command": "true"},  # takes its turn in the round robin
            self.job(NEIGHBOUR, "--flat"),
            **(settings or {}),
        )

    # Running it.

    def manager(self, *flags: str, hurry: bool = True) -> Running:
        """Start `manager.py` on the state directory; with `hurry` trainers hurry once a move has ended."""
        hurrying = ["--hurry", str(self.hurry)] if hurry else []
        return self._start(
            "manager",
            [
                str(HERE / "manager.py"),
                "--state",
                str(self.state),
                "--jobs",
                str(self.jobs),
                *hurrying,
                *flags,
            ],
        )

    def specon(self, *arguments: str) -> Running:
        """Start the command line."""
        return self._start("specon", ["-m", "specon_manager", *arguments])

    def run_specon(self, *arguments: str) -> Running:
        """Run the command line to its end."""
        running = self.specon(*arguments)
        running.wait()
        return running

    def submit_neighbour(self) -> None:
        """Submit to the running manager what `write_move` has beside the mover."""
        commands = {"filler": ["true"], NEIGHBOUR: self.trainer("--flat")}
        for name, command in commands.items():
            submitted = self.run_specon("submit", "--state", str(self.state), "--name", name, "--", *command)
            assert submitted.code == 0, submitted.errors

    def _start(self, name: str, arguments: list[str]) -> Running:
        prefix = f"{name}-{len(self._started)}"
        output, errors = self.folder / f"{prefix}.out", self.folder / f"{prefix}.err"
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self.folder,
                env=self._environment,
            )
        running = Running(process, output, errors)
        self._started.append(running)
        return running

    # Seeing what happens.

    def eventually(self, condition: Callable[[], Met], seconds: float = _HANG_SECONDS) -> Met:
        """Wait for something that other processes bring about, and return it."""
        deadline = time.monotonic() + seconds
        while not (met := condition()):
            assert time.monotonic() < deadline, f"it never came true:\n{self.story()}"
            time.sleep(_LOOK_SECONDS)
        return met

    def story(self) -> str:
        """Return what the processes wrote, for the message of a failure."""
        files = sorted((*self.folder.glob("*.out"), *self.folder.glob("*.err")))
        files += sorted(self.state.glob("replicas/*/incarnations/*/*.log"))
        return "\n".join(f"--- {file.name}\n{file.read_text(errors='replace')[-3000:]}" for file in files)

    def directory(self, job: str, state: Path | None = None) -> Path:
        return replica_directory((state or self.state) / "replicas", f"default/{job}/worker/0")

    def pod(self, job: str, part: str) -> int:
        """Return the pid of the `trainer` or the `supervisor` of the job's latest incarnation."""
        records = sorted(self.directory(job).glob("incarnations/*/pod.json"))
        pid: int = json.loads(records[-1].read_text())[part]["pid"]
        return pid

    def sidecar(self, job: str, index: int = 0) -> int | None:
        """Return the pid of the sidecar of a worker of the job, if it has one now."""
        wanted = f"--replica=default/{job}/worker/{index}".encode()
        return next((pid for pid in self.processes() if wanted in _read(pid, "cmdline").split(b"\0")), None)

    def processes(self) -> list[int]:
        """Return the processes that the test, or what it started, started, and that are not zombies."""
        mark = str(self.folder).encode()
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
        others = [pid for pid in pids if pid != os.getpid()]
        return [pid for pid in others if mark in _read(pid, "environ") and _lives(pid)]

    def pods(self) -> list[int]:
        """Return the processes that belong to pods."""
        mark = f"SPECON_POD={self.folder}".encode()
        return [pid for pid in self.processes() if mark in _read(pid, "environ")]

    def log(self, job: str) -> str:
        """Return the whole training log, rotated parts included."""
        directory = self.directory(job)
        # The older, the higher its number.
        rotated = sorted(directory.glob("train.log.*"), key=lambda path: -int(path.suffix[1:]))
        parts = [path.read_text() for path in (*rotated, directory / "train.log") if path.exists()]
        return "".join(parts)

    def steps_done(self, job: str) -> int:
        """Return the last step in the log."""
        steps = (_number(_STEP, line) for line in reversed(self.log(job).splitlines()))
        return next((step for step in steps if step is not None), 0)

    def resumes(self, job: str) -> list[int]:
        """Return the steps from which incarnations after the first went on."""
        found = (_number(_RESUMED, line) for line in self.log(job).splitlines())
        return [step for step in found if step is not None]

    def result(self, job: str) -> dict[str, Any] | None:
        path = self.directory(job) / RESULT
        return json.loads(path.read_text()) if path.exists() else None

    # What must hold in the end.

    def check_trained(self, *jobs: str, steps: int = STEPS) -> None:
        """No job has lost a step or done one twice in its state, and never had two live incarnations."""
        for job in jobs:
            assert self.result(job) == {"step": steps, "parameters": parameters_after(steps)}
        assert not list(self.folder.rglob(VIOLATIONS))

    def steps_lost(self, job: str) -> int:
        """Return how many steps were trained again, having seen that no incarnation left a step out."""
        reached = lost = 0
        for line in self.log(job).splitlines():
            if (step := _number(_STEP, line)) is not None:
                assert step == reached + 1, f"step {step} after {reached}"
                reached = step
            elif (step := _number(_RESUMED, line)) is not None:
                assert step <= reached, f"resumed from {step}, but only {reached} was reached"
                lost += reached - step
                reached = step
        return lost

    def close(self) -> None:
        """End everything that was started here."""
        deadline = time.monotonic() + _KILL_SECONDS
        while left := self.processes():
            assert time.monotonic() < deadline, f"{left} cannot be killed"
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for running in self._started:
                running.code  # noqa: B018 - reaps it
            time.sleep(_LOOK_SECONDS)
        for running in self._started:
            running.wait()


def only_move(state: State) -> Transaction:
    """Return the one move that there was."""
    assert not state.transactions
    (move,) = [each for each in state.history if each.kind is Kind.MOVE]
    return move


def check_succeeded(state: State) -> None:
    """Every job has ended well, with those of its workers that it had in the end."""
    phases = {
        replica.name: replica.phase
        for replica in state.replicas.values()
        if replica.phase is not Phase.ABSENT
    }
    assert set(phases.values()) == {Phase.SUCCEEDED}, phases


def _number(pattern: re.Pattern[str], line: str) -> int | None:
    found = pattern.match(line)
    return None if found is None else int(found[1])


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # ended meanwhile, or another user's
        return b""


def _lives(pid: int) -> bool:
    stat = _read(pid, "stat").rpartition(b")")[2].split()
    return bool(stat) and stat[0] not in b"ZX"
