"""A manager's ports, one for each of those who come: the API server, sidecars, probes."""

import aiohttp
import pytest

from support.kube.cluster_stage import ClusterStage

ADMISSION, REPORTS = "/v1/admission/inject", "/v1/reports"


@pytest.fixture
async def manager(tmp_path):
    async with ClusterStage(tmp_path) as stage:
        yield await stage.manage_and_lead()


async def test_each_port_answers_only_what_it_is_for(manager):
    """What a NetworkPolicy lets through to one of them reaches nothing of the other."""
    found = {}
    async with aiohttp.ClientSession() as session:
        for name, port in (("admission", manager.port), ("reports", manager.reports_port)):
            for path in (ADMISSION, "/v1/admission/gate", REPORTS, "/v1/acknowledgements", "/v1/jobs"):
                async with session.post(f"https://127.0.0.1:{port}{path}", data=b"{}", ssl=False) as answer:
                    found[name, path] = answer.status
            for path in ("/v1/state", "/v1/instructions", "/metrics", "/readyz"):
                async with session.get(f"https://127.0.0.1:{port}{path}", ssl=False) as answer:
                    found[name, path] = answer.status
    served = {which for which, status in found.items() if status != 404}
    assert served == {
        ("admission", ADMISSION),
        ("admission", "/v1/admission/gate"),
        ("reports", REPORTS),
        ("reports", "/v1/acknowledgements"),
        ("reports", "/v1/jobs"),
        ("reports", "/v1/state"),
        ("reports", "/v1/instructions"),
    }
