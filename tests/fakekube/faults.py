"""What can go wrong between a client and the server, on order of a test."""

import dataclasses
import re
from typing import TYPE_CHECKING

from fakekube.failures import FailureError

if TYPE_CHECKING:
    from fakekube.listing import Watch

_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclasses.dataclass
class _Fault:
    method: str
    path: re.Pattern[str]
    times: int
    status: int = 0
    retry_after: int | None = None
    seconds: float = 0.0
    drop: bool = False
    carried_out: bool = False


class Faults:
    """Faults in the order in which they were asked for; each hits as many requests as it says.

    `method` is empty for all; `path` is a regular expression that is searched for in the URL and its query.
    """

    def __init__(self) -> None:
        self._faults: list[_Fault] = []
        self.frozen = False
        self.watches: set[Watch] = set()
        """That are open."""
        self.tokens: set[str] | None = None
        """Bearer tokens that are accepted; None: any, and none at all."""
        self.gone_by_status = False
        """Whether a watch that begins too far back gets an HTTP 410 (else an ERROR event)."""

    def answer(
        self, status: int, *, method: str = "", path: str = "", times: int = 1, retry_after: int | None = None
    ) -> None:
        """Answer the next requests with a status instead of carrying them out."""
        self._add(_Fault(method, re.compile(path), times, status=status, retry_after=retry_after))

    def drop(self, *, method: str = "", path: str = "", times: int = 1, carried_out: bool = False) -> None:
        """Cut the connection of the next requests, before or after they have been carried out."""
        self._add(_Fault(method, re.compile(path), times, drop=True, carried_out=carried_out))

    def delay(self, seconds: float, *, method: str = "", path: str = "", times: int = 1) -> None:
        """Let the next requests wait."""
        self._add(_Fault(method, re.compile(path), times, seconds=seconds))

    def clear(self) -> None:
        """End all faults, frozen watches too."""
        self._faults.clear()
        self.frozen = False
        for watch in self.watches:
            watch.look()

    def freeze_watches(self) -> None:
        """Let watches stay open and say nothing more, until `clear`."""
        self.frozen = True

    def cut_watches(self) -> None:
        """End the connections of all watches that are open."""
        for watch in self.watches:
            watch.cut()

    def _add(self, fault: _Fault) -> None:
        self._faults.append(fault)

    def hit(self, method: str, path: str) -> _Fault | None:
        """Return the fault that this request meets, and count it."""
        for fault in self._faults:
            if fault.method in {"", method} and fault.path.search(path):
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
                return fault
        return None

    def check_token(self, authorization: str) -> None:
        """Raise a 401 for a bearer token that is not accepted."""
        if self.tokens is not None and authorization.removeprefix("Bearer ") not in self.tokens:
            raise FailureError(401, "Unauthorized", "Unauthorized")


def failure_of(fault: _Fault) -> FailureError:
    """Return the refusal that a fault stands for."""
    reason = _REASONS.get(fault.status, "InternalError")
    return FailureError(fault.status, reason, "a fault that a test asked for", retry_after=fault.retry_after)
