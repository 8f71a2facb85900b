"""Two real ranks under torchrun: they save at one step, wait together, and train on together."""

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from support.fake_sidecar import FakeSidecar, soon

TRAINER = Path(__file__).parents[2] / "trainer"
SCRIPT = """
    import json, os, sys, time
    if os.environ["RANK"] in sys.argv[1].split(","):
        del os.environ["SPECON_SOCKET"]
    import specon, specon.connection, torch, torch.distributed as dist
    specon.connection.STALE_SECONDS = 1.0
    dist.init_process_group("gloo")
    rank, asked, waited, work = dist.get_rank(), [], 0.0, torch.ones(4)
    for step in range(400):
        time.sleep(0.01 * (1 + rank))  # one is slower
        dist.all_reduce(work)
        if specon.checkpoint_requested():
            asked.append(step)
            begun = time.monotonic()
            specon.saved(f"/c/{step}", step, together=True)
            waited += time.monotonic() - begun
            break
    for _ in range(40):
        dist.all_reduce(work)
        assert not specon.checkpoint_requested()
    with open(f"{sys.argv[2]}/{rank}", "w") as out:
        json.dump([asked, waited], out)
    dist.barrier()
    os._exit(0)  # how threads of torch end at exit is not what is tested
"""


@pytest.mark.processes
@pytest.mark.parametrize("without", ["1", "none"])
def test_ranks_save_at_one_step_and_wait_together(tmp_path, tmp_path_factory, without):
    """A request that one rank's sidecar got is true on both at one step, has the other a sidecar or not.

    Both wait until the sidecar, which is killed in the pause, is silent for too long.
    """
    sidecar = FakeSidecar(tmp_path_factory.mktemp("s"))
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    environment = {
        **os.environ,
        "PYTHONPATH": str(TRAINER),
        "SPECON_SOCKET": str(sidecar.path),
        "SPECON_TOKEN_FILE": str(sidecar.token_file),
        "OMP_NUM_THREADS": "1",
    }
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    trainer = subprocess.Popen(
        [*torchrun, str(script), without, str(tmp_path)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    saved = []

    def act() -> None:
        sidecar.server.settimeout(60)
        while True:
            hello = sidecar.hear()["hello"]
            if hello["rank"] == 0 and hello["world"] == 2:
                break
            if hello["rank"]:
                sidecar.others.append(sidecar.peer)
                sidecar.peer = None
        time.sleep(0.3)
        sidecar.say("checkpoint", request="one", pause=20)
        sidecar.peer.settimeout(20)
        saved.append(soon(lambda: sidecar.hear().get("saved"), 20))
        sidecar.die()

    thread = threading.Thread(target=act)
    thread.start()
    output, _ = trainer.communicate(timeout=100)
    thread.join()
    assert trainer.returncode == 0, output
    (asked, waited), (other, too) = (json.loads((tmp_path / name).read_text()) for name in "01")
    assert asked == other
    assert [saved[0]["step"]] == asked
    assert saved[0]["request"] == "one"
    assert min(waited, too) > 0.9
    assert max(waited, too) < 10
