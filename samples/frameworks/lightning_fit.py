"""Lightning's Trainer on a small network over made-up numbers. It knows nothing of specon."""

import argparse
import hashlib

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Network(lightning.LightningModule):
    """Two layers, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1)
        )

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        """Return the loss of a batch."""
        loss = torch.nn.functional.mse_loss(self.layers(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.Adam(self.parameters(), lr=1e-3)


parser = argparse.ArgumentParser()
parser.add_argument("--out", default="out")
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--devices", type=int, default=1)
options = parser.parse_args()

torch.set_num_threads(1)
lightning.seed_everything(1)
inputs = torch.randn(800, 16)
targets = torch.sin(inputs.sum(dim=1, keepdim=True))
model = Network()
trainer = lightning.Trainer(
    max_epochs=options.epochs,
    deterministic=True,
    devices=options.devices,
    default_root_dir=options.out,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(TensorDataset(inputs, targets), batch_size=8, shuffle=True))
weights = b"".join(value.cpu().numpy().tobytes() for value in model.state_dict().values())
print("weights", hashlib.sha256(weights).hexdigest()[:16], flush=True)
