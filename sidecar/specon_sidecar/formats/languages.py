"""Names of metrics in Chinese and Japanese, put into English: `训练损失: 1.5` is `train loss: 1.5`."""

import re
from typing import Final

LOSS: Final = "失".encode()
"""Bytes that each line with a loss in these languages holds."""

_WORDS: Final = {
    **dict.fromkeys(("训练", "訓練", "学習"), "train "),
    **dict.fromkeys(("验证", "驗證", "検証"), "val "),
    **dict.fromkeys(("测试", "測試", "テスト"), "test "),
    "平均": "mean ",
    **dict.fromkeys(("总", "總"), "total "),
    **dict.fromkeys(("损失", "損失"), "loss"),
    **dict.fromkeys(("准确率", "準確率"), "accuracy"),
    "\N{FULLWIDTH COLON}": ":",
    "\N{FULLWIDTH COMMA}": ", ",
}
_ENGLISH: Final = {word.encode(): english.encode() for word, english in _WORDS.items()}
_ANY: Final = re.compile(b"|".join(map(re.escape, _ENGLISH)))


def translate(line: bytes) -> bytes:
    """Return the line with the words that it is read by in English."""
    return _ANY.sub(lambda found: _ENGLISH[found[0]], line)
