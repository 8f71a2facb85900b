"""What an API server's refusals mean for the person at the terminal: one sentence, with what to do."""

import contextlib
from collections.abc import Iterator
from typing import Final

from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError
from specon_manager.usage import UsageError
from specon_manager.views.names import printable

NOT_INSTALLED: Final = (
    "SpeCon is not installed there (no trainingprogresses.specon.io): helm install specon charts/specon, or "
    "name another --context, or --state DIR for a manager of this machine"
)
_UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403


@contextlib.contextmanager
def raise_in_words(where: str) -> Iterator[None]:
    """Turn what a call to the API may end in into a UsageError."""
    try:
        yield
    except ApiUnavailableError as error:
        text = f"no answer from {where}: {error}; look at --context, --kubeconfig and the network"
        raise UsageError(printable(text)) from error
    except ApiError as error:
        raise UsageError(printable(_sentence(where, error))) from error


def _sentence(where: str, error: ApiError) -> str:
    if error.status == _UNAUTHORIZED:
        return f"{where} does not accept your credentials: log in again, or name another --context"
    if error.status == _FORBIDDEN:
        return f"you may not do that: {error.message}; docs/commands.md lists the permissions that it takes"
    if error.not_found:
        return f"it is not there: {error.message}"
    return f"{where} says no: {error.message}"
