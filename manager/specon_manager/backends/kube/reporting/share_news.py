"""Who takes turns on GPUs, and why somebody who asked for it does not, in plain words. Pure."""

from collections.abc import Iterator, Mapping

from specon_manager.backends.kube.reporting.note import Note
from specon_manager.model.slices import NOT_YET


def words_of_turns(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Note]:
    """Yield what changed for replicas whose owners asked for turns; see `Slices.why`."""
    for replica, why in after.items():
        if why in NOT_YET or before.get(replica) == why:
            continue
        yield Note(
            replica=replica,
            reason="TakesNoTurns" if why else "TakesTurns",
            action="Share",
            text=f"it takes no turns on its GPUs: {why}" if why else "it takes turns on its GPUs",
            warning=bool(why),
        )
