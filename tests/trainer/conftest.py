import pytest

from specon import helper
from support.fake_sidecar import FakeSidecar, fresh


@pytest.fixture
def sidecar(tmp_path_factory, monkeypatch):
    """Yield a sidecar that listens; the helper was told where."""
    made = FakeSidecar(tmp_path_factory.mktemp("s"))
    monkeypatch.setenv("SPECON_SOCKET", str(made.path))
    monkeypatch.setenv("SPECON_TOKEN_FILE", str(made.token_file))
    fresh(monkeypatch)
    yield made
    helper._helper.connection and helper._helper.connection.close()
    made.die()
