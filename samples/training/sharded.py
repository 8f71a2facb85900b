"""A perceptron whose parameters are spread over its workers: PyTorch's FSDP on CPUs, through gloo.

Each worker has its shard of each parameter, and of what the optimizer keeps, and writes it into its own part
of the checkpoint, with `torch.distributed.checkpoint`. Any number of workers goes on from that.
"""

from signals import REQUESTS  # first of all: it installs the signal handlers

# isort: split
import gang
from arguments import Arguments, Defaults
from perceptron import Perceptron
from rendezvous import Team
from sharded_checkpoints import ShardedCheckpoints
from sharded_training import ShardedTraining

DEFAULTS = Defaults(steps=2000, batch_size=1024, hidden=256, learning_rate=1e-3)


def _parts(run: Arguments, team: Team) -> tuple[ShardedTraining, ShardedCheckpoints | None]:
    training = ShardedTraining(run, Perceptron, rank=team.rank, size=team.size)
    return training, None if run.checkpoint_dir is None else ShardedCheckpoints(run, team)


if __name__ == "__main__":
    gang.main("sharded-perceptron", DEFAULTS, _parts, REQUESTS)
