"""What each integration costs a step while nothing is asked: time of the processor, beside a sidecar.

    python benchmarks/frameworks/steps.py

Each figure is the least of five rounds of the call that the framework makes after a step. PyTorch's is the
difference of a loop with the hooks and one without, in which the optimizer does next to nothing. A
framework that is not installed is left out.
"""

import contextlib
import importlib.util
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROUNDS, STEPS = 5, 20_000


def listen(folder: Path) -> None:
    """Be a sidecar that answers hello and reads the rest."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "s"))
    server.listen(8)
    (folder / "token").write_text("x")

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = server.accept()
                peer.sendall(b'{"welcome": {"resume": null}}\n')
                threading.Thread(target=read, args=(peer,), daemon=True).start()

    def read(peer: socket.socket) -> None:
        while peer.recv(65536):
            pass

    threading.Thread(target=serve, daemon=True).start()
    os.environ.update(SPECON_SOCKET=str(folder / "s"), SPECON_TOKEN_FILE=str(folder / "token"))


def least(call: Callable[[int], Any], steps: int = STEPS) -> float:
    """Return the microseconds of one call."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.thread_time()
        for step in range(1, steps + 1):
            call(step)
        best = min(best, time.thread_time() - begun)
    return best / steps * 1e6


def hugging_face() -> float:
    """Return the cost of `on_step_end`."""
    import specon

    callback = specon.hugging_face()
    state, control = (
        SimpleNamespace(global_step=0, max_steps=10**6, is_world_process_zero=True),
        SimpleNamespace(),
    )
    arguments = SimpleNamespace()

    def step(number: int) -> None:
        state.global_step = number
        callback.on_step_end(arguments, state, control)

    return least(step)


def lightning() -> float:
    """Return the cost of `on_train_batch_end`, with a loss that is a tensor."""
    import torch

    import specon

    callback = specon.lightning()
    loss = {"loss": torch.tensor(1.0)}
    trainer = SimpleNamespace(global_step=0, current_epoch=0, is_global_zero=True, callback_metrics=loss)

    def step(number: int) -> None:
        trainer.global_step = number
        callback.on_train_batch_end(trainer, None, loss, None, number)

    return least(step)


def keras() -> float:
    """Return the cost of `on_train_batch_end`."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import specon

    callback = specon.keras()
    callback.set_params({"steps": STEPS + 1, "epochs": 1})
    logs = {"loss": 1.0, "accuracy": 0.5}
    return least(lambda number: callback.on_train_batch_end(number, logs))


def xgboost() -> float:
    """Return the cost of `after_iteration`."""
    import specon

    callback, model = specon.xgboost(), SimpleNamespace(num_boosted_rounds=lambda: 1)
    log = {"train": {"rmse": [1.0]}}
    return least(lambda number: callback.after_iteration(model, number, log))


def lightgbm() -> float:
    """Return the cost of the call after a round."""
    import specon

    callback = specon.lightgbm()
    results = [("training", "l2", 1.0, False)]

    def step(number: int) -> None:
        callback(
            SimpleNamespace(
                iteration=number, end_iteration=STEPS, begin_iteration=0, evaluation_result_list=results
            )
        )

    return least(step)


def pytorch() -> float:
    """Return what the hooks add to `backward` and `step`."""
    import torch

    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)

    def step(_: int) -> None:
        weight.sum().backward()
        optimizer.step()

    without = least(step, STEPS // 4)
    from specon.integrations import torch_

    for name in ("torch.optim.optimizer", "torch._tensor", "torch.serialization"):
        torch_.patch(sys.modules[name])
    return least(step, STEPS // 4) - without


CASES: dict[str, tuple[str, Callable[[], float]]] = {
    "PyTorch, unchanged": ("torch", pytorch),  # first: the others make it quiet
    "Hugging Face": ("transformers", hugging_face),
    "Lightning": ("lightning", lightning),
    "Keras": ("keras", keras),
    "XGBoost": ("xgboost", xgboost),
    "LightGBM": ("lightgbm", lightgbm),
}


def main() -> None:
    """Print microseconds by framework."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "trainer"))
    with tempfile.TemporaryDirectory() as folder:
        listen(Path(folder))
        figures = {}
        for name, (module, measure) in CASES.items():
            if importlib.util.find_spec(module) is not None:
                figures[name] = round(measure(), 2)
                print(f"{name}: {figures[name]:.2f} us a step", flush=True)
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
