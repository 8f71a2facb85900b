"""A trainer that keeps a GPU busy, and notes when it had made each step: for `gpu_turns.py`.

Without a GPU it trains the same network, as small as it is asked to be, on a processor.
"""

import argparse
import os
import time
from pathlib import Path

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--times", type=Path, required=True, help="a line for each step: clock, free bytes")
parser.add_argument("--steps", type=int, default=10**9)
parser.add_argument("--width", type=int, default=8192)
parser.add_argument("--ahead", type=int, default=1, help="so many steps are queued before it waits for them")
options = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Sequential(
    *(torch.nn.Linear(options.width, options.width, device=device, dtype=torch.bfloat16) for _ in range(4))
)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
inputs = torch.randn(options.width, options.width, device=device, dtype=torch.bfloat16)
times = os.open(options.times, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
for step in range(1, options.steps + 1):
    loss = model(inputs).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % options.ahead:
        continue
    value = loss.item()  # waits for the device
    free = torch.cuda.mem_get_info()[0] if device.type == "cuda" else 0
    os.write(times, f"{time.monotonic():.6f} {free}\n".encode())
    if step % (20 * options.ahead) == 0 or step == options.steps:
        print(f"step={step}/{options.steps} loss={value:.6g}", flush=True)
