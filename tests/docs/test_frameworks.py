"""The lines that docs/how-to/frameworks.md gives for each framework: they save when asked, and go on."""

import importlib.util
import re

import pytest

from support.frameworks.asking_sidecar import AskingSidecar, run_script

pytestmark = [pytest.mark.processes, pytest.mark.timeout(1800)]
TORCH = """
import sys, time
import specon, torch
torch.manual_seed(0)
folder = sys.argv[1]
"""
ARRAYS = """
import numpy as np
x = np.random.default_rng(0).normal(size=(400, 4))
y = x.sum(axis=1)
"""
BEFORE = {
    "pytorch": TORCH
    + """
steps = 3000
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
def train(step):
    time.sleep(0.002)
    loss = model(torch.ones(4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
""",
    "hugging_face": TORCH
    + """
from transformers import Trainer, TrainingArguments
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
    def forward(self, x=None, labels=None):
        return {"loss": self.linear(x).square().mean()}
model = Model()
data = [{"x": torch.randn(4), "labels": torch.zeros(1)} for _ in range(64)]
args = TrainingArguments(
    output_dir=folder, max_steps=300, report_to="none", use_cpu=True, logging_steps=5, disable_tqdm=True
)
""",
    "lightning": TORCH
    + """
import lightning
from lightning import Trainer
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
    def training_step(self, batch, _):
        return self.linear(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.001)
model, epochs = Model(), 10
data = torch.utils.data.DataLoader(torch.randn(400, 4), batch_size=4)
""",
    "keras": ARRAYS
    + """
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras, specon
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
epochs = 20
""",
    "xgboost": ARRAYS
    + """
import specon, xgboost
data, rounds, parameters = xgboost.DMatrix(x, y), 20000, {"nthread": 1}
""",
    "lightgbm": ARRAYS
    + """
import lightgbm, specon
data, rounds, parameters = lightgbm.Dataset(x, y), 30000, {"num_threads": 1, "verbosity": -1}
""",
}
MODULES = {"hugging_face": "transformers", "pytorch": "torch"}


@pytest.fixture(params=BEFORE)
def name(request):
    module = MODULES.get(request.param, request.param)
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: `make frameworks` installs it and runs this")
    return request.param


def test_each_block_saves_when_it_is_asked_and_goes_on_from_there(name, root, tmp_path):
    """With no import hook: what is on the page is all that there is."""
    page = (root / "docs/how-to/frameworks.md").read_text()
    block = re.search(rf"^<!-- runs: {name} -->\n```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL).group(
        1
    )
    script = tmp_path / "train.py"
    script.write_text(BEFORE[name] + block)
    command = [str(script), str(tmp_path)]
    off = {"SPECON_INSTRUMENT": "off"}
    asking = AskingSidecar(tmp_path / "a", ask_at=10)
    told = run_script(command, asking, tmp_path, until_saved=True, environment=off)
    asking.close()
    (saved,) = [each for each in asking.of_kind("saved") if each["request"]]
    assert "specon:" not in told
    resuming = AskingSidecar(tmp_path / "b", ask_at=10, resume={"path": saved["path"], "step": saved["step"]})
    run_script(command, resuming, tmp_path, until_saved=True, environment=off)
    resuming.close()
    assert resuming.of_kind("report")[0]["step"] == saved["step"] + 1
