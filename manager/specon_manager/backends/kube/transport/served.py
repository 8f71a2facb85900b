"""Following a custom resource that a cluster may not have, or not yet."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import Resource

_log = logging.getLogger(__name__)
_PAUSE: Final = 30.0


async def when_served(
    api: Api,
    resource: Resource,
    follow: Callable[[], Coroutine[Any, Any, None]],
    *,
    absent: Callable[[], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Follow the resource as soon as the server has it; `absent` is called once where it does not.

    If you upgrade a manager before the definitions of its custom resources, you lose what needs them, and
    nothing else. Until cancelled.
    """
    told = False
    while True:
        try:
            served = await api.serves(resource)
        except (ApiError, ApiUnavailableError) as error:
            _log.debug("whether there are %s is not known: %s", resource.plural, error)
        else:
            if served:
                break
            if not told:
                told = True
                _log.warning("the server has no %s.%s: apply crds/", resource.plural, resource.group)
                absent()
        await sleep(_PAUSE)
    await follow()
