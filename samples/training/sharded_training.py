"""A training run whose parameters are spread over the workers."""

from collections.abc import Callable, Iterable

from arguments import Arguments
from parallel_training import SharedTraining
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor
from training import Trainable

from checkpoints import State


class ShardedTraining(SharedTraining):
    """Each worker has a shard of each parameter; layer by layer FSDP brings them together for a moment."""

    def __init__(self, run: Arguments, build: Callable[[int], Trainable], *, rank: int, size: int) -> None:
        """Spread the parameters; raises ValueError for a batch with fewer images than workers."""

        def spread(hidden: int) -> Trainable:
            # Before the optimizer sees them: what it keeps is spread alike.
            model = build(hidden)
            mesh = init_device_mesh("cpu", (size,))
            for layer in model.modules():
                if isinstance(layer, nn.Linear):
                    fully_shard(layer, mesh=mesh)
            fully_shard(model, mesh=mesh)
            register_fsdp_forward_method(model, "loss")
            return model

        super().__init__(run, spread, rank=rank, size=size)

    def state(self) -> State:
        """Return what a checkpoint holds; every worker has to call it at the same time.

        Loading a checkpoint, of any number of workers, fills its tensors where they are.
        """
        chains = [""] * self.size
        distributed.all_gather_object(chains, self.chain)
        return {**super().state(), "chains": " ".join(chains)}

    def restore(self, state: State, name: str) -> None:
        """Go on from what a checkpoint was loaded into. Raises MismatchError when it is another model's."""
        super().restore(state, name)
        chains = state["chains"].split(" ")
        self.chain = chains[self.rank] if len(chains) == self.size else state["chains"]

    def _loss(self, images: Tensor, labels: Tensor) -> Tensor:
        return self._model.loss(images, labels, self._generator)

    def _own(self) -> Iterable[Tensor]:
        for parameter in self._model.parameters():
            assert isinstance(parameter, DTensor)
            yield parameter.to_local()
