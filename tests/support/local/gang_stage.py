"""Jobs of several replicas on a stage: what they are, and what their processes wrote down."""

import json
from typing import Any, Final

from specon_manager.backends.local.pod_files import replica_directory
from specon_manager.core.state import State
from specon_manager.model.transactions import Kind, Transaction
from support.local.gang_trainer import STARTS
from support.local.stage import HERE, PATIENCE, Stage

JOB: Final = "elastic"
OTHER: Final = "other"
SETTINGS: Final = {
    "policy": "kod2",
    "parameters": {"cooldown": 0},
    "budgets": {"change_cooldown": 600, "retry_cooldown": 600},
    "deadlines": {**PATIENCE, "ready": 60},
}
CAPACITY: Final = ("--capacity", "1")


def command(stage: Stage, *flags: str, steps: int = 5000) -> list[str]:
    """Return the command of a replica of a gang."""
    told = [f"--{name}={{{name}}}" for name in ("role", "index", "rank", "workers", "start")]
    return [
        *("{python}", "-I", "-S", str(HERE / "gang_trainer.py"), "--job-directory={job_directory}", *told),
        *("--directory", "{directory}", "--log", "{log}", "--checkpoint-dir", "{checkpoint_path}"),
        *("--steps", str(steps), "--step-seconds", "0.01", "--hurry", str(stage.hurry)),
        "--forget-on-sigterm",
        *flags,
    ]


def gang(stage: Stage, *flags: str, resizing: str, name: str = JOB, **fields: Any) -> dict[str, Any]:
    """Return a job that is resized like this."""
    restart = ["--restart"] if resizing == "restart" else []
    job = {"name": name, "command": command(stage, *restart, *flags), "requests": {"cpu": 0.25}, **fields}
    return (
        job if fields.get("max_workers", 0) <= fields.get("min_workers", 1) else {**job, "resizing": resizing}
    )


def growing(stage: Stage, *flags: str, resizing: str = "restart", **fields: Any) -> None:
    """Write a job with one worker that has room for three."""
    job = gang(stage, *flags, resizing=resizing, workers=1, min_workers=1, max_workers=3, **fields)
    stage.write_jobs(job, **SETTINGS)


def shrinking(stage: Stage, *flags: str, resizing: str = "restart") -> None:
    """Write a job with three workers, and a heavier one that comes a little later and needs one's room."""
    job = gang(stage, *flags, resizing=resizing, workers=3, min_workers=1, max_workers=3)
    other = gang(stage, resizing="none", name=OTHER, workers=3, requests={"cpu": 0.5}, submit_at=1.5)
    stage.write_jobs(job, other, **{**SETTINGS, "parameters": {"cooldown": 600}})


def preempted(stage: Stage, *flags: str, **fields: Any) -> None:
    """Write a best-effort job that fills the nodes, and a trial that comes a little later."""
    about = {"requests": {"cpu": 1}, "grace_seconds": 30, **fields}
    job = gang(stage, *flags, resizing="restart", workers=2, **about)
    trial = {
        "name": OTHER,
        "class": "trial",
        "command": ["{python}", "-c", "import time; time.sleep(0.5)"],
        "requests": {"cpu": 1},
        "submit_at": 1.5,
    }
    stage.write_jobs(job, trial, **{**SETTINGS, "policy": "fitgpp", "parameters": {}})


def starts(stage: Stage, job: str = JOB) -> list[dict[str, Any]]:
    """Return what the replicas of a job were told at their starts."""
    path = stage.state / "jobs" / f"default.{job}" / STARTS
    return [json.loads(line) for line in path.read_text().splitlines()]


def trainer_of(stage: Stage, index: int, job: str = JOB) -> int | None:
    """Return the pid of the trainer of a worker's latest incarnation, None where none lives."""
    directory = replica_directory(stage.state / "replicas", f"default/{job}/worker/{index}")
    records = sorted(directory.glob("incarnations/*/pod.json"))
    pid = json.loads(records[-1].read_text())["trainer"]["pid"] if records else None
    return pid if pid in stage.processes() else None


def change_of(state: State, kind: Kind, job: str = JOB) -> Transaction:
    """Return the only change of a kind of a job."""
    (found,) = [
        each
        for each in (*state.history, *state.transactions.values())
        if each.kind is kind and each.job == f"default/{job}"
    ]
    return found
