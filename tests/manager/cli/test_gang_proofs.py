"""A gang's log shows whether it went on from where it was."""

import pytest

from specon_manager.cli.run.gang_proofs import Chain, chain_of

STEPS = [b"step=1/9 loss=2 lr=1 chain=sha256:aa\n", b"checkpoint saved step=2 name=x chain=sha256:bb\n"]


@pytest.mark.parametrize(
    ("resumed", "chain"),
    [
        (b"resumed from step=2 checkpoint=x rank=0 workers=2 chain=sha256:bb\n", Chain(1, 0)),
        (b"resumed from step=2 checkpoint=x rank=0 workers=2 chain=sha256:aa\n", Chain(1, 1)),
        (b"resumed from step=3 checkpoint=x rank=0 workers=2 chain=sha256:cc\n", Chain(1, 1)),
        (b"resumed from step=2 checkpoint=x rank=0 workers=2\n", Chain(0, 0)),
        (b"step=" + b"9" * 5000 + b" chain=sha256:aa", Chain(0, 0)),
    ],
)
def test_a_resume_goes_on_from_the_link_of_its_step(resumed, chain):
    """Another link, or one of a step that was never logged, breaks the chain."""
    assert chain_of([*STEPS, resumed]) == chain
