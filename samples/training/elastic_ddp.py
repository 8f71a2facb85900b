"""A perceptron trained by any number of workers: PyTorch's DistributedDataParallel on CPUs, through gloo.

The number of workers is fixed at the start; it is changed by ending all of them and starting another number,
which go on from the newest checkpoint. The batch stays the same, so fewer workers take longer for a step.
"""

from signals import REQUESTS  # first of all: it installs the signal handlers

# isort: split
import gang
from arguments import Arguments, Defaults
from log import Log
from parallel_training import ParallelTraining, SharedTraining
from perceptron import Perceptron
from rendezvous import Team

from checkpoints import CheckpointDirectory, read

DEFAULTS = Defaults(steps=2000, batch_size=1024, hidden=256, learning_rate=1e-3)


class FirstSaves:
    """The first worker saves for all, and all read what it saved."""

    needs_all = False

    def __init__(self, run: Arguments, team: Team) -> None:
        assert run.checkpoint_dir is not None
        self._folder = run.checkpoint_dir
        self._checkpoints = CheckpointDirectory(run.checkpoint_dir, run.keep) if team.leads else None

    def restore(self, training: SharedTraining, team: Team, log: Log) -> str:
        """Go on from the newest good checkpoint; return its name, or nothing where there is none."""
        name = team.said_by_the_first(lambda: self._newest(log))
        if name:
            training.restore(read(self._folder / name), name)
        return name

    def save(self, training: SharedTraining) -> str:
        """Save the present step, if this is the first worker; return its name. Raises OSError."""
        return "" if self._checkpoints is None else self._checkpoints.save(training.state()).name

    def _newest(self, log: Log) -> str:
        assert self._checkpoints is not None
        found = self._checkpoints.newest(lambda path: log.write(f"checkpoint unreadable name={path.name}"))
        return "" if found is None else found[0].name


def _parts(run: Arguments, team: Team) -> tuple[SharedTraining, FirstSaves | None]:
    training = ParallelTraining(run, Perceptron, rank=team.rank, size=team.size)
    return training, None if run.checkpoint_dir is None else FirstSaves(run, team)


if __name__ == "__main__":
    gang.main("perceptron", DEFAULTS, _parts, REQUESTS)
