"""No token and no key is written where logs go."""

import logging

import pytest

from specon_manager.model.transactions import TransactionState
from specon_manager.runtime.message_rate import RateLimits
from specon_sidecar.classify import Category
from specon_sidecar.reporting.client import Client
from specon_sidecar.reporting.outcome import Outcome
from specon_sidecar.wire import Report
from support.decisions.cluster import replica_of
from support.local.stage import Stage

A = replica_of("a")
SECRETS = ("key", "token")
"""Files of a state directory that hold secrets, and those of a pod."""


async def test_neither_side_logs_a_token(listening, tmp_path, caplog):
    """At the chattiest level, with good and bad tokens, in time and too often."""
    caplog.set_level(logging.DEBUG)
    bad = "not-anybodys-token-4711"
    async with listening(rate_limits=RateLimits(per_second=0.01, burst=2)) as server:
        good = server.bearer["Authorization"].removeprefix("Bearer ")
        for token, outcomes in ((bad, [Outcome.LOST]), (good, [Outcome.DELIVERED] * 2 + [Outcome.LOST])):
            (tmp_path / "shown").write_text(token)
            async with Client(
                server.url, replica=A, incarnation="0001", token_file=str(tmp_path / "shown")
            ) as client:
                told = [await client.report(_report(number)) for number in range(len(outcomes))]
                assert told == outcomes
        assert (await server.tell(b"{", {"Authorization": f"Bearer {bad}"}))[0] == 400
    assert "status 403" in caplog.text
    for secret in (bad, good, server.tokens.owner, (tmp_path / "key").read_text()):
        assert secret not in caplog.text


def _report(sequence):
    return Report(
        schema=1,
        replica=A,
        incarnation="0001",
        session="s",
        sequence=sequence,
        category=Category.PROGRESSING,
    )


@pytest.mark.processes
def test_a_run_leaves_its_secrets_in_their_files_alone(tmp_path):
    """Manager, supervisors and sidecars of a run with a move: everything they wrote is searched."""
    stage = Stage(tmp_path)
    try:
        stage.write_move()
        manager = stage.manager()
        assert manager.end.history[0].state is TransactionState.SUCCEEDED
    finally:
        stage.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    holders = [path for path in files if path.name in SECRETS]
    secrets = {secret for path in holders if len(secret := path.read_bytes().strip()) >= 32}
    assert {path.name for path in holders} == set(SECRETS)
    for path in holders:
        assert path.stat().st_mode & 0o077 == 0, path
    searched = [path for path in files if path not in holders]
    assert len(searched) > 5
    for path in searched:
        content = path.read_bytes()
        assert not [1 for secret in secrets if secret in content], path
