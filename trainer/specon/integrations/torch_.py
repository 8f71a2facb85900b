"""Plain PyTorch: observations of a loop that was not changed, and `specon.pytorch` for one line more.

Nobody but the script knows all that it needs to go on, so nothing can be saved in its place. What it
saves itself is seen: `torch.save` of a dictionary that has an optimizer's state in it,
`torch.distributed.checkpoint.save`, and Accelerate's `save_state`. Its next save answers a request; the
pause comes before the next step of its optimizer, so nothing is lost. Steps are those of the optimizer
that steps first. A file beside the checkpoints, `.specon-steps.json`, keeps which of them has which
step, for the script's own way of counting is its own. Of a checkpoint that is older than this file the
optimizer's own state tells the step, where it keeps one (Adam and most others; SGD does not).
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import sys
from typing import Any, Callable

import specon
from specon import helper
from specon.integrations.common import Integration, Progress, lead, number

IT = Integration("torch")
_INDEX = ".specon-steps.json"
_MOST = 64
_DEEP = 2
_FIRST = 16
"""So many parameters are asked for their step: one of an unused layer has fewer."""


class _Loop:
    """Observations of the loop of this process."""

    def __init__(self) -> None:
        self.base = self.steps = 0
        self.optimizer: int | None = None
        self.several = False
        """Whether more than one optimizer steps: then no loss can be told from another."""
        self.before = 0
        """The steps that the optimizer's state had of a checkpoint whose step nothing else tells."""
        self.loaded: str | None = None
        """The checkpoint that the script loaded last, whose step nothing beside it tells."""
        self.saved: dict[str, int] = {}
        """The files saved since the last step, and the inode of each: a script may rename one."""
        self.wanted = True
        self.losses: list[Any] = []
        self.scaled = False
        self.told = False
        self.progress = Progress()

    @property
    def step(self) -> int:
        return self.base + self.before + self.steps

    def quiet(self) -> bool:
        """Whether a framework or the script itself speaks with specon."""
        return helper.asks()


_LOOP = _Loop()


@IT.guarded
def _before_step(*_: Any) -> None:
    """Report the files saved since the last step: by now each has its name, and no step was trained since."""
    if not _LOOP.saved:
        return
    saved, _LOOP.saved = _LOOP.saved, {}
    if _LOOP.quiet():
        return
    found = [path for path in (_now(path, inode) for path, inode in saved.items()) if path is not None]
    if not found:
        return
    if not _LOOP.told:
        _LOOP.told = True
        _announce(saves=True)
    for path in found:
        _note(path, _LOOP.step)
    specon.saved(found[-1], _LOOP.step)


@IT.guarded
def _after_step(optimizer: Any, *_: Any) -> None:
    if _LOOP.optimizer is None:
        _LOOP.optimizer = id(optimizer)
    elif _LOOP.optimizer != id(optimizer):
        _LOOP.several = True
        return
    _LOOP.steps += 1
    losses, _LOOP.losses, _LOOP.scaled = _LOOP.losses, [], False
    if _LOOP.steps == 1 and not _LOOP.base:  # a framework speaks for itself after its first step
        _LOOP.before = _steps_before(optimizer)
        return
    if _LOOP.before and not _LOOP.quiet():
        _LOOP.base, _LOOP.before = _LOOP.before, 0
        specon.resumed(_LOOP.loaded, _LOOP.base)
    if _LOOP.quiet():
        _LOOP.wanted = False
    elif losses and not _LOOP.several:
        _LOOP.wanted = False
        read = [found for found in (number(each) for each in losses) if found is not None]
        specon.report(_LOOP.step, loss=sum(read) / len(read) if read else None)
        _LOOP.progress.reported()
    elif _LOOP.progress.due():
        specon.report(_LOOP.step)
        _LOOP.wanted = _LOOP.progress.values_due()


def _steps_before(optimizer: Any) -> int:
    """Return how many steps the optimizer's state has of a checkpoint, after its first step here."""
    states = list(itertools.islice(optimizer.state.values(), _FIRST))
    steps = [number(state.get("step")) for state in states if isinstance(state, dict)]
    return max(0, int(max((step for step in steps if step is not None), default=1)) - 1)


def _announce(*, saves: bool) -> None:
    torch = sys.modules["torch"]
    specon.announce(f"torch {torch.__version__}", saves=saves)


def _now(path: str, inode: int) -> str | None:
    """Return the present name of a saved file: a script may write under one name and rename it."""
    try:
        if os.stat(path).st_ino == inode:
            return path
    except OSError:
        pass
    try:
        with os.scandir(os.path.dirname(path)) as entries:
            return next((each.path for each in entries if each.inode() == inode), None)
    except OSError:
        return None


def _index(path: str) -> dict[str, list[int]]:
    try:
        with open(os.path.join(os.path.dirname(path), _INDEX), encoding="utf-8") as opened:
            found = json.loads(opened.read(65536))
        return dict(found) if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def _mark(path: str) -> int:
    """Return what tells one content of a path from another."""
    inside = os.path.join(path, ".metadata")
    return os.stat(inside if os.path.isfile(inside) else path).st_mtime_ns


