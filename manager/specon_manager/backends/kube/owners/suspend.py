"""Jobs with one pod: suspended, so that the pod goes, and resumed, so that the next one comes.

Nothing counts against a backoffLimit then, and no replacement is delayed. Only `suspend` is changed, and an
annotation says that it was us: one that its user suspended stays suspended, and one that its user resumes in
between is not suspended again.
"""

import contextlib
from typing import Any

from specon_manager.backends.kube.owners.job_patch import JobWish, suspended
from specon_manager.backends.kube.owners.patching import OwnerReplacedError, mark_of, may_go, patched
from specon_manager.backends.kube.owners.way import Coming, Hands, Leaving, RefusedError

Object = dict[str, Any]


class Suspension:
    """Suspends and resumes the whole job."""

    async def let_go(self, hands: Hands, leaving: Leaving) -> None:
        """Suspend the job, unless a disruption budget protects its pod at this moment."""
        owner = leaving.owner
        if owner is None:
            raise RefusedError("its owner is not there")
        # A suspension would not ask the disruption budgets.
        await may_go(hands, [leaving.pod], whole=True)

        def decide(job: Object) -> JobWish | None:
            if suspended(owner.kind, job):
                return None  # its pod goes anyway
            return JobWish(suspended=True, mark=leaving.move)

        with contextlib.suppress(OwnerReplacedError):
            await patched(hands, owner, decide)

    async def bring_back(self, hands: Hands, coming: Coming) -> None:
        """Resume the job if it was us who suspended it."""
        owner = coming.owner
        if owner is None:
            raise RefusedError("its owner is gone")

        def decide(job: Object) -> JobWish | None:
            if mark_of(job):
                return JobWish(suspended=False, mark=None)
            if suspended(owner.kind, job):
                raise RefusedError(f"{owner} was suspended by somebody else")
            return None

        await patched(hands, owner, decide)
