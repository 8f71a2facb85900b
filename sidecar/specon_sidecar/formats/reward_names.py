"""Which names are those of what reinforcement learning wants more of."""

from typing import Final

from specon_sidecar.formats.name_words import NO_LOSS, canonical, words

_REWARDS: Final = frozenset({"reward", "rewards", "rew", "return", "returns", "eprewmean"})
SHORT_REWARDS: Final = frozenset({"ep_r", "ep_ret", "episode_r"})
_NO_REWARD: Final = frozenset(
    {
        *("margin", "margins", "chosen", "rejected", "accuracies", "accuracy", "std", "kl", "loss", "model"),
        *("var", "variance", "max", "running", "discount", "threshold", "clip", "code", "shaping", "len"),
    },
)
# What else has a return: a flow of water, a journey, a function.
_PLAIN_RETURNS: Final = frozenset({"return", "returns"})
_OF_RETURNS: Final = frozenset(
    {
        *("temp", "temperature", "flow", "air", "pipe", "code", "type", "value", "values", "address", "trip"),
        *("status", "flight", "date", "time", "customer", "order", "item", "items", "loan"),
        *("stock", "portfolio", "annual", "annualized", "daily", "monthly", "yearly", "market", "index"),
    }
)
# `episode score` is a reward, as a `return` is where the log counts episodes, or a `score`.
_EPISODES: Final = frozenset({"episode", "episodes", "episodic"})
MEANS: Final = frozenset({"average", "avg", "mean", "total"})


def is_reward(name: str) -> bool:
    """Whether a name is that of what reinforcement learning wants more of: "rewards/mean", "ep_rew_mean"."""
    found = words(name)
    if is_return(name):
        return False  # a word of programs
    if canonical(name) in SHORT_REWARDS:
        return True
    if found[-1:] == ["score"] and not _EPISODES.isdisjoint(found) and _NO_REWARD.isdisjoint(found):
        return True
    if _REWARDS.isdisjoint(found) or not _NO_REWARD.isdisjoint(found) or not NO_LOSS.isdisjoint(found):
        return False
    return not _PLAIN_RETURNS.issuperset(_REWARDS.intersection(found)) or _OF_RETURNS.isdisjoint(found)


def is_of_episodes(name: str) -> bool:
    """Whether the name of a reward says that it is of an episode, or the mean of several."""
    return not (_EPISODES | MEANS | {"ep"}).isdisjoint(words(name))


def is_return(name: str) -> bool:
    """Whether a name is "return" or "average score" and no more: a reward where the log counts episodes."""
    found = words(name)
    return found in (["return"], ["returns"]) or (found[-1:] == ["score"] and MEANS.issuperset(found[:-1]))
