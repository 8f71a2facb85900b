"""For how long evictions are put off while the wish for a move cannot be written. Pure."""

from typing import Final

PUT_OFF_SECONDS: Final = 60.0
FORGOTTEN_SECONDS: Final = 3600.0
"""After so long without another failure, the next one counts as the first. Drains ask every few seconds, the
descheduler in each of its rounds, which are minutes apart."""
REMEMBERED: Final = 1000


class Unwritten:
    """Since when the wishes for pods could not be written."""

    def __init__(self) -> None:
        """Begin with none."""
        self._since: dict[str, tuple[float, float]] = {}
        """The first and the latest failure, by the UID of the pod; the latest at the end."""

    def put_off(self, uid: str, now: float) -> bool:
        """Return whether an eviction whose wish was not written just now is put off, `now` in seconds.

        It passes after a minute. It passes at once while the memory is full of others that are put off: a pod
        that is forgotten again and again would be put off without end.
        """
        self._forget(now)
        since, _ = self._since.pop(uid, (now, now))
        if len(self._since) >= REMEMBERED:
            return False
        self._since[uid] = (since, now)
        return now - since < PUT_OFF_SECONDS

    def note_written(self, uid: str) -> None:
        """Take note that the wish for a pod is there."""
        self._since.pop(uid, None)

    def _forget(self, now: float) -> None:
        for uid, (_, latest) in list(self._since.items()):
            if now - latest < FORGOTTEN_SECONDS:
                break
            del self._since[uid]
