"""What the names of metrics say: which are losses, and where more is better."""

import re
from collections.abc import Iterable
from typing import Final, Literal

from specon_sidecar.formats.name_words import NO_LOSS, OF_TRAINING, VALIDATION, canonical, words
from specon_sidecar.formats.reward_names import MEANS, SHORT_REWARDS

Goal = Literal["min", "max"]

SUM_OF_PARTS: Final = "sum of loss parts"
"""Name of the loss that a log prints only the parts of."""

TOTAL_OF_PARTS: Final = "total_of_parts"
"""Name of a bare `total` that is the sum of other numbers, where nothing else can be followed."""

# In order of preference, after `canonical`: "train/loss" and "train loss" are "train_loss", "lm loss" is
# "lm_loss".
PREFERRED: Final = ("loss", "total_loss", "train_loss", "training_loss", "lm_loss")

_DATA_SETS: Final = VALIDATION | {"train", "training"}

# Words that tell one way to print a loss from another: both are the same loss.
_SAME_LOSS: Final = frozenset(
    {
        *("smooth", "smoothed", "ema", "current", "cur", "last", "now", "raw", "scaled", "unscaled"),
        *("local", "global", "reduced", "micro", "iter", "iteration", "per", "token", "sample", "item"),
        *("rank", "slice", "window", "interval", "node", "gpu", "device"),
    },
)

# Words for the whole beside its parts: `loss_vae` beside `loss_recon` and `loss_kl`.
_WHOLE: Final = frozenset(
    {
        "vae",
        "elbo",
        "joint",
        "full",
        "combined",
        "overall",
        "objective",
        "all",
        "sum",
        "net",
        "model",
        "final",
    },
)

# Names where more is better. Those that no other kind of log prints are also followed where there is no
# loss at all.
_SCORES: Final = frozenset(
    {
        *("accuracy", "acc", "auc", "auroc", "bleu", "dice", "iou", "miou", "ndcg", "psnr", "ssim", "rouge"),
        *(
            "f1",
            "fscore",
            "fmeasure",
            "reward",
            "rew",
            "rewards",
            "uas",
            "las",
            "mrr",
            "hits",
            "recall",
            "precision",
            "fitness",
        ),
    },
)
_FITNESS: Final = "fitness"
_BEST: Final = frozenset({"best"})
_MORE_IS_BETTER: Final = _SCORES | {
    *(
        "score",
        "ap",
        "top",
        "mcc",
        "r2",
        "map",
        "map50",
        "return",
        "returns",
        "ret",
        "eprewmean",
        "episode_score",
        "objf",
    ),
}
_LESS_IS_BETTER: Final = frozenset(
    {
        *("error", "err", "ppl", "perplexity", "wer", "cer", "rmse", "mse", "mae", "mape", "nll", "xent"),
        *(
            "entropy",
            "logloss",
            "mlogloss",
            "deviance",
            "fid",
            "l1",
            "l2",
            "bpb",
            "bpc",
            "merror",
            "trl",
            "tel",
            "cost",
            "inertia",
            "recon",
            "recons",
            "reconstruction",
            "kld",
            "bce",
            "ce",
        ),
    },
)
_OVERALL: Final = MEANS | {"overall", "macro", "micro", "weighted", "all"}
# Names followed where a log prints neither a loss nor a score.
_ERRORS: Final = frozenset(
    {
        *(
            "ppl",
            "perplexity",
            "wer",
            "cer",
            "rmse",
            "mse",
            "mae",
            "rmsle",
            "mape",
            "nll",
            "xent",
            "bpb",
            "bpc",
        ),
        *("logloss", "mlogloss", "deviance", "fid", "xentropy", "crossentropy", "objf"),
    },
)
# Parts of a loss that have names of their own: the first of a line is followed where nothing else is.
_BARE_PARTS: Final = frozenset({"recon", "recons", "reconstruction", "kld", "bce", "ce"})
# An error by itself is one of a program; `cost 3.2` may be a time.
_ERROR_OF: Final = frozenset({"error", "err"})
_COSTS: Final = frozenset({"cost", "costs"})
_COMPRESSED: Final = frozenset({"char", "character", "byte", "dim", "token", "word", "symbol"})
_NO_ERROR: Final = frozenset({"time", "rate", "count", "num"})
# A likelihood, or its bound, that is printed with its sign turned is one where less is better.
_LIKELIHOOD: Final = re.compile(r"log[ _-]?likelihood|elbo")
_TURNED: Final = re.compile(r"neg|minus|^-|(?<![a-z])n[ _-]?(?:log|elbo)")
# What is minimised, mostly: the name does not say it.
_OBJECTIVE: Final = re.compile(r"(?:train(?:ing)?[ _/])?objective(?:[ _]function)?(?:[ _](?:value|val))?")
# Byte strings: the lower-cased form of each name of a score contains one of them.
SCORE_NEEDLES: Final = (
    *(b"acc", b"auc", b"auroc", b"bleu", b"dice", b"iou", b"ndcg", b"psnr", b"ssim", b"rouge"),
    *(
        b"map",
        b"f1",
        b"fscore",
        b"fmeasure",
        b"rew",
        b"uas",
        b"las",
        b"mrr",
        b"hits",
        b"recall",
        b"precision",
        b"fitness",
    ),
    *(b"ppl", b"perplexity", b"wer", b"cer", b"mse", b"mae", b"mape", b"nll", b"xent", b"bpb", b"bpc"),
    *(b"deviance", b"fid", b"crossentropy", b"return", b"rmsle", b"likelihood", b"cost", b"error", b"err "),
    *(b"elbo", b"ep_r", b"objective", b"objf", b"recon", b"kld", b"bce", b"ce:", b"ce=", b"ce ="),
    *(b"entropy", b"score", b"bits", b"total_of_parts"),
)

