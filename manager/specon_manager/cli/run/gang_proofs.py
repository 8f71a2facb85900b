"""What logs show of gangs that moved: the chain of their parameters, as the samples of gangs log it.

A link is a hash of the link before and of the parameters after a step. A gang that goes on from the very link
that its log names for that step has lost nothing and done nothing twice.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from specon_manager.backends.local.pod_files import replica_directory
from specon_manager.cli.run.transaction_results import TransactionResult
from specon_sidecar.counts import format_count

_LINK: Final = re.compile(rb"(resumed from )?.*?\bstep=(\d{1,12})\b.* chain=sha256:([0-9a-f]{1,64})\s*\Z")
_LONGEST: Final = 4096  # bytes of a line that are looked at


class Chain(Struct, frozen=True):
    """What a log says of the chain."""

    resumes: int
    """How often training went on from a checkpoint."""
    broken: int
    """How often that was not from the link that was named before for that step."""


def chain_of(lines: Iterable[bytes]) -> Chain:
    """Return what the lines of a log say."""
    known: dict[bytes, bytes] = {}
    resumes = broken = 0
    for line in lines:
        found = _LINK.match(line[:_LONGEST])
        if found is None:
            continue
        resumed, step, link = found.groups()
        if resumed is None:
            known[step] = link
            continue
        resumes += 1
        broken += known.get(step) != link
    return Chain(resumes, broken)


def proofs(moves: Iterable[TransactionResult], directory: Path) -> Iterator[str]:
    """Yield a line for each move of a whole gang, of a run in this directory."""
    for move in moves:
        if move.replica is not None or move.downtime is None:
            continue
        log = replica_directory(directory / "replicas", f"{move.job}/worker/0") / "train.log"
        try:
            with log.open("rb") as file:
                chain = chain_of(file)
        except OSError:
            chain = Chain(0, 0)
        told = format_count(chain.resumes, "resume")
        linked = (
            f"unbroken over {told}" if chain.resumes and not chain.broken else f"broken in {chain.broken}"
        )
        yield (
            f"{move.job.partition('/')[2]} moved as a whole from step {move.checkpoint_step}:"
            f" {move.downtime:.1f} s of downtime, {format_count(move.steps_lost or 0, 'step')} lost,"
            f" chain of parameters {linked if chain.resumes else 'not in its log'}"
        )
