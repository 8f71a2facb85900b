"""Losses that work against each other, or that the policy itself moves: neither of a pair converges."""

import re
from collections.abc import Iterator
from typing import Final

from specon_sidecar.formats.name_words import canonical, words

# Two losses that work against each other, or that the policy itself moves: neither converges.
_SIDES: Final = (
    (
        "two losses against each other (GAN)",
        re.compile(
            r"(?:d|dis|disc|discriminator)_?(?:loss|[ab](?:_loss)?)?|err_?d|lossd"
            r"|loss_?(?:d|dis|disc|discriminator)(?:_[ab])?"
        ),
        re.compile(
            r"(?:g|gen|generator)_?(?:loss|[ab](?:_loss)?)?|err_?g|lossg|loss_?(?:g|gen|generator)(?:_[ab])?"
        ),
    ),
    (
        "two losses against each other (GAN)",
        _BOTH := re.compile(
            r"(?:g|gen|generator)_(?:and_)?(?:d|dis|disc|discriminator)_loss(?:es)?"
            r"|(?:d|dis|disc|discriminator)_(?:and_)?(?:g|gen|generator)_loss(?:es)?"
        ),
        _BOTH,
    ),
    (
        "two losses against each other (GAN)",
        re.compile(r"(?:d|disc|discriminator)_adv(?:_loss)?|adv_(?:d|disc|discriminator)(?:_loss)?"),
        re.compile(r"(?:f|g|gen|generator)_adv(?:_loss)?|adv_(?:f|g|gen|generator)(?:_loss)?"),
    ),
    (
        "losses of a policy and its critic (reinforcement learning)",
        re.compile(
            r"(?:.*_)?(?:act|actor|policy|pg|policy_gradient|pi)_loss|(?:.*_)?loss_?(?:actor|policy|pi)"
        ),
        re.compile(r"(?:.*_)?(?:cri|critic|value|vf|v|qf\d?)_loss|(?:.*_)?loss_?(?:critic|value|vf|v)"),
    ),
)

# `average_loss_g` is the loss of the generator as `loss_g` is.
_MEANS_OF: Final = re.compile(r"^(?:(?:avg|average|mean|train|training|epoch|batch|running|total)_)+(?=\w)")

# Index of the last of them.
_POLICY: Final = len(_SIDES) - 1


def sides_of(name: str) -> Iterator[tuple[int, bool]]:
    """Yield the pairs of opponents that a name belongs to, and whether it is the second of the two."""
    key = _MEANS_OF.sub("", canonical(name))
    for index, (_, first, second) in enumerate(_SIDES):
        if first.fullmatch(key):
            yield index, False
        if second.fullmatch(key):
            yield index, True


def is_turned_side(name: str) -> bool:
    """Whether a name is one of an opponent behind the word: `Loss D`. It is none that can be followed."""
    return words(name)[:1] == ["loss"] and " " in name and any(True for _ in sides_of(name))


def is_of_policy(pair: int) -> bool:
    """Whether a pair is that of a policy and its critic: what it is rewarded with converges all the same."""
    return pair == _POLICY


def reason(pair: int) -> str:
    """Return why a log with both sides of a pair cannot be judged."""
    return _SIDES[pair][0]
