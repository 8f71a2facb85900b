"""Unmodified scripts of each framework are asked for a checkpoint, ended in the pause, and started again."""

import importlib.util
import re
from pathlib import Path

import pytest

from support.frameworks.asking_sidecar import AskingSidecar, run_script

pytestmark = [pytest.mark.processes, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[3]
TWO = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
CASES = {
    "transformers": ("hf_trainer.py", ["--steps", "120"], 40),
    "lightning": ("lightning_fit.py", ["--epochs", "3"], 130),
    "keras": ("keras_fit.py", ["--epochs", "3"], 130),
    "torch": ("pytorch_loop.py", ["--steps", "6000", "--save-every", "2000"], 40),
    "xgboost": ("xgboost_train.py", ["--rounds", "1000"], 20),
    "lightgbm": ("lightgbm_train.py", ["--rounds", "300"], 20),
}


def weights(told):
    return re.search(r"^weights (\w+)$", told, re.MULTILINE).group(1)


def needs(module):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: `make frameworks` installs it and runs this")


def moved(command, folder, ask_at):
    """Have a command saved, ended and started again; return the first sidecar, and what was printed last."""
    asking = AskingSidecar(folder / "a", ask_at=ask_at)
    told = run_script(command, asking, folder, until_saved=True)
    asking.close()
    saved = [each for each in asking.of_kind("saved") if each["request"]][-1]
    assert "specon:" not in told
    assert any(hello.get("saves") for hello in asking.of_kind("hello"))
    last = asking.of_kind("report")[-1]["step"]
    assert ask_at <= last <= saved["step"]
    named = {name for each in asking.of_kind("report") for name in each["values"]}
    assert "loss" in named
    resuming = AskingSidecar(folder / "b", resume={"path": saved["path"], "step": saved["step"]})
    told = run_script(command, resuming, folder)
    resuming.close()
    assert "specon:" not in told
    assert {"path": saved["path"], "step": saved["step"]} in resuming.of_kind("resumed")
    assert resuming.of_kind("report")[0]["step"] == saved["step"] + 1
    return asking, told


@pytest.mark.parametrize("case", CASES)
def test_an_unmodified_script_goes_on_from_the_step_that_was_saved(case, tmp_path):
    """It saves when it is asked, waits, goes on with the next step, and comes to the same result."""
    needs(case)
    script, arguments, ask_at = CASES[case]
    command = [str(ROOT / "samples/frameworks" / script), *arguments]
    asking, told = moved(command, tmp_path, ask_at)
    assert any(hello.get("framework", "").startswith(f"{case} ") for hello in asking.of_kind("hello"))
    (tmp_path / "alone").mkdir()
    assert weights(told) == weights(run_script(command, None, tmp_path / "alone"))


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("transformers", [*TWO, str(ROOT / "samples/frameworks/hf_trainer.py"), "--steps", "120"]),
        ("lightning", [str(ROOT / "samples/frameworks/lightning_fit.py"), "--devices", "2", "--epochs", "4"]),
    ],
)
def test_all_ranks_save_one_step_and_go_on_from_it(module, command, tmp_path):
    """Under torchrun, and where Lightning starts the second rank."""
    needs(module)
    moved(command, tmp_path, 30)


BY_POSITION = {
    "transformers": ("hf_trainer.py", "trainer.train()", "trainer.train(None)", ["--steps", "120"]),
    "lightning": (
        "lightning_fit.py",
        "shuffle=True))",
        "shuffle=True), None, None, None)",
        ["--epochs", "3"],
    ),
    "xgboost": (
        "xgboost_train.py",
        "num_boost_round=options.rounds, evals=",
        "options.rounds, ",
        ["--rounds", "1000"],
    ),
}


@pytest.mark.parametrize("case", BY_POSITION)
def test_none_by_position_names_no_checkpoint(case, tmp_path):
    """The script goes on as if nothing were given."""
    needs(case)
    script, written, instead, arguments = BY_POSITION[case]
    text = (ROOT / "samples/frameworks" / script).read_text()
    assert text.count(written) == 1
    (tmp_path / "train.py").write_text(text.replace(written, instead))
    moved(["train.py", *arguments], tmp_path, 20)


PARTS = """
import os, sys
import torch
import torch.distributed.checkpoint as dcp

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
step = max([int(name[5:]) for name in os.listdir() if name.startswith("step-")], default=0)
{load}
while step < 2000:
    optimizer.zero_grad()
    model(torch.ones(4)).square().sum().backward()
    optimizer.step()
    step += 1
    if step % 100 == 0:
{save}
"""
DCP = PARTS.format(
    load="""
state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
if step:
    model(torch.ones(4)).sum().backward()
    dcp.load({"model": state["model"]}, checkpoint_id=f"step-{step}")
""",
    save="""
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        dcp.save(state, checkpoint_id=f"step-{step}")
""",
)
ACCELERATE = PARTS.format(
    load="""
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
model, optimizer = accelerator.prepare(model, optimizer)
if step:
    accelerator.load_state(f"step-{step}")
""",
    save="""
        accelerator.save_state(f"step-{step}")
""",
)


@pytest.mark.parametrize(("module", "script"), [("torch", DCP), ("accelerate", ACCELERATE)])
def test_a_loop_that_saves_folders_is_held_after_its_next_one(module, script, tmp_path):
    """`torch.distributed.checkpoint` and Accelerate's `save_state`: the step is that of the optimizer."""
    needs(module)
    (tmp_path / "train.py").write_text(script)
    asking, _ = moved(["train.py"], tmp_path, 5)
    assert asking.of_kind("saved")[-1]["step"] % 100 == 0
