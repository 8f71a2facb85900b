"""Text lines with `key=value` or `key: value` pairs, the way most training scripts print.

Also Python dictionaries (`{'loss': 2.3, 'epoch': 0.2}`), quoted numbers, thousands separators, several
words as a key (`lm loss: 1.2E+01`) and totals (`step=12/400`). A step or an epoch may also stand without a
sign: `Epoch 3 loss=0.1`.
"""

import re
from typing import Final

from specon_sidecar.formats.json_records import JsonList, is_member
from specon_sidecar.formats.languages import translate
from specon_sidecar.formats.layout import Layout, Layouts, may_have_layout
from specon_sidecar.formats.metric_choice import BESIDE, SCORE, MetricCandidate, MetricChoice
from specon_sidecar.formats.metric_names import is_metric
from specon_sidecar.formats.named_places import place_spans, read_places
from specon_sidecar.formats.number import NUMBER, to_float
from specon_sidecar.formats.other_data import OTHER_SET_LATER, PROGRESS, OtherData
from specon_sidecar.formats.parser import FormatOptions, LineParser
from specon_sidecar.formats.places import Places
from specon_sidecar.formats.prefixes import PREFIX, PREFIX_EXPRESSION, read_rank, strip, strip_terminal
from specon_sidecar.formats.ranks import Ranks
from specon_sidecar.formats.sample import Sample
from specon_sidecar.formats.sums import SUMMED, name_summed_total
from specon_sidecar.formats.wall_time import has_stamp

# All repeats are possessive or short, and no word begins within another: the time is linear in the length of
# the line.
_LETTER: Final = rb"\w./%@\x80-\xff-"
_BEGIN: Final = rb"(?<![" + _LETTER + rb"])"
_WORD: Final = rb"[A-Za-z_\x80-\xff][" + _LETTER + rb"]*+"
# `Game 80 Score 23 Record: 43`: games are the episodes of those who learn to play.
_GAME: Final = re.compile(rb"(?i:\bgame)\W{1,3}\d.{1,80}?(?i:epsilon|record)")
# A bar of tqdm with its numbers.
_BAR: Final = re.compile(rb"\d{1,3}%\|[^|]{0,1200}+\|[^\[|]{0,64}+\[[^\]<]{0,40}+<[^\]]{0,1000}+\]")
_MOST_WORDS: Final = 3
# The Trainer's last words: `{'train_runtime': 24.7, 'train_loss': 1.5}`.
_SUMMARY: Final = b"_runtime'"
# A line of Darknet about one of its layers, many times an iteration.
_OF_LAYER: Final = b" Avg (IOU: "
# `Cost after iteration 100: 0.69`, `Minibatch loss at step 0: 17.6`: the place stands within the pair.
_PLACE_WITHIN: Final = re.compile(
    rb"(?<=[A-Za-z])(?:\s\([^()]{1,40}+\))?\s(?i:at|after|in|for|on|of)\s"
    rb"(?i:(?:global )?(?:steps?|epochs?|iter(?:ation)?s?|batch|episodes?))"
    rb"\s{0,4}+#?\d{1,12}+(?:\s{0,4}+(?:/|of)\s{0,4}+\d{1,12}+)?+"
    # `Loss at epoch 9 and iteration 500 is 0.19`
    rb"(?:(?:,|\sand)?\s(?i:steps?|iter(?:ation)?s?|batch)\s\d{1,12}+)?+"
    rb"\s{0,4}+(?:is|was|[:=]|-{1,2}>?)(?=[\s\d])"
    # `avg loss epoch 3: 0.5`, `Loss (epoch 3): 0.5`
    rb"|(?:(?<=loss)|(?<=Loss)|(?<=cost)|(?<=Cost))\s\(?(?i:(?:steps?|epochs?|iter(?:ation)?s?)):?\s\d{1,12}+\)?"
    rb"\s?(?:[:=])(?=[\s\d])"
    # `Average loss over last 10 steps: 2.2`
    rb"|(?<=[A-Za-z])\s(?i:(?:over|of|for|in)\s)?(?i:(?:the\s)?(?:last|past|previous))\s\d{1,9}+\s"
    rb"(?i:steps?|epochs?|iter(?:ation)?s?|batch(?:es)?|episodes?|updates?)\s{0,4}+(?:is|was|[:=])(?=[\s\d])"
)
# A bound with its sign turned, whose sign is part of the name: `-ELBO: 120.5`.
_NEGATED: Final = re.compile(rb"(?<![\w)-])-(?=(?i:elbo)\b)")
# The tuples that Python 2 printed: `('Epoch', 3, 'loss', 0.5)`.
_TUPLE: Final = b"('"
# The same within a list: `OrderedDict([('epoch', 3), ('loss', 0.5)])`.
_PAIRS: Final = b"([('"
# How many a mean was taken over: `average reward of last 100 episodes: 3.5 at episode 20`.
_LAST: Final = re.compile(
    rb"(?i:last|past|previous)\s\d{1,9}+\s(?i:steps|epochs|iter(?:ation)?s|episodes|updates)"
    # `return per training episode: 21.5`
    rb"|(?i:\bper (?:train(?:ing)? |eval(?:uation)? )?(?:step|epoch|iteration|episode|update|batch)\b)"
)
# Where the number is not bare: `loss: tensor(0.3, grad_fn=...)`.
# `reward: [(0, '4.5')]` is that of one of several policies.
_CALL: Final = rb"(?:(?:torch\.|np\.|numpy\.|tf\.|jnp\.)?(?:[tT]ensor|float\d\d|[aA]rray)\(\[?)"
_IN_CALL: Final = rb"(?:\[\(\d{1,3}, '?)?+" + _CALL + rb"?+"