_FEWEST_PARTS: Final = 2


def is_loss(name: str) -> bool:
    """Whether a name is that of a training loss."""
    found = words(name)
    if "loss" not in name.casefold():
        # By the name of the function: `Cross entropy = 1.9`.
        return found[-2:] == ["cross", "entropy"] and OF_TRAINING.issuperset(found[:-2])
    if not VALIDATION.isdisjoint(found) or not NO_LOSS.isdisjoint(found):
        return False
    # In a phrase the last word says what it is: "loss per token" may be one, "setting loss scale to" is not.
    last = (name.partition("(")[0].rstrip() or name).rsplit(" ", 1)[-1]
    if last.casefold() in OF_TRAINING:  # `loss train`
        last = name
    return any(word.rstrip("0123456789").endswith("loss") for word in words(last))


def is_part(name: str) -> bool:
    """Whether the name of a training loss is that of a part: "box_loss", "loss_cls", but not "batch_loss"."""
    of = [
        word
        for word in measured_words(name)
        if word not in _SAME_LOSS and word.rstrip("0123456789") != "loss"
    ]
    return bool(of)


def find_whole_loss(names: Iterable[str]) -> str | None:
    """Return the loss whose words all the others have besides one of their own: what they are parts of.

    "avg_loss_target" is that of "origin_loss_target" and "cluster_loss_target". Two parts at least.
    """
    said = {name: frozenset(measured_words(name)) for name in names}
    wholes = [name for name, of in said.items() if of - {"loss"} and of - {"loss"} <= _WHOLE]
    wholes = wholes or [name for name in said if "total" in words(name)]
    if len(wholes) == 1:
        return wholes[0]
    if len(said) <= _FEWEST_PARTS:
        return None
    found = [one for one in said if all(said[one] < of for name, of in said.items() if name != one)]
    return found[0] if found else None


# Each is had for the price of the other: `fscore` beside the two is what is followed.
_HALVES: Final = frozenset({"precision", "recall"})


