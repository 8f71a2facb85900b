"""Another release of the chart over the namespace of a test: its own service account, Lease and webhook."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import yaml

from specon_manager.backends.kube.transport.resources import MUTATING_WEBHOOKS, NAMESPACES, Object
from support.kube.front import Front
from support.live.install import install, rendered, token, write_kubeconfig
from support.live.manager import LiveManager
from support.live.stage import MOVES_NOTHING, LiveStage


@contextlib.asynccontextmanager
async def second_release(live: LiveStage, folder: Path) -> AsyncIterator[LiveManager]:
    """Install it and start its manager, which writes to `folder`; all of it is removed at the end."""
    system = f"{live.namespace}-second"
    manager = LiveManager("other", live.settings.address, folder)

    async def webhook() -> list[tuple[str, int]]:
        return [(manager.host, manager.port)] if manager.alive else []

    async def reports() -> list[tuple[str, int]]:
        return [(manager.host, manager.reports_port)] if manager.alive else []

    fronts = [Front(webhook), Front(reports)]
    urls = [f"https://{live.settings.address}:{await each.start(live.settings.address)}" for each in fronts]
    labels = {"specon-e2e": live.namespace}
    await live.api.create(NAMESPACES, {"metadata": {"name": system, "labels": labels}})
    installed = await install(
        live.api, rendered(system, live.namespace, {}), system=system, webhook_url=urls[0]
    )
    for each in (system, live.system):
        await live.api.create(MUTATING_WEBHOOKS, _pointer(each))
    live.managers.append(manager)
    try:
        made = await live.eventually(lambda: token(live.api, system), "the second release has a token")
        config = folder / "config.yaml"
        sidecar = {"image": live.settings.sidecar_image}
        config.write_text(yaml.safe_dump({**MOVES_NOTHING, "sidecar": sidecar, "progress_seconds": 1}))
        manager.start(
            [
                *installed.arguments,
                f"--config={config}",
                f"--kubeconfig={write_kubeconfig(live.settings.kubeconfig, made, folder)}",
                f"--webhook-url={urls[0]}",
                f"--reports-url={urls[1]}",
            ]
        )
        yield manager
    finally:
        with contextlib.suppress(Exception):
            manager.stop()
        live.managers.remove(manager)
        for each in fronts:
            await each.stop()
        for resource, name in installed.cluster_wide:
            await live.gone(resource, name)
        for each in (system, live.system):
            await live.gone(MUTATING_WEBHOOKS, _pointer(each)["metadata"]["name"])
        await live.gone(NAMESPACES, system)


def _pointer(system: str) -> Object:
    """Return a configuration that points to a Service, as the chart's does; of nothing anybody is asked.

    By it other releases believe the Lease in that namespace. Those of the tests have an address instead.
    """
    webhook = {
        "name": "pointer.specon.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "specon-webhook", "namespace": system}},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "rules": [],
    }
    return {"metadata": {"name": f"{system}-pointer"}, "webhooks": [webhook]}