NAMED: Final = re.compile(
    # `Loss (total): 2.1`, `Accuracy (%): 93`
    _BEGIN
    + rb"((?:[23][Dd][ _])?+"
    + _WORD
    + rb"(?: "
    + _WORD
    + rb"){0,3}+(?:\s?\([A-Za-z%][\w %.-]{0,24}+\))?+)"
    rb"[\"']?\s{0,32}+(?:[:=]|->)\s{0,32}+[\"']?"
    + _IN_CALL
    # `loss: [2.1/2.2]`, but not of a list
    + rb"(?:\[\s?(?=[^\[\],]{1,24}\]))?+("
    + NUMBER
    + rb")"
)
"""Pairs with a sign between: `loss=0.5`, `lm loss: 1.2E+01`, `'loss': '2.28'`."""
# `nan` and `inf` are numbers here, no words; nor is what makes a number of `tensor(0.3)`.
_TEXT: Final = rb"(?!(?i:nan|inf|infinity)(?!\w)|" + _CALL + rb")" + _WORD
BARE: Final = re.compile(
    _BEGIN
    + rb"("
    + _TEXT
    + rb"(?: "
    + _TEXT
    + rb"){0,4}+)\s{1,8}+(?:\d{1,12}+\s{1,4}+(?=-?\d{1,12}+\.\d)|"
    + _CALL
    + rb")?+("
    + NUMBER
    + rb")"
)
"""Pairs without a sign: `Loss 2.92e+00 (2.95e+00)`, `train loss 3.33`, `avg loss so far is 0.5`.

Of an integer and a fraction behind it the fraction is the value: `Train loss 13 2.51`.
"""