def score_rank(name: str) -> int | None:
    """Return 0 for a score of training, 1 for one of validation, 2 and 3 for a half of one, else None."""
    found = words(name)
    # `map` is a word of many logs, `mAP` is not.
    if "mAP" not in name and _SCORES.isdisjoint(found):
        return None
    # The best of a generation is what evolution is after.
    if not (NO_LOSS - _BEST if _FITNESS in found else NO_LOSS).isdisjoint(found):
        return None
    half = _SCORES.intersection(found) <= _HALVES and "mAP" not in name
    return (0 if VALIDATION.isdisjoint(found) else 1) + 2 * half


def is_of_class(name: str) -> bool:
    """Whether the name of a score may be that of one class: "accuracy of cats", but not "mean acc"."""
    found = set(words(name))
    beside = found - _MORE_IS_BETTER - VALIDATION - OF_TRAINING
    return bool(beside) and _OVERALL.isdisjoint(found)


def is_last_resort(name: str) -> bool:
    """Whether a name is that of an error or a perplexity, followed where there is nothing else."""
    found = words(name)
    last = found[-1] if found else ""
    known = (
        not _ERRORS.isdisjoint(found)
        or _LIKELIHOOD.search(name.casefold()) is not None
        or _OBJECTIVE.fullmatch(name.casefold()) is not None
        or (last in _ERROR_OF and not _DATA_SETS.isdisjoint(found))
        or (last in _COSTS and OF_TRAINING.issuperset(found[:-1]))
        or _is_compression(found)
    )
    return known and NO_LOSS.isdisjoint(found) and _NO_ERROR.isdisjoint(found)


def is_bare_part(name: str) -> bool:
    """Whether a name is that of a part of a loss, without the word: "Recon", "train BCE"."""
    found = words(name)
    return not _BARE_PARTS.isdisjoint(found) and NO_LOSS.isdisjoint(found) and not is_validation(name)


def is_plain_error(name: str) -> bool:
    """Whether a name is "error" or "mean error" and no more: of the training where the log counts epochs."""
    found = words(name)
    return found[-1:] in (["error"], ["err"]) and OF_TRAINING.issuperset(found[:-1])


def _is_compression(found: list[str]) -> bool:
    """Whether the words of a name are those of a rate of compression: `bits/char`, `train bits per dim`."""
    found = [word for word in found if word not in OF_TRAINING and word not in VALIDATION]
    return found[:1] == ["bits"] and found[-1] in _COMPRESSED and set(found[1:-1]) <= {"per"}


def is_metric(name: str) -> bool:
    """Whether a name is that of a loss, a score or an error, of any data."""
    return "loss" in name.casefold() or score_rank(name) is not None or goal_of(name) is not None


def goal_of(name: str) -> Goal | None:
    """Return whether less or more is better, as far as the name says it.

    A name with "loss" is never one where more is better: "accuracy_loss" is a loss.
    """
    found = {word.rstrip("0123456789") or word for word in words(name)} | set(words(name))
    if any(word.endswith("loss") for word in found) or not _LESS_IS_BETTER.isdisjoint(found):
        return "min"
    if _is_compression(words(name)) or canonical(name) == TOTAL_OF_PARTS:
        return "min"
    if _LIKELIHOOD.search(name.casefold()):
        return "min" if _TURNED.search(name.casefold()) else "max"
    more = canonical(name) in SHORT_REWARDS or not _MORE_IS_BETTER.isdisjoint(found)
    return "max" if more else None


def is_validation(name: str) -> bool:
    """Whether a name says that it is of other data than those of the training."""
    return not VALIDATION.isdisjoint(words(name))


def measured_words(name: str) -> tuple[str, ...]:
    """Return the words of the measured quantity, of any data: the same for "train/loss" and "val_loss"."""
    return tuple(word for word in words(name) if word not in VALIDATION and word not in OF_TRAINING)


def may_be_counterpart(name: str) -> bool:
    """Whether a name may be that of a metric of validation: "val_loss", "eval_ppl", but no "eval_runtime"."""
    if not is_validation(name) or not NO_LOSS.isdisjoint(words(name)):
        return False
    return "loss" in name.casefold() or goal_of(name) is not None
