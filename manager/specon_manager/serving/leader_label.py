"""The label by which the reports' Service finds the one pod that leads."""

import asyncio
import logging
from typing import Final

from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import PODS

_log = logging.getLogger(__name__)
LABEL: Final = "specon.io/leader"
_RETRY_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 60.0


async def keep_label(api: Api, namespace: str, pod: str) -> None:
    """Keep the label on our pod and off all others, until cancelled."""
    while True:
        kept = await take_label(api, namespace, pod)
        await asyncio.sleep(_LOOK_SECONDS if kept else _RETRY_SECONDS)


async def take_label(api: Api, namespace: str, pod: str) -> bool:
    """Put the label on our pod, and take it off every other; False where that has to be tried again."""
    try:
        labelled, _ = await api.list(PODS, namespace, label_selector=f"{LABEL}=true")
        for other in labelled:
            name = other["metadata"]["name"]
            if name != pod:
                await _set(api, namespace, name, None)
        await _set(api, namespace, pod, "true")
    except (ApiError, ApiUnavailableError) as error:
        _log.warning("the label %s: %s", LABEL, error)
        return False
    return True


async def drop_label(api: Api, namespace: str, pod: str) -> None:
    """Take the label off our pod, if that can be done at once: the next leader does it too."""
    try:
        await _set(api, namespace, pod, None)
    except (ApiError, ApiUnavailableError) as error:
        _log.info("the label %s stays until another leads: %s", LABEL, error)


async def _set(api: Api, namespace: str, pod: str, value: str | None) -> None:
    change = {"metadata": {"labels": {LABEL: value}}}
    try:
        await api.patch(PODS, pod, namespace, change, form="merge")
    except ApiError as error:
        if not error.not_found:
            raise
