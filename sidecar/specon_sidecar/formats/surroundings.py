"""What the lines around the samples say: totals printed elsewhere, the epoch's heading, the bar beside.

Half of the logs that print a total print it once, at the head or in a bar, and not beside the value.
"""

import re
from typing import Final

import msgspec

from specon_sidecar.formats.bar_at_head import BAR_IN_WORDS, Bar, find_bar
from specon_sidecar.formats.headings import read_heading
from specon_sidecar.formats.lengths_in_units import COUNT, OF, WAITS, LengthsInUnits, describe
from specon_sidecar.formats.number import to_step
from specon_sidecar.formats.places import Places
from specon_sidecar.formats.prefixes import strip
from specon_sidecar.formats.sample import Sample

_LONGEST: Final = 4096
_SHORTEST: Final = 8
# A result of Ray Tune holds the configuration, whose lengths are those of something within an iteration.
_RESULT: Final = b'"training_iteration":'
_KIND: Final = (
    rb"(?:(?:global|train(?:ing)?|optim\w{0,10}+|update|gradient|gradient update|n|pretrain)[ _-]{1,2}){0,2}+"
)
# `trainer.max_steps`; but `val.max_steps` is another length.
_OWNER: Final = rb"(?:(?:train\w{0,8}|solver|cfg|config|args|hparams|schedule\w{0,3}|optim\w{0,6})\.)?+"
_STEPS: Final = re.compile(
    # a `Training Step: 3` and a `training_iteration: 3` are where the training is
    rb"(?i:(?<![\w/.%])(?!train(?:ing)?[ _](?:step|iter|iteration)\b)(?:--)?"
    + _OWNER
    # PPO's `n_steps` is how long it plays before it learns
    + rb"(?:n_?iters?|(?:total|max(?:imum)?|num(?:ber)?(?: of)?|train(?:ing)?)[ _-]{0,2}"
    + _KIND
    + rb"(?:steps?|iter(?:ation)?s?)))"
    + OF
    + COUNT
)
_EPOCHS: Final = re.compile(
    rb"(?i:(?<![\w/.%])(?:--)?"
    + _OWNER
    + rb"(?:end_epoch|(?:(?:total|max(?:imum)?|num(?:ber)?(?:[ _]of)?|nb?)[ _-]{0,2}"
    + _KIND
    + rb"epochs?)|"
    + _KIND
    + rb"epoche?s(?:[ _]num(?:ber)?)?))"
    + OF
    + COUNT
)
_FOR: Final = re.compile(
    rb"(?:(?i:\b(?:for|of|with|run(?:ning)?|train(?:ing)?)\s{1,4}+)|\()"
    + COUNT
    + rb"\s(?i:(?:train(?:ing)?|total|more)?\s?(epochs|steps|iterations|iters|updates)\b)"
)
# `125 iterations per epoch. 12500 max iterations`
_IN_ALL: Final = re.compile(
    rb"(?<![\w.])" + COUNT + rb" (?i:(?:(?:max|maximum|total) (?:train(?:ing)? )?"
    rb"(epochs|steps|iterations|iters)\b|(epochs|steps|iterations|iters) (?:in )?total\b))"
)
# `Starting training..., iters: 1000`
_BEGINS: Final = re.compile(
    rb"(?i:start\w{0,3} (?:the )?train\w{0,5}\W{1,6}(?:for )?(epochs|steps|iterations|iters)\W{1,3})" + COUNT
)
# `Testing...`: what follows it at the same place is no training.
_EVALUATION: Final = re.compile(
    rb"\W{0,40}+(?:(?i:start|begin|now|run)\w{0,5}+\s)?(?i:testing|evaluating|validating|evaluation|validation)\b"
    rb"(?:[^\d=:]{0,60}+|\W{0,60}+)$"
)
# `warmup epochs: 5` and `no improvement for 5 epochs` are no lengths of the training.
_PART: Final = re.compile(
    rb"(?i:(?:warm-?up|decay|save|patience|eval\w{0,8}|val\w{0,8}|every|per|early|stop\w{0,8}|freeze|log\w{0,4}"
    rb"|accumulation|burn-?in|current|last|best)[ _-]{1,2})\Z"
)
# Counts on such a line are of other data.
_EVALUATES: Final = re.compile(rb"(?i:\b(?:evaluat|validat|testing|predict|inference|generat))")
_TRAINS: Final = re.compile(
    rb"(?i:\b(?:train|run|fit|fine-?tun|optimi|start))|" + "训练|訓練|学習|훈련".encode()
)
_WAITED: Final = re.compile(rb"(?i:improv|patience|stop|freez|ago|per\b|without)")
_NEAR: Final = 24
_BRACE: Final = re.compile(rb"[{}]")
# `'trainer': {'max_epochs': 9`; but `'data_sampling': {'num_epochs': 1000` is no length of the training.
_OF_TRAINING: Final = re.compile(
    rb"(?i:train|fit|solver|cfg|config|args|param|schedul|optim|runner|loop)[^{}:=]{0,16}[:=]?\s?\Z"
)
# One of these is in each line that one of the expressions above fits: looking for them is much faster.
_COUNTS: Final = (
    "total",
    "max",
    "num",
    "train",
    "n_it",
    "nit",
    "n_ep",
    "n-ep",
    "n ep",
    "nep",
    "nb_ep",
    "end_ep",
)
_PLURALS: Final = ("epochs", "steps", "iterations", "iters", "updates")