def _note(path: str, step: int) -> None:
    known = _index(path)
    known[os.path.basename(path)] = [step, _mark(path)]
    newest = dict(sorted(known.items(), key=lambda each: each[1][0])[-_MOST:])
    hidden = os.path.join(os.path.dirname(path), f"{_INDEX}.{os.getpid()}")
    with open(hidden, "w", encoding="utf-8") as opened:
        json.dump(newest, opened)
    os.replace(hidden, os.path.join(os.path.dirname(path), _INDEX))


@IT.guarded
def _was_saved(path: Any) -> None:
    if isinstance(path, (str, os.PathLike)) and lead():
        whole = os.path.abspath(os.fspath(path))
        _LOOP.saved.pop(whole, None)
        _LOOP.saved[whole] = os.stat(whole).st_ino


@IT.guarded
def _was_loaded(path: Any) -> None:
    """Count on from the step of a checkpoint that the script loads, where it is known."""
    if _LOOP.steps or not lead() or not isinstance(path, (str, os.PathLike)):
        return
    whole = os.path.abspath(os.fspath(path))
    step, mark = _index(whole).get(os.path.basename(whole), (None, None))
    if step is None or mark != _mark(whole):
        offered = helper.resume_alone()
        if offered is None or os.path.realpath(whole) != os.path.realpath(offered[0]):
            _LOOP.loaded = whole  # the optimizer may know the step
            return
        step = offered[1]
    _LOOP.base = int(step or 0)
    specon.resumed(whole, _LOOP.base)


def _can_go_on(content: Any, depth: int = _DEEP) -> bool:
    """Whether a dictionary has the state of an optimizer somewhere in it, beside other things."""
    if not isinstance(content, dict) or not depth:
        return False
    inner = list(content.values()) + [
        each for value in content.values() if isinstance(value, list) for each in value
    ]
    return any(
        isinstance(each, dict) and ({"state", "param_groups"} <= set(each) or _can_go_on(each, depth - 1))
        for each in inner
    )


@IT.guarded
def _backward(loss: Any) -> None:
    if _LOOP.wanted and not _LOOP.scaled and loss.numel() == 1:
        _LOOP.losses.append(loss.detach())


@IT.guarded
def _scale(outputs: Any) -> None:
    if _LOOP.wanted and hasattr(outputs, "numel"):
        _LOOP.losses.append(outputs.detach())
        _LOOP.scaled = True


def _after(module: Any, name: str, act: Callable[..., None]) -> None:
    """Replace a function by one that calls `act` with what it returned and was given, once it is done."""
    former = getattr(module, name)

    @functools.wraps(former)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        result = former(*arguments, **named)
        IT.guarded(act)(result, *arguments, **named)
        return result

    setattr(module, name, wrapped)


def _before(module: Any, name: str, act: Callable[..., None]) -> None:
    former = getattr(module, name)

    @functools.wraps(former)
    def wrapped(self: Any, *arguments: Any, **named: Any) -> Any:
        act(arguments[0] if arguments else self)
        return former(self, *arguments, **named)

    setattr(module, name, wrapped)


def _note_saved_file(_: Any, obj: Any = None, f: Any = None, *__: Any, **___: Any) -> None:
    if _can_go_on(obj):
        _was_saved(f)


def _note_loaded_file(_: Any, f: Any = None, *__: Any, **___: Any) -> None:
    _was_loaded(f)


def _note_saved_folder(_: Any, *__: Any, checkpoint_id: Any = None, **___: Any) -> None:
    _was_saved(checkpoint_id)


def _note_loaded_folder(_: Any, *__: Any, checkpoint_id: Any = None, **___: Any) -> None:
    _was_loaded(checkpoint_id)


def saved_state(path: Any) -> None:
    """Note a folder that a library of PyTorch's has written, from which the script can go on."""
    _was_saved(path)


def loaded_state(path: Any) -> None:
    """Note a folder that a library of PyTorch's has read."""
    _was_loaded(path)


def patch(module: Any) -> None:
    """See what the script saves and loads, and count the steps of its optimizer."""
    name = module.__name__
    if name == "torch.optim.optimizer":
        if lead():
            module.register_optimizer_step_pre_hook(_before_step)
            module.register_optimizer_step_post_hook(_after_step)
    elif name == "torch.serialization":
        _after(module, "save", _note_saved_file)
        _after(module, "load", _note_loaded_file)
    elif name == "torch.distributed.checkpoint.state_dict_saver":
        _after(module, "save", _note_saved_folder)
    elif name == "torch.distributed.checkpoint.state_dict_loader":
        _after(module, "load", _note_loaded_folder)
    elif name == "torch._tensor":
        _before(module.Tensor, "backward", _backward)
    elif name == "torch.amp.grad_scaler":
        _before(module.GradScaler, "scale", _scale)


def pytorch(save: Callable[[int], Any]) -> Callable[..., None]:
    """Return what a loop calls after each step, on every rank: `after(step, loss=..., total=...)`.

    It reports, and where specon asks for a checkpoint it calls `save(step)` for its path, and pauses.
    """

    def after(step: int, loss: Any = None, total: int | None = None, **values: Any) -> None:
        specon.report(step, loss=loss, total=total, **values)
        if not specon.checkpoint_requested():
            return
        try:
            path = save(step)
        except Exception as error:
            specon.refused(f"{type(error).__name__}: {error}", together=True)
            return
        specon.saved(path, step, together=True)

    return after
