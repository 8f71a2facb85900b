"""A trainer for tests: starts in some 20 ms, and shows at its end whether a step was lost or done twice.

Its parameters are a chain of hashes over its steps, so those after N steps can only come from exactly the
steps 1 to N in their order. The flags make it misbehave. Needs the standard library only.
"""

import argparse
import contextlib
import fcntl
import hashlib
import io
import json
import os
import resource
import signal
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

FIRST = "0" * 16
RESULT = "result.json"
VIOLATIONS = "violations.txt"
TIMES = "times.txt"
"""When each start made its first step and, where it was told to end, its last one: for what a move costs."""
_FULL_DISK_BYTES = 16
_TERMINATED = 128 + signal.SIGTERM


def advance(parameters: str, step: int) -> str:
    return hashlib.sha256(f"{parameters} {step}".encode()).hexdigest()[:16]


def parameters_after(steps: int) -> str:
    """Return the parameters of a run that nothing interrupted."""
    parameters = FIRST
    for step in range(1, steps + 1):
        parameters = advance(parameters, step)
    return parameters


def loss(step: int) -> float:
    """Return a loss that converges fast, and whose gain falls without end."""
    return 0.1 + 1 / (1 + step / 10)


class Trainer:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._step = 0
        self._parameters = FIRST
        self._asked = False
        self._stopped = False
        self._lock: int | None = None

    def run(self) -> int:
        signal.signal(signal.SIGUSR1, self._note)
        signal.signal(signal.SIGTERM, signal.SIG_IGN if self._arguments.ignore_sigterm else self._note)
        self._be_the_only_one()
        self._resume()
        resumed_at = self._step
        while self._step < self._arguments.steps and not self._stopped:
            self._train()
            if self._step == resumed_at + 1:
                self._note_time("began")
        self._note_time("ended")
        if self._step < self._arguments.steps:
            if not self._arguments.forget_on_sigterm:
                self._save()
            self._log(f"stopped at step={self._step}")
            return _TERMINATED
        self._log(f"finished step={self._step}")
        _write_whole(self._arguments.directory / RESULT, {"step": self._step, "parameters": self._parameters})
        return 0

    def _note(self, number: int, _frame: object) -> None:
        if number == signal.SIGTERM:
            self._stopped = True
        else:
            self._asked = True

    def _note_time(self, what: str) -> None:
        with (self._arguments.directory / TIMES).open("a") as file:
            file.write(f"{what} step={self._step} at={time.time():.3f}\n")

    def _be_the_only_one(self) -> None:
        """Lock the directory until this process is gone, and tell when another one holds the lock."""
        self._lock = os.open(self._arguments.directory / "trainer.lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with (self._arguments.directory / VIOLATIONS).open("a") as file:
                file.write(f"TWO LIVE: {os.getpid()} is not the only one\n")

    def _resume(self) -> None:
        for path in sorted(self._arguments.checkpoint_dir.glob("step-*"), reverse=True):
            try:
                saved = json.loads(path.read_text())
                self._step, self._parameters = saved["step"], saved["parameters"]
            except (OSError, ValueError, KeyError):
                self._log(f"checkpoint unreadable name={path.name}")
                continue
            self._log(f"resumed from step={self._step} checkpoint={path.name}")
            return
        self._log(f"started pid={os.getpid()}")

    def _train(self) -> None:
        arguments = self._arguments
        self._step += 1
        self._parameters = advance(self._parameters, self._step)
        value = 1.0 if arguments.flat else loss(self._step)
        if arguments.silent_after is None or self._step <= arguments.silent_after:
            self._log(f"step={self._step}/{arguments.steps} loss={value:.9g}")
        if self._step == arguments.crash_at:
            os.kill(os.getpid(), signal.SIGABRT)
        if arguments.every and self._step % arguments.every == 0:
            self._save()
        if self._asked and not arguments.ignore_checkpoint_requests:
            self._asked = False
            while arguments.save_once is not None and not arguments.save_once.exists():
                time.sleep(arguments.step_seconds)
            self._save()
        if arguments.hurry is None or not arguments.hurry.exists():
            time.sleep(arguments.step_seconds)

    def _save(self) -> None:
        directory = self._arguments.checkpoint_dir
        state = {"step": self._step, "parameters": self._parameters}
        name = f"step-{self._step:08d}"
        try:
            if self._arguments.cut_checkpoints:
                (directory / f"{name}.zip").write_bytes(_half_an_archive(json.dumps(state)))
                return
            with _full_disk() if self._arguments.full_disk else contextlib.nullcontext():
                _write_whole(directory / f"{name}.ckpt", state)
        except OSError as error:
            self._log(f"checkpoint failed step={self._step} error={error.strerror}")
            return
        self._log(f"checkpoint saved step={self._step}")

    def _log(self, line: str) -> None:
        # Opened for each line, as by loggers that follow a rotation by rename.
        descriptor = os.open(self._arguments.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, f"{line}\n".encode())
        finally:
            os.close(descriptor)


def _write_whole(path: Path, record: dict[str, object]) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("w") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _half_an_archive(content: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("state.json", content)
    whole = buffer.getvalue()
    return whole[: len(whole) // 2]


@contextlib.contextmanager
def _full_disk() -> Iterator[None]:
    """Let no file grow beyond a few bytes, where no really full disk can be mounted."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FULL_DISK_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    """Return the command line, or these words of one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, required=True, help="where lock, result and violations are")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--checkpoint-dir", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--step-seconds", type=float, default=0.01)
    parser.add_argument("--hurry", type=Path, help="once this file is there, no step takes any time")
    parser.add_argument(
        "--every", type=int, default=0, help="steps between checkpoints that nobody asked for"
    )
    parser.add_argument("--flat", action="store_true", help="a loss that never changes")
    parser.add_argument("--forget-on-sigterm", action="store_true", help="end without a checkpoint")
    parser.add_argument("--ignore-sigterm", action="store_true")
    parser.add_argument("--ignore-checkpoint-requests", action="store_true")
    parser.add_argument("--save-once", type=Path, help="what is asked for is saved once this file is there")
    parser.add_argument(
        "--cut-checkpoints", action="store_true", help="half an archive, under its final name"
    )
    parser.add_argument("--full-disk", action="store_true", help="every checkpoint meets a full disk")
    parser.add_argument("--silent-after", type=int, help="train on after this step, but log nothing")
    parser.add_argument("--crash-at", type=int, help="end by SIGABRT after this step, each time")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(Trainer(parsed()).run())
