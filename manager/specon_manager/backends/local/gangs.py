"""What a replica is told of the gang that it trains with: placeholders of its command, and environment."""

from collections.abc import Mapping

from msgspec import Struct

from specon_manager.model.actions import StartReplica
from specon_manager.model.cluster import index_of, role_of


class GangMember(Struct, frozen=True, kw_only=True):
    """A replica as a member of a gang that trains together; the same for every order of the same start."""

    role: str
    index: int
    """Of the replica, for life."""
    rank: int
    """Among the workers of the gang, or among its parameter servers: from 0 without gaps."""
    workers: int
    """How many workers train together."""
    start: int
    gang: tuple[str, ...]
    """Names of all of it."""

    @property
    def placeholders(self) -> Mapping[str, str]:
        """The values filled into commands and paths."""
        return {
            "role": self.role,
            "index": str(self.index),
            "rank": str(self.rank),
            "workers": str(self.workers),
            "world_size": str(self.workers),
            "start": str(self.start),
        }

    @property
    def environment(self) -> Mapping[str, str]:
        """What trainers find in their environment; workers also RANK and WORLD_SIZE, as torch reads them."""
        known = {
            "SPECON_ROLE": self.role,
            "SPECON_INDEX": str(self.index),
            "SPECON_RANK": str(self.rank),
            "SPECON_WORLD_SIZE": str(self.workers),
            "SPECON_GANG": " ".join(self.gang),
        }
        if self.role != "ps" and len(self.gang) > 1:
            known |= {"RANK": str(self.rank), "WORLD_SIZE": str(self.workers)}
        return known


def place_of(order: StartReplica) -> GangMember:
    """Return the place of the replica that is ordered to start; alone where no gang is named."""
    gang = order.gang or (order.replica,)
    role = role_of(order.replica)
    peers = [name for name in gang if (role_of(name) == "ps") == (role == "ps")]
    return GangMember(
        role=role,
        index=index_of(order.replica),
        rank=peers.index(order.replica),
        workers=max(1, sum(role_of(name) != "ps" for name in gang)),
        start=order.start,
        gang=gang,
    )
