"""The calls of a trainer, over one connection per process; a failure says one line and switches it off."""

from __future__ import annotations

import atexit
import math
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from specon.connection import Connection, now
from specon.ranks import Agreement, distributed, largest, place, said_by_first
from specon.said import say_once

if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any, Callable, Type

    Waits = Callable[[bool], bool]
    """Whether to wait on; told whether the process is told to end."""

_modules = sys.modules
_LOOK_SECONDS = 0.05
_REPORT_SECONDS = 0.1
_WELCOME_SECONDS = 30.0  # to begin again for want of patience would lose all of a training
_PAUSED_SECONDS = 0.05
_MAX_VALUES = 64
_MAX_NAME = 128
_MAX_PATH = 4096
_MAX_STEP = 2**62  # of the protocol, like the other bounds
_PLAIN = (int, float, type(None))


class _Helper:
    """What one process knows."""

    def __init__(self) -> None:
        path = os.environ.get("SPECON_SOCKET", "")
        token = os.environ.get("SPECON_TOKEN_FILE", "")
        self.connection = Connection(path, token) if path and token else None
        self.agreement = Agreement()
        self.asks = False
        """Whether the trainer looks for requests: else its own saves answer them."""
        self.told = ""
        """The request that the trainer was told of."""
        self.agreed: float | None = None
        """The pause of the request that all ranks were told of, until it is answered."""
        self.look_at = 0.0
        self.report_at = 0.0
        self.late: dict[str, Any] | None = None
        self.resume: tuple[str, int] | None = None
        self.resume_known = False
        self.off = False

    def look(self, at: float) -> None:
        """Read and write what goes at once."""
        self.look_at = at + _LOOK_SECONDS
        connection = self.connection
        if connection is None:
            return
        try:
            late = self.late  # another thread may take it away
            if late is not None and at >= self.report_at:
                self._send_report(late, at)
            connection.poll(at)
        except Exception as error:  # noqa: BLE001 - never into the trainer
            _give_up(error)

    def present(self, **said: Any) -> None:
        """Say who this is."""
        if self.connection is not None:
            rank, world = place()
            self.connection.present(rank=rank, world=world, **said)
            self.look(now())

    def requested(self) -> bool:
        """Return whether the trainer is to save now."""
        if not self.asks:
            self.asks = True
            self.present(saves=True)
        # Looked up here first: most trainers have no `torch.distributed`, and this is called at each step.
        module = distributed() if "torch.distributed" in _modules else None
        if module is not None and module.get_world_size() > 1:
            return self._is_agreed_by_all(module)
        connection = self.connection
        if connection is None:
            return False
        at = now()
        if at >= self.look_at:
            self.look(at)
        request = connection.request
        if request is None or request.id == self.told:
            return False
        self.told = request.id
        return True

    def _is_agreed_by_all(self, module: Any) -> bool:
        if not self.agreement.due(module):
            return False
        connection, at = self.connection, now()
        request = None
        if connection is not None:
            self.present()
            request = connection.request
        asked = request is not None and request.id != self.told
        pause = request.pause if request is not None and asked else 0.0
        agreed = self.agreement.agree(module, at, requested=asked, pause=pause, able=connection is not None)
        if not agreed.requested:
            return False
        if request is not None:
            self.told = request.id
        self.agreed = agreed.pause
        return True

    def answer(self, kind: str, content: dict[str, Any], *, failed: bool, together: bool) -> Waits:
        """Say what became of a save; return what tells whether to wait, to be asked until it says no."""
        agreed, self.agreed = self.agreed, None
        module = distributed() if together and agreed is not None else None
        if module is not None and largest(module, [float(failed)])[0] and not failed:
            kind, content, failed = "refused", {"reason": "another rank could not save"}, True
        connection = self.connection
        request = None if connection is None else connection.request
        if request is not None and self.asks and self.told != request.id:
            request = None  # a regular save: the trainer will be told, and save again
        if connection is not None and (request is not None or kind != "refused"):
            connection.send(kind, dict(content, request=None if request is None else request.id))
            if request is not None:
                self.told, connection.request = request.id, None
        if connection is not None and not failed and (request.pause if request is not None else agreed):
            connection.hold(now())
        if module is not None and agreed and not failed:
            return lambda ending: self._all_wait(module, ending=ending)
        return lambda ending: self._waits(ending=ending)

    def _waits(self, *, ending: bool) -> bool:
        connection = self.connection
        if connection is None or ending:
            return False
        at = now()
        connection.poll(at)
        return connection.held(at)

    def _all_wait(self, module: Any, *, ending: bool) -> bool:
        wait, end = largest(module, [float(self._waits(ending=ending)), float(ending)])
        return wait > 0 and not end

    def report(self, step: int, loss: Any, total: Any, values: dict[str, Any]) -> None:
        """Send it, or remember it where the one before was just sent."""
        connection = self.connection
        if connection is None:
            return
        at = now()
        epoch = values.pop("epoch", None)
        if loss is not None:
            values["loss"] = loss
        content = {"step": step, "total": total, "epoch": epoch, "values": values}
        late = self.late
        if late is not None and late["values"] and not values:
            content = late  # a mere count of steps replaces no values that wait: the next one comes soon
        if at < self.report_at:
            # Nothing that would have to be fetched from a device, or keeps a graph alive, is kept.
            plain = all(type(value) in _PLAIN for value in (step, total, epoch, *values.values()))
            self.late = content if plain else None
        else:
            self._send_report(content, at)
            self.look_at = 0.0  # it goes at once, for the first one after a resume is a proof
        if at >= self.look_at:
            self.look(at)

    def _send_report(self, content: dict[str, Any], at: float) -> None:
        self.late, self.report_at = None, at + _REPORT_SECONDS
        step, total = _whole(content["step"]), _whole(content["total"])
        if self.connection is None or step is None:
            return
        numbers = {
            str(name)[:_MAX_NAME]: _number(value)
            for name, value in list(content["values"].items())[:_MAX_VALUES]
        }
        self.connection.send(
            "report",
            {"step": step, "total": total, "epoch": _number(content["epoch"]), "values": numbers},
        )

    def find_resume(self) -> tuple[str, int] | None:
        """Return what to go on from; in a distributed job that of rank 0."""
        if self.resume_known:
            return self.resume
        self.resume_known = True
        found = self.offered()
        module = distributed()
        if module is not None and module.get_world_size() > 1:
            said = said_by_first(module, "" if found is None else f"{found[1]} {found[0]}")
            step, _, path = said.partition(" ")
            found = (path, int(step)) if path else None
        self.resume = found
        return found

    def offered(self) -> tuple[str, int] | None:
        """Return what the sidecar of this process offers; waits for its answer."""
        connection = self.connection
        if connection is None:
            return None
        begun = now()
        self.present()
        while not connection.welcomed:
            at = now()
            connection.poll(at)
            if at - begun > _WELCOME_SECONDS:
                break
            time.sleep(0.01)
        return connection.resume