class KeyValue(LineParser):
    """Parser of lines with named numbers."""

    def __init__(self, options: FormatOptions) -> None:
        self.choice = MetricChoice(options.metric, last_resorts=True)
        self._any_set = options.metric is not None
        self._sums = options.metric is None or options.metric.casefold() in SUMMED
        self._places = Places()
        self._ranks = Ranks()
        self._layouts = Layouts()
        self._other = OtherData()
        self._list = JsonList()
        """What its members say is read with their places, which stand on other lines."""

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of this line."""
        known = self._layouts.read(line)
        if known is None:
            return self._parse(line)
        found = known[0]
        if len(found) == 1 and self.choice.goes_on(found[0][0]):
            name, value = found[0][0].name, found[0][1]
        else:
            picked = self.choice.pick(found)
            if picked is None:
                self.choice.note(found)
                return None
            name, value = picked
            if len(found) > 1:
                self.choice.note(found)
        if not self._ranks.admit(None):
            return None
        step, epoch, total, epochs = self._through(*known[1:])
        return Sample(name, value, step, epoch, total, None, epochs)

    def _parse(self, line: bytes) -> Sample | None:
        is_apart = self._list.has(line) and is_member(line)
        printed = translate(line)
        if printed.startswith(_TUPLE) or _PAIRS in printed:
            printed = printed.replace(b"', ", b": ")
        line = name_summed_total(printed) if self._sums else printed
        lowered = line.lower()
        if is_apart or not self.choice.may_count(lowered) or _SUMMARY in line or _OF_LAYER in line:
            return None
        shown = self._show(line)
        found, pair, mixed = self._pairs(shown)
        if not found:
            return None
        text, rank, time = strip(line if b"%|" not in line else shown)
        if not self._any_set and self._is_of_other_set(text, found, pair):
            return None
        picked = self.choice.pick(found)
        if picked is None:
            self.choice.note(found)
            return None
        if rank is None and b"rank" in lowered:
            rank = read_rank(text)
        if not self._ranks.admit(rank):
            return None
        if len(found) > 1:
            self.choice.note(found)
        plain = (
            not mixed
            and shown is line
            and line is printed
            and rank is None
            and time is None
            and b"rank" not in lowered
        )
        if plain and self._layouts.wanted:
            self._layouts.add(self._layout(line, lowered, len(line) - len(text), pair))
        step, epoch, total, epochs = self._place(text, rank)
        return Sample(
            name=picked[0],
            value=picked[1],
            step=step,
            epoch=epoch,
            total_steps=total,
            time=time,
            total_epochs=epochs,
        )

    def _show(self, line: bytes) -> bytes:
        """Return what of a line is read for pairs."""
        if b"pisode" in line or b"imestep" in line or (b"core" in line and _GAME.search(line)):
            self.choice.count_episodes()
        if b"rr" in line and (b"poch" in line or b"POCH" in line or b"teration" in line):
            self.choice.count_epochs()
        shown = strip_terminal(line)
        if b"-ELBO" in line or b"-elbo" in line:
            shown = _NEGATED.sub(b"neg ", shown)
        # What stands in a bar is for the format of bars.
        shown = _BAR.sub(b" ", shown) if b"%|" in shown else shown
        return _PLACE_WITHIN.sub(b":", shown, count=1) if _PLACE_WITHIN.search(shown) else shown

    def _place(
        self, text: bytes, rank: int | None
    ) -> tuple[int | None, float | None, int | None, int | None]:
        """Return the place of a line; a number that counts stands where ranks do: `300: loss 0.5`."""
        if b"ast " in text or b"revious " in text or b"per " in text:
            text = _LAST.sub(b" ", text)
        step, epoch, total, epochs = self._through(*read_places(text))
        counted = step is None and epoch is None and self._ranks.counts
        return (rank if counted else step), epoch, total, epochs

    def _through(  # noqa: PLR0917 - the numbers of a line in the order in which they are found
        self,
        step: int | None,
        step_rank: int,
        of_step: int | None,
        epoch: float | None,
        epochs: int | None,
        total: int | None,
    ) -> tuple[int | None, float | None, int | None, int | None]:
        """Return the place of a line; how many epochs there are may stand on another one."""
        if epochs is None and epoch is not None and of_step is not None and self.around is not None:
            epochs = self.around.epochs
        return self._places.through(step, step_rank, of_step, epoch, epochs, total)

    def _pairs(self, shown: bytes) -> tuple[list[tuple[MetricCandidate, float]], re.Pattern[bytes], bool]:
        """Return the pairs of a line, how they stand, and whether they stand in both ways."""
        found = pairs(self.choice, NAMED, shown)
        best = min((one.rank for one, _ in found), default=BESIDE)
        if best < SCORE or (best < BESIDE and not self._begins_with_loss(shown)):
            return found, NAMED, False
        bare = [one for one in pairs(self.choice, BARE, shown) if _is_short(one[0].name)]
        if best < BESIDE:  # `Epoch 1, loss 0.7, accuracy: 50%`
            bare = [one for one in bare if one[0].rank < SCORE]
            return (found + bare, BARE, True) if bare else (found, NAMED, False)
        return found + bare, BARE, bool(found)

    def _begins_with_loss(self, shown: bytes) -> bool:
        """Whether a loss without a sign stands before the first pair; behind a score it belongs to it."""
        at = shown.find(b"oss ")
        if at < 0:
            return False
        first = next((one for one in NAMED.finditer(shown) if self.choice.named(one[1]) is not None), None)
        return first is not None and at < first.start()

    def _is_of_other_set(
        self, text: bytes, found: list[tuple[MetricCandidate, float]], pair: re.Pattern[bytes]
    ) -> bool:
        other = self._other.name(text, pair, self.choice, found)
        if other and not PROGRESS.search(text):
            self.choice.note(found, data_set=other)
        return bool(other)

    def _layout(self, line: bytes, lowered: bytes, body: int, pair: re.Pattern[bytes]) -> Layout | None:
        """Return the layout of a line that was read, where lines of the same layout are surely read alike.

        Not where the value of a number, or how many digits it has, may change what the others mean.
        """
        needle = self.choice.needle
        if (
            needle not in lowered
            or any(one in b"0123456789" for one in needle)
            or strip_terminal(line) is not line
            or is_member(line)  # within a list it is read otherwise
            or not may_have_layout(line, body)
            or OTHER_SET_LATER.match(line, body)
            or PREFIX.match(line, body)
            or _LAST.search(line, body)
            or has_stamp(line[:body])
        ):
            return None
        named = list(pair.finditer(line))
        values = [
            (candidate, one.span(2))
            for one in named
            if (candidate := self.choice.named(one[1])) is not None
            and (pair is NAMED or _is_short(candidate.name))
        ]
        places = place_spans(line, body)
        if places is None:
            return None
        keys = [one.span(1) for one in named]
        try:
            return Layout(line, body, values, places, literal=keys, unless=PREFIX_EXPRESSION)
        except (ValueError, re.error):  # the metric is the step
            return None


def _is_short(name: str) -> bool:
    """Whether the name of a number without a sign is one, and no sentence: its last word says what it is."""
    return len(name.split(" ")) <= _MOST_WORDS and is_metric(name.rsplit(" ", 1)[-1])


def pairs(choice: MetricChoice, pair: re.Pattern[bytes], text: bytes) -> list[tuple[MetricCandidate, float]]:
    """Return the pairs of a line that may be the metric or its counterpart, in their order."""
    found: list[tuple[MetricCandidate, float]] = []
    for key, number in pair.findall(text):
        candidate = choice.named(key)
        if candidate is not None:
            value = to_float(number)
            if value is not None:
                found.append((candidate, value))
    return found
