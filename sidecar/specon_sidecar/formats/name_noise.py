"""What stands around the name of a metric on a line without being part of it."""

import re
from typing import Final

# Words that stand before a name on a line without being part of it: log levels, stream names, units.
_NOISE: Final = frozenset(
    {
        *("info", "debug", "warning", "warn", "error", "notice", "root", "stdout", "stderr", "f", "p"),
        *("s", "ms", "sec", "secs", "seconds", "it/s", "samples/sec", "samples/s"),
        *("tok/s", "tokens/s", "steps/s"),
    },
)

# `Epoch0 loss`
_NUMBERED: Final = re.compile(r"(?i:(?:epoch|step|iter(?:ation)?|batch|round)[_-]?\d{1,9}(?:/\d{1,9})?)")
# `e3 b12/400 loss`: two of them, for `e1 loss` beside `e2 loss` are two names.
_COUNTERS: Final = re.compile(r"(?i:(?:ep|e)\d{1,9}(?:/\d{1,9})? (?:b|it|i|s)\d{1,9}(?:/\d{1,9})? )")
# Words between a name and its number: `the loss so far is 0.5`.
_TRAILING: Final = frozenset({"is", "was", "of", "so", "far", "now", "at", "function", "fn"})

# The last word of a sentence: no abbreviation, which is short.
_SENTENCE_END: Final = re.compile(r"[a-z]{5,}\.\Z|\b[Dd]one\.\Z")


def without_noise(name: str) -> str:
    """Return a name without what is printed before and behind it."""
    found = _COUNTERS.sub("", name).split(" ")
    # The last sentence: `Epoch 3/20 completed. Average loss`, but not `Val. loss`.
    start = max((at + 1 for at, word in enumerate(found[:-1]) if _SENTENCE_END.search(word)), default=0)
    while start < len(found) - 1 and _is_noise(found[start]):
        start += 1
    end = len(found)
    while end > start + 1 and found[end - 1].casefold() in _TRAILING:
        end -= 1
    return " ".join(found[start:end])


def _is_noise(word: str) -> bool:
    # Bars and bullets (`━━━ loss: 2.1`) have neither letters nor digits.
    return (
        word.casefold().rstrip(".") in _NOISE
        or word.endswith(".py")
        or not any(map(str.isalnum, word))
        or _NUMBERED.fullmatch(word) is not None
    )