class Total(msgspec.Struct, frozen=True):
    """How long the training is, and what says so."""

    steps: int | None = None
    epochs: int | None = None
    source: str = ""


class Surroundings:
    """Takes the lines of a log that hold no sample, and completes the samples between them."""

    def __init__(self) -> None:
        self.bar: Bar | None = None
        """The latest state of a bar of the training."""
        self._epoch: int | None = None
        self._steps: int | None = None
        self._epochs: int | None = None
        self._source: dict[str, str] = {}
        self._places = Places()
        self._step_line: tuple[int, int | None] | None = None
        self._step_rank = 0
        self._before: tuple[float, int] | None = None
        self._per_epoch = False
        self._below: dict[str, bytes] = {}
        self._units = LengthsInUnits()
        self.known = False
        """Whether there is anything to complete a sample with."""
        self.evaluations = 0
        """How many lines said that an evaluation begins."""

    @property
    def epochs(self) -> int | None:
        """How many epochs the log says there are, on a line of its own."""
        return self._epochs

    def total(self, last: Sample | None) -> Total | None:
        """Return the known length, after a completed sample."""
        source = None if last is None else self._units.source(last.total_steps)
        if last is not None and source is not None and last.total_steps != self._steps:
            return Total(last.total_steps, last.total_epochs, source)
        if last is None or (last.total_steps is None and last.total_epochs is None):
            if last is None or last.step is None or self._steps is None or last.step > self._steps:
                return None  # a length that is behind us is that of something else
            return Total(self._steps, None, self._source["steps"])
        found = [
            self._source[name]
            for name, value, own in (
                ("steps", last.total_steps, self._steps),
                ("epochs", last.total_epochs, self._epochs),
            )
            if value is not None and value == own and name in self._source
        ]
        return Total(last.total_steps, last.total_epochs, found[0] if found else "printed beside the value")

    def tell_epochs(self, count: int, source: str) -> None:
        """Take the inferred number of epochs, where no line states it."""
        if self._epochs is None:
            self.known, self._epochs, self._source["epochs"] = True, count, source

    def tell_steps(self, count: int, source: str) -> None:
        """Take the inferred number of steps, where no line states it."""
        if self._steps is None:
            self.known, self._steps, self._source["steps"] = True, count, source

    def take(self, line: bytes) -> None:
        """Take a line that may say something about the place or the length of the training."""
        if len(line) > _LONGEST or _RESULT in line:
            return
        # Nearly all lines cost no more than this look, which is several times as fast in text as in bytes.
        text = line.decode("latin-1")
        if (
            "poch" in text
            or "tep" in text
            or "atch" in text
            or "enerati" in text
            or "iter" in text
            or "%|" in text
            or "Iter" in text
            or "% " in text
            or "EPOCH" in text
            or "STEP" in text
            or "ITER" in text
            or "rogress on" in text
            or "pisodes" in text
            or "ounds" in text
            or "pdates" in text
            or "esting" in text
            or "aluati" in text
            or "alidati" in text
        ):
            self._look(line)

    def complete(self, sample: Sample, line: bytes = b"") -> Sample:
        """Return the sample with what its own line left out."""
        name, value, step, epoch, total, time, epochs = msgspec.structs.astuple(sample)
        if step is not None and total is not None and epoch is not None and epochs is not None:
            return sample
        if self._step_line is not None and step is None and epoch is None and self._is_below(name, line):
            step, total = self._step_line
        if total is None and step is not None and self._units.known:
            total = self._units.total(step, line)
        of_epoch = False
        if epoch is None and self._epoch is not None:
            epoch, of_epoch = float(self._epoch), True
            if epochs is None and "heading" in self._source:
                epochs = self._epochs
        if epoch is not None and epochs is None and self._epochs is not None and epoch <= self._epochs:
            epochs, of_epoch = self._epochs, True
        if of_epoch and total is not None and step is not None and total != self._steps:
            step, epoch, total, epochs = self._places.through(
                step, self._step_rank, total, epoch, epochs, None
            )
        if total is None and self._steps is not None and step is not None and step <= self._steps:
            total = self._steps
            if epoch is not None and self._begins_anew(epoch, step):
                step, total = self._places.epochs.through(epoch, epochs, step, self._steps)
        return Sample(name, value, step, epoch, total, time, epochs)

    def see_step(self, step: int) -> None:
        """Take note of a step before any heading: one that goes on from there is that of the training."""
        self._places.see_before_epochs(step)

    def _begins_anew(self, epoch: float, step: int) -> bool:
        """Whether the stated number of steps is that of an epoch, for they went back where one began."""
        before, self._before = self._before, (epoch, step)
        if before is not None and epoch > before[0]:
            self._per_epoch = step < before[1]
        return self._per_epoch

    def _is_below(self, name: str, line: bytes) -> bool:
        """Whether this is the first line with this metric below the one that says the step."""
        return self._below.setdefault(name, line) is line

    def _look(self, line: bytes) -> None:
        if b"%|" in line or b"% " in line:
            line = self._behind_bar(line)
            if len(line) < _SHORTEST:
                return
        text = strip(line).text
        if self._is_heading(text):
            return
        self.evaluations += _EVALUATION.match(text) is not None
        lowered = text.decode("latin-1").lower()
        counts = any(map(lowered.__contains__, _COUNTS))
        for name, expression, worth in (
            ("steps", _STEPS, counts and ("step" in lowered or "iter" in lowered)),
            ("epochs", _EPOCHS, "epochs" in lowered or (counts and "epoch" in lowered)),
        ):
            stated = expression.search(text) if worth else None
            if (
                stated is not None
                and not _PART.search(text, max(0, stated.start() - _NEAR), stated.start())
                and not _EVALUATES.search(text, max(0, stated.start() - _NEAR), stated.start())
                and not _is_nested(text, stated.start())
            ):
                self._state(name, to_step(stated[1]), text[stated.start() :])
        bar = BAR_IN_WORDS.search(text) if "progress on" in lowered else None
        if bar is not None:
            self._state("steps", to_step(bar[1]), text[bar.start() :])
        if any(map(lowered.__contains__, _PLURALS)):
            self._look_for_length(text)
        if self._units.take(text, lowered):
            self.known = True

    def _behind_bar(self, line: bytes) -> bytes:
        """Take the state of a bar at the head of a line; return what stands behind it."""
        found = find_bar(line)
        if found is None:
            return line
        if found.counts == "training":
            self.bar = found.bar
        elif found.counts == "epochs":
            self.tell_epochs(found.bar.n, f"the bar of {found.bar.n} epochs")
        return found.behind

    def _look_for_length(self, text: bytes) -> None:
        """Take a sentence that says for how long the training runs."""
        begins = _BEGINS.search(text)
        if begins is not None:
            self._state("epochs" if begins[1].lower() == b"epochs" else "steps", to_step(begins[2]), text)
        in_all = _IN_ALL.search(text)
        if in_all is not None and not any(
            other.search(text, 0, in_all.start()) for other in (WAITS, _EVALUATES)
        ):
            unit = (in_all[2] or in_all[3]).lower()
            self._state("epochs" if unit == b"epochs" else "steps", to_step(in_all[1]), text)
        said = _FOR.search(text)
        if (
            said is not None
            and _TRAINS.search(text)
            and not WAITS.search(text, 0, said.end())
            and not _WAITED.search(text, said.end())
        ):
            self._state("epochs" if said[2].lower() == b"epochs" else "steps", to_step(said[1]), text)

    def _is_heading(self, text: bytes) -> bool:
        """Whether a line is one that places those below it."""
        placed = read_heading(text)
        if placed is None:
            return False
        self.known = True
        self._step_line = None
        if placed.step is not None:
            self._step_line = placed.step, placed.of_step
            self._step_rank = placed.step_rank
            self._below.clear()
        if placed.epoch is not None:
            self._epoch = placed.epoch
        if placed.epochs:
            self._epochs = placed.epochs
            self._source["heading"] = self._source["epochs"] = describe(b"the heading ", text)
        return True

    def _state(self, name: str, count: int | None, text: bytes) -> None:
        if not count or count == 1:
            return
        self.known = True
        if name == "steps":
            self._steps = count
        elif "heading" in self._source:
            return  # what each epoch says counts more than a configuration
        else:
            self._epochs = count
        self._source[name] = describe(b"the line ", text)


def _is_nested(text: bytes, at: int) -> bool:
    """Whether a number stands in a part of a configuration that is none of the training."""
    opened: list[int] = []
    for brace in _BRACE.finditer(text, 0, at):
        if brace[0] == b"{":
            opened.append(brace.start())
        elif opened:
            opened.pop()
    return len(opened) > 1 and not _OF_TRAINING.search(text, max(0, opened[-1] - _NEAR), opened[-1])
