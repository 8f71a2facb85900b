"""Moves that somebody asked for and that wait: their Migrations say what for, and since when."""

import logging
import random
from collections.abc import Callable, Mapping
from typing import Final

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.records.decoding import cut_text, moment
from specon_manager.backends.kube.records.due_writes import DueWrites
from specon_manager.backends.kube.records.migration_status import MigrationStatus
from specon_manager.backends.kube.records.records import status_of
from specon_manager.backends.kube.transport.api import Api
from specon_manager.backends.kube.transport.errors import ApiError
from specon_manager.backends.kube.transport.rate import Rate
from specon_manager.backends.kube.transport.resources import MIGRATIONS
from specon_manager.model.transactions import Request

_log = logging.getLogger(__name__)
WAITS: Final = "waits: "


class QueuedRequests:
    """Tells people what their requests wait for; in the background, for nothing hangs on it.

    Neither a state nor the name of a manager is written: until a move has begun its object is a request, also
    for a manager of version 0.1 that takes over.
    """

    def __init__(self, api: Api, *, holds: Callable[[], bool], rate: Rate, rng: random.Random) -> None:
        """Write while `holds` says that this manager leads; `rate` bounds the writes."""
        self._api, self._holds = api, holds
        self._requests: Mapping[str, Request] = {}
        self.due = DueWrites(self._write, kind=MIGRATIONS.kind, holds=holds, rate=rate, rng=rng)

    def tell(self, requests: Mapping[str, Request]) -> None:
        """Take note of what waits by now."""
        before, self._requests = self._requests, requests
        for name, request in requests.items():
            known = before.get(name)
            if known is None or known.waits_for != request.waits_for:
                self.due.put(name)

    async def _write(self, name: str) -> None:
        request = self._requests.get(name)
        if request is None:
            return  # it has begun, or is wanted no more
        if not self._holds():
            raise NotLeadingError("another manager may lead")
        namespace, _, short = name.partition("/")
        message = cut_text(f"{WAITS}{request.waits_for}") if request.waits_for else None
        status = MigrationStatus(
            replica=request.replica or None, message=message, proposed_at=moment(request.at)
        )
        try:
            await self._api.patch(
                MIGRATIONS,
                short,
                namespace,
                {"status": status_of(status)},
                form="merge",
                subresource="status",
            )
        except ApiError as error:
            if not error.not_found:  # deleted: it is withdrawn in a moment
                raise
