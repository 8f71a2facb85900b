"""Amounts of what replicas ask for and nodes have."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

Amount = Annotated[float, Meta(ge=0, le=1e15)]


class Resources(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """CPU in cores, memory in bytes, GPUs in devices."""

    cpu: Amount = 0.0
    memory: Amount = 0.0
    gpu: Amount = 0.0

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(
            cpu=self.cpu + other.cpu, memory=self.memory + other.memory, gpu=self.gpu + other.gpu
        )

    def __sub__(self, other: "Resources") -> "Resources":
        """Return the rest, never less than nothing of any kind."""
        return Resources(
            cpu=max(0.0, self.cpu - other.cpu),
            memory=max(0.0, self.memory - other.memory),
            gpu=max(0.0, self.gpu - other.gpu),
        )

    def shares(self, whole: "Resources") -> tuple[float, ...]:
        """Return which part it is of each kind that `whole` has any of."""
        pairs = ((self.cpu, whole.cpu), (self.memory, whole.memory), (self.gpu, whole.gpu))
        return tuple(part / most for part, most in pairs if most > 0)

    def fits(self, room: "Resources") -> bool:
        """Whether this much fits into `room`; an exact fit is a fit."""
        return self.cpu <= room.cpu and self.memory <= room.memory and self.gpu <= room.gpu


NOTHING = Resources()


def total(amounts: "list[Resources]") -> Resources:
    """Return the sum of the amounts."""
    return sum(amounts, NOTHING)


def largest(amounts: Iterable[Resources]) -> Resources:
    """Return the largest amount of each kind, nothing where there are none."""
    most = NOTHING
    for amount in amounts:
        most = Resources(
            cpu=max(most.cpu, amount.cpu),
            memory=max(most.memory, amount.memory),
            gpu=max(most.gpu, amount.gpu),
        )
    return most


def least_of(amounts: Iterable[Resources]) -> Resources:
    """Return the least amount of each kind; there must be one at least."""
    asked = list(amounts)
    return Resources(
        cpu=min(each.cpu for each in asked),
        memory=min(each.memory for each in asked),
        gpu=min(each.gpu for each in asked),
    )


def size(amount: Resources) -> tuple[float, float, float]:
    """Return by what amounts are ordered where one has to be larger: devices, cores, bytes."""
    return amount.gpu, amount.cpu, amount.memory
