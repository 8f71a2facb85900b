"""End to end on a cluster of the user's choice: see `support.live.settings` for what is to be set.

KUBECONFIG=~/.kube/config ALLOW_CONTEXT=kind-kind SPECON_E2E_ADDRESS=172.18.0.1 \
SPECON_E2E_STORAGE_CLASS=nfs pytest tests/e2e/kube -m cluster
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from specon_manager.backends.kube.transport.api import Api
from support.live.settings import NotAllowedError, read_live_settings
from support.live.stage import LiveStage


@pytest.fixture
async def live(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LiveStage]:
    """Give a namespace on the cluster, and remove it and all that a test made there.

    The parameter, if there is one, is values of the chart.
    """
    if "cluster" not in (request.config.option.markexpr or ""):
        pytest.skip("a whole cluster: KUBECONFIG=... ALLOW_CONTEXT=... pytest -m cluster runs it")
    try:
        settings = read_live_settings()
    except NotAllowedError as error:
        pytest.skip(str(error))
    api = await Api.connect(kubeconfig=settings.kubeconfig, context=settings.context)
    stage = LiveStage(api, settings, tmp_path, getattr(request, "param", None))
    try:
        try:
            await stage.open()
            yield stage
        finally:
            await stage.close()
    except NotAllowedError as error:
        pytest.skip(str(error))
    finally:
        await api.close()
