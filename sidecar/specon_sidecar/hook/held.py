"""A trainer that has saved is kept from training on over its socket."""

from asyncio import AbstractEventLoop

from specon_sidecar.hook.server import Hook


class SocketKeeper:
    """Has all ranks wait that are connected (`checkpoints.pause_lease.Keeper`); called in any thread."""

    def __init__(self, hook: Hook, loop: AbstractEventLoop) -> None:
        """Take the hook and the loop that it lives in."""
        self._hook, self._loop = hook, loop

    def hold(self, request: str) -> None:
        """Have them wait, or wait on."""
        self._loop.call_soon_threadsafe(self._hook.hold, request)

    def release(self, request: str) -> None:
        """Let them train on."""
        self._loop.call_soon_threadsafe(self._hook.release, request)
