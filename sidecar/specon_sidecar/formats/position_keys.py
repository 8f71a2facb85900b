"""Under which names logs print how far the training is."""

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class Position(IntEnum):
    """What a key says about the place of a sample."""

    STEP = 0
    EPOCH = 1
    TOTAL_STEPS = 2
    TIME = 3
    TOTAL_EPOCHS = 4
    RANK = 5


# In order of preference, for records that hold several: smaller wins.
STEP_KEYS: Final[Mapping[str, int]] = {
    "step": 0,
    "steps": 0,
    "global_step": 1,
    "global_steps": 1,
    "globalstep": 1,
    "globalsteps": 1,
    "current_steps": 1,
    "total_timesteps": 1,
    "num_timesteps": 1,
    "timesteps": 1,
    "timestep": 1,
    # Ray Tune and RLlib, before and since 2.40
    "timesteps_total": 1,
    "num_env_steps_sampled_lifetime": 1,
    "training_iteration": 2,
    "iteration": 2,
    "iterations": 2,
    # rllab, TRPO of Baselines, and their heirs
    "timestepssofar": 1,
    "totalenvinteracts": 1,
    "total_env_steps": 1,
    "num_env_steps": 1,
    "env_steps": 1,
    "env_step": 1,
    # TD3 and its heirs
    "total_t": 1,
    "global_iter": 2,
    "iter": 3,
    "iters": 3,
    "n_iter": 3,
    "it": 4,
    "i": 4,
    "num_updates": 5,
    "nupdates": 5,
    "n_updates": 5,
    "update": 5,
    "updates": 5,
    "global_episode": 5,
    "batch": 6,
    "episode": 7,
    "episodes": 7,
    "round": 7,
    "generation": 7,
    "num_episodes": 8,
    "total_episodes": 8,
    "episodessofar": 8,
    "_step": 8,
    "frames": 9,
    "num_frames": 9,
    "total_frames": 9,
}
EPISODE: Final = STEP_KEYS["episode"]
"""Rank of an episode: beside one, `steps` says how long it was."""
EPOCH_KEYS: Final = frozenset({"epoch", "epochs", "epoche", "epoca", "ep"})
TOTAL_KEYS: Final = frozenset({"total_steps", "max_steps"})
TIME_KEYS: Final = frozenset({"time", "timestamp", "ts", "wall_time", "time_ms", "@timestamp"})
TOTAL_EPOCH_KEYS: Final = frozenset({"total_epochs", "max_epochs", "num_epochs"})
RANK_KEYS: Final = frozenset({"rank", "global_rank"})
# `trainer/global_step` is the step as well, `time/total_timesteps` too; `samples/step` is a rate.
_PREFIXES: Final = ("train/", "trainer/", "time/", "total/", "misc/")
# `cur_epoch` and `train_iter` say where it is, as the bare names do.
_QUALIFIED: Final = re.compile(
    r"(?:cur|current|train|outer|meta|global)_(?=epochs?\Z)|(?:cur|current|outer)_(?=(?:steps?|iter\w{0,7}+)\Z)"
    r"|train_(?=(?:step|iter|iteration)\Z)"
)


def position_of(name: str) -> tuple[Position, int] | None:
    """Return what the key says and its rank among the keys that say the same, or None for any other key."""
    key = name.strip().casefold().replace(" ", "_").replace("-", "_")
    for prefix in _PREFIXES:
        key = key.removeprefix(prefix)
    key = key if key in STEP_KEYS else _QUALIFIED.sub("", key, count=1)
    if key in STEP_KEYS:
        return Position.STEP, STEP_KEYS[key]
    for keys, position in (
        (EPOCH_KEYS, Position.EPOCH),
        (TOTAL_KEYS, Position.TOTAL_STEPS),
        (TIME_KEYS, Position.TIME),
        (TOTAL_EPOCH_KEYS, Position.TOTAL_EPOCHS),
        (RANK_KEYS, Position.RANK),
    ):
        if key in keys:
            return position, 0
    return None