class _Ending:
    """Notes that the trainer is told to end (SIGTERM), where that does not end it at once."""

    def __init__(self) -> None:
        self.told = False
        self._before: Callable[[int, FrameType | None], Any] | int | None = None

    def __enter__(self) -> _Ending:  # noqa: PYI034 - Python 3.8
        before = signal.getsignal(signal.SIGTERM)
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._note)
            self._before = before
        return self

    def __exit__(
        self,
        kind: Type[BaseException] | None,  # noqa: UP006 - Python 3.8
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A handler that another one has put there meanwhile stays.
        if self._before is not None and signal.getsignal(signal.SIGTERM) == self._note:
            signal.signal(signal.SIGTERM, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.told = True
        if callable(self._before):
            self._before(number, frame)


_helper = _Helper()


def _begin_anew() -> None:
    """Begin a process that was forked: what it inherited is the parent's."""
    global _helper  # noqa: PLW0603 - one per process
    if _helper.connection is not None:
        _helper.connection.close()
        _helper = _Helper()


def _last_words() -> None:
    try:
        _helper.report_at = 0.0
        _helper.look(now())
    except Exception:  # noqa: BLE001, S110 - the process ends
        pass


os.register_at_fork(after_in_child=_begin_anew)
if _helper.connection is not None:
    atexit.register(_last_words)


def _give_up(error: Exception) -> None:
    """Speak with no sidecar any more; a rank of a distributed job still takes part in what all agree on."""
    say_once(f"the helper is off in this process: {type(error).__name__}: {error}")
    if _helper.connection is not None:
        _helper.connection.close()
        _helper.connection = None


def _stop(error: Exception) -> None:
    """Do nothing any more: the ranks cannot agree, so no other one can either."""
    _give_up(error)
    _helper.off = True


def enabled() -> bool:
    """Return whether there is a sidecar to speak with, and nobody has switched the import hook off."""
    return _helper.connection is not None and os.environ.get("SPECON_INSTRUMENT", "").lower() not in {
        "off",
        "false",
        "0",
    }


def announce(framework: str, saves: bool = True) -> None:  # noqa: FBT001, FBT002 - one call, told by its name
    """Say which framework trains here (`keras 3.15.1`), and whether it saves on request."""
    try:
        _helper.present(framework=str(framework)[:_MAX_NAME], saves=bool(saves))
    except Exception as error:  # noqa: BLE001 - never into the trainer
        _give_up(error)


def checkpoint_requested() -> bool:
    """Return true once for each checkpoint that specon asks for; save then, and call `saved`.

    In a distributed job (`torch.distributed` is initialised) call it on every rank: it is true on all of them
    at the same call, within about half a second of training.
    """
    if _helper.off:
        return False
    try:
        return _helper.requested()
    except Exception as error:  # noqa: BLE001 - never into the trainer
        _stop(error)
        return False


def saved(path: Any, step: int, *, together: bool = False) -> None:
    """Say that a checkpoint of this step is complete and on disk at this path.

    Where specon asked for it in order to move the job, this waits: until it is told to train on, the
    process is told to end, or nothing was heard for 10 s. Any save may be told, asked for or not.

    `together`: every rank of a distributed job makes this call for a checkpoint that all of them were asked
    for. Then it is told once the last one has come, and all of them wait. Else one rank calls, and the
    others wait in their next collective operation.
    """
    if _helper.off:
        return
    try:
        content = {"path": _check_path(path), "step": _check_step(step)}
    except Exception as error:  # noqa: BLE001 - what this rank was given: the others count on it all the same
        say_once(f"saved(): {type(error).__name__}: {error}")
        refused(f"saved() was given nonsense: {type(error).__name__}", together=together)
        return
    try:
        waits = _helper.answer("saved", content, failed=False, together=together)
    except Exception as error:  # noqa: BLE001 - never into the trainer
        _stop(error)
        return
    _wait(waits)


def refused(reason: str, *, together: bool = False) -> None:
    """Say why the checkpoint that was asked for could not be saved; `together` as with `saved`."""
    if _helper.off:
        return
    try:
        said = str(reason)[:500].encode("utf-8", "replace").decode()
        _helper.answer("refused", {"reason": said}, failed=True, together=together)
        _helper.look(now())
    except Exception as error:  # noqa: BLE001 - never into the trainer
        _stop(error)


def report(step: int, loss: Any = None, total: int | None = None, **values: Any) -> None:
    """Say how far the training is: steps done, of how many, the loss and other values, `epoch` among them.

    Call it as often as you like: at most ten a second are sent.
    """
    try:
        _helper.report(step, loss, total, values)
    except Exception as error:  # noqa: BLE001 - never into the trainer
        _give_up(error)


def resume_path() -> str | None:
    """Return the verified checkpoint to go on from where specon brought this job back, else None.

    Waits for the sidecar, which starts with the trainer and reads the checkpoint: 30 s at most. In a
    distributed job call it on every rank: all get what rank 0 is told.
    """
    found = _resume()
    return None if found is None else found[0]


def resume_step() -> int | None:
    """Return the step of `resume_path`."""
    found = _resume()
    return None if found is None else found[1]


def _resume() -> tuple[str, int] | None:
    if _helper.off:
        return None
    try:
        return _helper.find_resume()
    except Exception as error:  # noqa: BLE001 - never into the trainer
        _stop(error)
        return None


def resumed(path: Any, step: int) -> None:
    """Say which checkpoint the training went on from (None: from none), and at which step."""
    try:
        if _helper.connection is not None:
            whole = None if path is None else os.path.abspath(os.fspath(path))  # noqa: PTH100 - as above
            _helper.connection.send("resumed", {"path": whole, "step": int(step)})
            _helper.look(now())
    except Exception as error:  # noqa: BLE001 - never into the trainer
        _give_up(error)


def asks() -> bool:
    """Return whether this process looks for requests: the script itself, or a framework on its behalf."""
    return _helper.asks


def resume_alone() -> tuple[str, int] | None:
    """Return path and step of `resume_path`, as this rank was told; no collective operation is in it."""
    if _helper.off:
        return None
    try:
        return _helper.resume if _helper.resume_known else _helper.offered()
    except Exception as error:  # noqa: BLE001 - never into the trainer
        _give_up(error)
        return None


def _wait(waits: Waits) -> None:
    """Wait; what a signal's handler raises meanwhile is the trainer's, and goes through."""
    with _Ending() as ending:
        while True:
            try:
                if not waits(ending.told):
                    return
            except Exception as error:
                if ending.told:
                    raise  # a handler's, which came while the sidecar was asked
                _stop(error)
                return
            time.sleep(_PAUSED_SECONDS)


def _check_path(path: Any) -> str:
    """Return the whole path; raises where no message can say it."""
    whole = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - quicker to import than pathlib
    if len(whole) > _MAX_PATH:
        raise ValueError(f"a path of {len(whole)} signs")
    whole.encode()  # one that is no UTF-8 is no text of a message
    return whole


def _check_step(step: Any) -> int:
    number = _whole(int(step))
    if number is None:
        raise ValueError("the step is negative, or too large")
    return number


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 - whatever a trainer may hand over
        return None
    return number if math.isfinite(number) else None


def _whole(value: Any) -> int | None:
    try:
        number = int(value)
    except Exception:  # noqa: BLE001 - as above
        return None
    return number if 0 <= number <= _MAX_STEP else None
