"""Checkpoints in parts: a folder `step-00000120/`, in which each worker writes its own, with an index of all.

It is written under a hidden name and renamed once all parts and the index are on the disk: a reader of the
folder sees all of it.
"""

import contextlib
import copy
import re
import shutil
from pathlib import Path

from arguments import Arguments
from log import Log
from parallel_training import SharedTraining
from rendezvous import Team
from torch import distributed
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

_NAME = re.compile(r"step-(\d{8,})")


class ShardedCheckpoints:
    """The checkpoints of one training run; every worker calls each method at the same time."""

    needs_all = True

    def __init__(self, run: Arguments, team: Team) -> None:
        """Make the folder, and clear what killed workers left half written. Raises OSError."""
        assert run.checkpoint_dir is not None
        self._folder, self._keep, self._leads = run.checkpoint_dir, run.keep, team.leads
        self._unreadable: set[str] = set()
        self._folder.mkdir(parents=True, exist_ok=True)
        if team.leads:
            for leftover in self._folder.glob(".step-*"):
                shutil.rmtree(leftover, ignore_errors=True)

    def restore(self, training: SharedTraining, team: Team, log: Log) -> str:
        """Go on from the newest good checkpoint; return its name, or nothing where there is none."""
        while name := team.said_by_the_first(self._newest):
            state = copy.deepcopy(training.state())  # one that is damaged may be read in part
            head = {"run": dict(state["run"])}
            try:
                load(head, checkpoint_id=self._folder / name)
                training.expect(head["run"], name)  # before tensors of other shapes are read
                load(state, checkpoint_id=self._folder / name)
            except CheckpointException:  # on all workers, whichever of them could not read its part
                self._unreadable.add(name)
                log.write(f"checkpoint unreadable name={name}")
            else:
                training.restore(state, name)
                return name
        return ""

    def save(self, training: SharedTraining) -> str:
        """Save the present step; return the name of the checkpoint. Raises OSError on all workers alike."""
        name = f"step-{training.step:08d}"
        aside = self._folder / f".{name}.tmp"
        try:
            save(training.state(), checkpoint_id=aside)
        except CheckpointException as error:
            raise OSError(None, str(error).splitlines()[0][:160]) from error
        if self._leads:
            self._show(aside, self._folder / name)
        distributed.barrier()
        self._unreadable.discard(name)
        return name

    def _show(self, aside: Path, path: Path) -> None:
        """Give it its name, in place of an earlier one of the same step; then delete those beyond `keep`."""
        former = path.with_name(f".{path.name}.former")
        with contextlib.suppress(FileNotFoundError):
            path.rename(former)
        aside.rename(path)
        shutil.rmtree(former, ignore_errors=True)
        # Later steps than this are damaged ones that this run has yet to overtake: not counted.
        listed = [name for name in self._listed() if name <= path.name and name not in self._unreadable]
        for old in listed[: -self._keep]:
            shutil.rmtree(self._folder / old, ignore_errors=True)

    def _newest(self) -> str:
        good = [name for name in self._listed() if name not in self._unreadable]
        return good[-1] if good else ""

    def _listed(self) -> list[str]:
        found = [
            (int(match[1]), path.name)
            for path in self._folder.iterdir()
            if (match := _NAME.fullmatch(path.name)) and path.is_dir()
        ]
        return [name for _, name in sorted(found)]
