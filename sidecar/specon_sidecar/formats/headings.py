"""Lines that place what stands below them: the epoch's heading, the step on a line of its own."""

import re
from typing import Final, NamedTuple

from specon_sidecar.formats.number import to_step
from specon_sidecar.formats.position_keys import STEP_KEYS

# `Epoch 3/40`, `=== Epoch [3/40] ===`, `Epoch: [3 | 40]`, `Starting epoch 3`,
# `Epoch: 03 | Epoch Time: 0m 36s`
_HEADING: Final = re.compile(
    rb"[^\w]{0,120}+(?i:(?:start(?:ing)?|begin(?:ning)?|running|train(?:ing)?)[\s:]{1,3}+){0,2}+"
    rb"(?i:epoch)[\"']?\s{0,4}+[:#=]?\s{0,4}+[\[(]?\s{0,4}+(\d{1,9}+)"
    rb"(?:\s{0,4}+(?:/|of|out of|\|(?=\s\d{1,9}+\]))\s{0,4}+(\d{1,9}+))?+"
    rb"(?!\w|\.\d)[\])]?(?:\W{0,200}+$|\s{1,2}\([^()]{1,80}+\)\W{0,40}+$"
    rb"|\W{1,8}+(?i:epoch time|time|lr|current lr|learning|elapsed|start|begin"
    rb"|training|running|on (?:cuda|gpu|cpu|mps)\b|took"
    rb"|done|finished|ended|complete|in \d|global_step|\d\d:\d\d|\d{1,9}+ iters))"
)
# A line that says the step and nothing else: `current step: 12th step`, `--- Iteration 12/400 ---`.
_STEP_LINE: Final = re.compile(
    # but `train_iters: 5000` is a length
    rb"[^\w]{0,120}+(?!(?i:train(?:ing)?[ _](?:steps|iters|iterations))\b)"
    rb"(?i:(?:current|global|train(?:ing)?|learning|running|start(?:ing)?|begin(?:ning)?)[ _]{0,2})?"
    rb"(?i:steps?|iter(?:ation)?s?|generation|(?P<batch>batch))"
    rb"[\"']?\s{0,4}+[:=#]?"
    rb"\s{0,16}+[\[(]?(?P<at>\d{1,15}+)(?i:st|nd|rd|th)?"
    rb"(?:\s{0,4}+(?:/|of|out of)\s{0,4}+(?P<of>\d{1,15}+))?+[\])]?"
    # `---- iteration 50 ---- 9950 left ----`, `Iteration: 50  Time: 120.5`
    rb"(?i:\s(?:step|iteration))?(?:\W{0,120}+|\W{1,8}+(?i:time|elapsed)\W{1,4}+[\d.:]{1,20}+\s?\w{0,4}+\W{0,40}+"
    rb"|\s?[-=*#]{3,120}+\s?\d{1,15}+ left\W{0,120}+)$"
)
# Both on a line of their own: `[epoch=1][batch=14/20]:`, `--> STEP: 3/90 -- GLOBAL_STEP: 120`.
_BOTH_LINE: Final = re.compile(
    rb"\W{0,40}+(?i:(epoch|step)\W{1,4}(\d{1,9}+)(?:/\d{1,9}+)?\W{1,8}(batch|iter|step|global[ _]step)\W{1,4}"
    rb"(\d{1,15}+)(?:/(\d{1,15}+))?\W{0,40}+)$"
)

# `Updates 30, num timesteps 4800, FPS 950` of PPO and A2C in PyTorch, above the line of the rewards, and
# `Scenario a Algo b Exp c updates 5/90 episodes, total num timesteps 300/5400, FPS 43.` of MAPPO
_UPDATES_LINE: Final = re.compile(
    rb"(?i:[^,]{0,200}?\bupdates?\W{1,3}\d{1,12}+(?:/\d{1,12}+ episodes)?+\W{1,3}"
    rb"(?:total )?(?:num )?timesteps\W{1,3}"
    rb"(?P<at>\d{1,15}+)(?:/(?P<of>\d{1,15}+))?+\W{1,3}fps)\W{1,3}\d{1,12}+\W{0,40}+$"
)


class Heading(NamedTuple):
    """The place that a line gives to those below it."""

    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None
    of_step: int | None = None
    step_rank: int = 0
    """Rank of the name of the step, as in `STEP_KEYS`."""


def read_heading(text: bytes) -> Heading | None:
    """Return the place that a line says, where it says nothing else."""
    placed = _STEP_LINE.match(text) or (_UPDATES_LINE.match(text) if b"FPS" in text else None)
    if placed is not None:
        found = placed.groupdict()
        rank = STEP_KEYS["batch"] if found.get("batch") else 0
        return Heading(step=int(placed["at"]), of_step=_count(found.get("of")), step_rank=rank)
    both = _BOTH_LINE.match(text)
    if both is not None and both[1].lower() != both[3].lower():
        return Heading(
            epoch=int(both[2]) if both[1].lower() == b"epoch" else None,
            step=int(both[4]),
            of_step=_count(both[5]),
            step_rank=0 if both[3].lower().endswith(b"step") else STEP_KEYS["batch"],
        )
    heading = _HEADING.match(text)
    return None if heading is None else Heading(epoch=int(heading[1]), epochs=_count(heading[2]))


def _count(number: bytes | None) -> int | None:
    return to_step(number) if number else None
