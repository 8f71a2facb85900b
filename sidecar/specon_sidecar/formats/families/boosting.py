"""Logs of gradient boosting."""

from typing import Final

from specon_sidecar.formats.family import NUM, Family

BOOSTING: Final = (
    Family(
        name="xgboost",
        writers="XGBoost",
        needles=(b"]", b"-", b":"),
        line=r"^\[(?P<step>\d+)\](?:\s+|#011)[\w.]+-[\w@.-]+:",
        pair=r"(?<![\w@.-])([\w.]++-[\w@.-]++(?::\d+)?):(" + NUM + r")",
        metrics=(r"train\w*-.*loss", r"train\w*-.*", r"[^-]*+-.*loss", r"[^-]*+-.*"),
        only=True,
    ),
    Family(
        name="lightgbm",
        writers="LightGBM (the line of the best iteration at the end is no new value)",
        needles=(b"'s ", b"]"),
        line=r"^\[(?P<step>\d+)\]\s+\S+'s ",
        pair=r"(?<![\w.])([\w.]++'s [\w@.-]++): (" + NUM + r")",
        metrics=(r"train\w*'s .*loss", r"train\w*'s .*", r"(?>.*?'s ).*loss", r"(?>.*?'s ).*"),
        only=True,
        skip_after=b"est iteration is",
    ),
    Family(
        name="catboost",
        writers="CatBoost (the line does not say which metric it is, so not whether less or more is better)",
        needles=(b":\t", b"total: "),
        line=r"^(?P<step>\d+):\t",
        metrics=("learn", "test"),
        only=True,
        goal_known=False,
    ),
)
