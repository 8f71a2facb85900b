"""A loop in plain PyTorch that saves every hundred steps and goes on from that. It knows nothing of specon.

Under torchrun all ranks train as one, with DistributedDataParallel; rank 0 saves.
"""

import argparse
import hashlib
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, default=Path("out"))
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--save-every", type=int, default=100)
options = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(1)
rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(device)
if world > 1:
    dist.init_process_group("gloo")
trained = DistributedDataParallel(model) if world > 1 else model
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

step = 0
newest = options.out / "newest.pt"
if newest.exists():
    saved = torch.load(newest, map_location=device)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step = saved["step"]
    print(f"resumed from step {step}", flush=True)

while step < options.steps:
    inputs = torch.randn(16, 16, generator=torch.Generator().manual_seed(step * world + rank)).to(device)
    loss = torch.nn.functional.mse_loss(trained(inputs), torch.sin(inputs.sum(dim=1, keepdim=True)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if rank == 0 and step % 20 == 0:
        print(f"step {step}/{options.steps} loss {loss.item():.4f}", flush=True)
    if rank == 0 and step % options.save_every == 0:
        options.out.mkdir(parents=True, exist_ok=True)
        content = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(content, newest.with_suffix(".part"))
        newest.with_suffix(".part").replace(newest)

if world > 1:
    dist.destroy_process_group()
weights = b"".join(value.cpu().numpy().tobytes() for value in model.state_dict().values())
print("weights", hashlib.sha256(weights).hexdigest()[:16], flush=True)
