"""The parts of a sidecar, made as its settings ask for them."""

from collections.abc import Callable
from pathlib import Path

from specon_sidecar.checkpoints.checkpoint_watch import CheckpointWatch
from specon_sidecar.checkpoints.pause_lease import lease_file
from specon_sidecar.event_files.events import EventFiles
from specon_sidecar.following.file_position import FilePosition
from specon_sidecar.following.log_choice import Log
from specon_sidecar.observing.follow import LogFollower
from specon_sidecar.observing.follow_output import OutputFollower
from specon_sidecar.reporting.links import Manager
from specon_sidecar.settings import STDOUT, Settings
from specon_sidecar.trainer.process import Trainer, TrainerProcess
from specon_sidecar.trainer.search import SearchedTrainer
from specon_sidecar.trainer.sharing import Sharing
from specon_sidecar.trainer.stops import Stops, stops_in


def make_follower(
    settings: Settings, log: Log, start: FilePosition | EventFiles | None, manager: Manager | None
) -> LogFollower | OutputFollower:
    """Return what follows the log: through the manager where only that can read it."""
    if settings.log == STDOUT and settings.log_container is not None and manager is not None:
        return OutputFollower(manager, settings.log_container)
    return LogFollower(settings, log, start)


def make_trainer(settings: Settings) -> Trainer | None:
    """Return the trainer's process; None where nobody says which it is."""
    if settings.trainer_pid == "auto":
        return SearchedTrainer()
    return None if settings.trainer_pid is None else TrainerProcess(settings.trainer_pid)


def make_sharing(settings: Settings, process: Trainer | None) -> Sharing | None:
    """Return what lets the trainer run in turns; None where it takes none."""
    return None if settings.share is None or process is None else Sharing(process)


def make_stops(settings: Settings, sharing: Sharing | None) -> Callable[[], Stops | None] | None:
    """Return how to ask for how long the trainer was stopped; None where nobody stops it."""
    if sharing is not None:
        return lambda: sharing.stops
    file = _file(settings.stopped_file)
    return None if file is None else lambda: stops_in(file)


def make_watch(settings: Settings) -> CheckpointWatch | None:
    """Return what watches the checkpoint path; None where none is named."""
    path = checkpoint_path(settings)
    if path is None:
        return None
    files = [settings.state_file, settings.log, lease_file(settings.checkpoint, path)]
    if settings.checkpoint.kind == "file":
        files.append(settings.checkpoint.target)
    return CheckpointWatch(
        path,
        marker=settings.marker,
        settle=settings.settle,
        ignore=frozenset(Path(file) for file in files if file is not None),
    )


def checkpoint_path(settings: Settings) -> Path | None:
    """Return where the trainer saves; None where that is not named."""
    return _file(settings.checkpoint_path)


def _file(path: str | None) -> Path | None:
    return None if path is None else Path(path)
