"""Where in the training a line stands, by the numbers that it prints."""

from typing import Final

from specon_sidecar.formats.epochs import Epochs
from specon_sidecar.formats.laps import Laps
from specon_sidecar.formats.position_keys import STEP_KEYS

# `batch 800/34064` counts within an epoch, and beside an epoch `iter 250/3766` does too: no totals of the
# training.
_LAST_GLOBAL: Final = STEP_KEYS["global_step"]
_BATCH: Final = STEP_KEYS["batch"]

_NEVER: Final = -(2**31)


class _Fractions:
    """Finds the fractions of a log that are turned round: `Step 924/801` for step 801 of 924.

    What is done is no more than the whole, at the first sight of such a fraction already. A first number that
    grows above a second that stays is that of a loop which went on too long.
    """

    def __init__(self) -> None:
        self._last: tuple[float, int] | None = None
        self._turned: bool | None = None

    def read(self, i: float, n: int) -> tuple[float, int]:
        """Return what is done and the whole."""
        last, self._last = self._last, (i, n)
        if self._turned is None and i > n + 1:
            self._turned = last is None or last[0] == i
        elif self._turned and last is not None and (i < n or (i != last[0] and n == last[1])):
            self._turned = False
        return (float(n), int(i)) if self._turned and i > n else (i, n)


class Places:
    """Finds where in the training a line stands, by the names that logs use for that."""

    def __init__(self) -> None:
        self.epochs: Final = Epochs()
        self._before: tuple[float, int] | None = None
        self._step_is_global = False
        self._step_of_epoch = False
        self._grows_by: int | None = None
        self._goes_through = False
        self._grown_over = 0
        self._alone: tuple[float, int] | None = None
        self._stays = False
        self._laps = Laps()
        self._of_steps = _Fractions()
        self._of_epochs = _Fractions()

    def through(  # noqa: PLR0917 - the numbers of a line in the order in which they are found
        self,
        step: int | None,
        step_rank: int,
        of_step: int | None,
        epoch: float | None,
        epochs: int | None,
        total: int | None,
    ) -> tuple[int | None, float | None, int | None, int | None]:
        """Return the same, of the numbers that a line prints."""
        if epoch is not None and epochs:
            epoch, epochs = self._of_epochs.read(epoch, epochs)
        if step is None or of_step is None:
            return (None if self._is_length(step, epoch) else step), epoch, total, epochs
        if of_step:
            done, of_step = self._of_steps.read(step, of_step)
            step = int(done)
        return self._of_training(step, step_rank, of_step, epoch, epochs, total)

    def _of_training(  # noqa: PLR0917 - as above
        self,
        step: int,
        step_rank: int,
        of_step: int,
        epoch: float | None,
        epochs: int | None,
        total: int | None,
    ) -> tuple[int | None, float | None, int | None, int | None]:
        if step_rank <= _LAST_GLOBAL and epochs is not None and epoch is not None:
            if self._is_global(epoch, step):
                return step, epoch, of_step, epochs
        elif step_rank <= _LAST_GLOBAL or (epoch is None and step_rank != _BATCH):
            if not self._starts_again(epoch, step):
                return step, epoch, of_step, epochs
        elif epoch is not None and self._is_numbered_through(epoch, step):
            return step, epoch, of_step, epochs
        if epoch is None and step_rank == _BATCH:
            return self._laps.through(step, of_step)[0], None, total, epochs
        if epoch is not None:
            through, total = self.epochs.through(epoch, epochs, step, of_step)
            return through, epoch, total, epochs
        return step, epoch, total, epochs

    def see_before_epochs(self, step: int) -> None:
        """Take note of a step before the first epoch that the log says: one that grows from there goes on."""
        self._before = (-1.0, step)

    def _is_length(self, step: int | None, epoch: float | None) -> bool:
        """Whether `Epoch 3 | Steps: 300` says how long an epoch is: it stays while the epochs go on."""
        if step is None or epoch is None:
            return False
        before, self._alone = self._alone, (epoch, step)
        if before is not None and epoch > before[0]:
            self._stays = step == before[1]
        return self._stays

    def _is_global(self, epoch: float, step: int) -> bool:
        """Whether `Epoch 3/40, Step 100/600` counts steps of the training.

        Nearly always they are those of the epoch. A step that goes on growing into the next epoch is not.
        """
        before = self._before
        if before is None or epoch != before[0] or step > before[1]:  # no smaller one of an evaluation
            self._before = (epoch, step)
        if before is not None and epoch > before[0]:
            self._step_is_global = step > before[1]
        return self._step_is_global

    def _is_numbered_through(self, epoch: float, step: int) -> bool:
        """Whether `epoch: 3, iter: 620/10000` counts the training: it grows from epoch to epoch as ever.

        Where there is one line an epoch, it has grown from each to the next.
        """
        before, self._before = self._before, (epoch, step)
        if before is not None and epoch > before[0]:
            self._grown_over = self._grown_over + 1 if step > before[1] else _NEVER
            self._goes_through = step - before[1] == self._grows_by or self._grown_over > 1
        elif before is not None and epoch == before[0]:
            self._grows_by = step - before[1]
        return self._goes_through

    def _starts_again(self, epoch: float | None, step: int) -> bool:
        """Whether `Epoch 1 | Step 10/6501` was found to count within the epoch: it went back at a new one."""
        if epoch is None:
            return False
        before, self._before = self._before, (epoch, step)
        self.epochs.see(epoch)
        if before is not None and epoch > before[0]:
            self._step_of_epoch = step < before[1]
        return self._step_of_epoch
