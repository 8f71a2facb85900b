"""Logs whose losses work against each other: read for a reward, the verdict, or a metric that was named."""

from typing import Final

from specon_sidecar.formats.family import NUM, Family

REINFORCEMENT: Final = (
    Family(
        name="cyclegan",
        writers="CycleGAN, pix2pix: not classifiable unless a metric such as cycle_A is named",
        needles=(b"(epoch: ", b"iters: ", b"G_"),
        line=r"\(epoch: (?P<epoch>\d+), iters: (?P<i>\d+), .{1,60}\) ",
        metrics=(r"[DG]_\w+",),
    ),
    Family(
        name="baselines",
        writers="OpenAI Baselines",
        needles=(b"| eprewmean ",),
        line=r"^\| (?P<name>eprewmean) +\| (?P<value>" + NUM + r")",
        metrics=("eprewmean",),
        above="eprewmean",
        context=(b"total_timesteps", r"^\| (?:misc/)?total_timesteps +\| (?P<step>[\d.e+]+)"),
    ),
    Family(
        name="baselines-off-policy",
        writers="OpenAI Baselines: DDPG and projects derived from it",
        needles=(b"| rollout/return ",),
        line=r"^\| (?P<name>rollout/return) +\| (?P<value>" + NUM + r")",
        metrics=("rollout/return",),
        above="rollout/return",
        context=(b"total/steps ", r"^\| total/steps +\| (?P<step>[\d.e+]+)"),
    ),
    Family(
        name="spinning-up",
        writers="Spinning Up, and its loggers elsewhere",
        needles=(b"AverageEpRet |",),
        line=r"^\| +(?P<name>AverageEpRet) \| *(?P<value>" + NUM + r")",
        metrics=("AverageEpRet",),
        context=(b" Epoch |", r"^\| +Epoch \| *(?P<epoch>\d+)"),
    ),
    Family(
        name="stable-baselines3",
        writers="Stable-Baselines3 (of its losses without a reward nothing can be said)",
        needles=(b"|", b"_"),
        line=r"^\| {4,}(?:\w+_loss|ep_rew_mean|ep_len_mean|entropy_loss|loss)\s+\|",
        pair=r"\| {4,}(\w+)\s+\| (" + NUM + r")",
        above=r"ep_\w+",
        context=(b"total_timesteps", r"\| +total_timesteps +\| (?P<step>\d+)"),
        weight=2,
    ),
)
