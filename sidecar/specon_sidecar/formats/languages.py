"""Names of metrics and epochs in other languages, put into English: `训练损失: 1.5` is `train loss: 1.5`."""

import re
from typing import Final

# One of these is in each line that is put into English: looked for before anything else.
_SIGNS: Final = tuple(
    one.encode()
    for one in (
        *("失", "실", "poca", "poque", "rdida", "поха", "отер", "エポック", "에폭", "에포크", "第", "次数"),
        "\N{FULLWIDTH COLON}",
    )
)

# What Chinese systems write that do not write UTF-8.
_GB: Final = "gb18030"
_GB_SIGNS: Final = tuple(one.encode(_GB) for one in ("失", "第", "次数", "\N{FULLWIDTH COLON}"))

_WORDS: Final = {
    **dict.fromkeys(("Época", "época", "Époque", "époque", "Эпоха", "эпоха"), "Epoch"),
    **dict.fromkeys(("エポック", "에폭", "에포크", "轮次"), "epoch "),
    **dict.fromkeys(("训练", "訓練", "学習", "학습", "훈련"), "train "),
    **dict.fromkeys(("验证", "驗證", "検証", "검증"), "val "),
    **dict.fromkeys(("测试", "測試", "テスト", "테스트"), "test "),
    "平均": "mean ",
    **dict.fromkeys(("总", "總"), "total "),
    **dict.fromkeys(
        ("损失", "損失", "손실", "Pérdida", "pérdida", "Потери", "потери", "Потеря", "потеря"), "loss"
    ),
    **dict.fromkeys(("准确率", "準確率", "정확도"), "accuracy"),
    "\N{FULLWIDTH COLON}": ":",
    "\N{FULLWIDTH COMMA}": ", ",
}
# `第3轮`, `第 3 步`: the third epoch, the third step.
_ORDINAL: Final = re.compile("第 {0,2}([0-9]{1,12}) {0,2}(?:个)?(轮|epoch|步|回合)".encode())
# `训练次数: 3Loss:0.9`, `迭代次数: 100`: how many iterations there were.
_ITERATIONS: Final = re.compile(
    "(?:训练|迭代)次数(?:\N{FULLWIDTH COLON}|:|为|=)? {0,2}([0-9]{1,12})".encode()
)
_COUNTED: Final = {
    "轮".encode(): b"epoch",
    b"epoch": b"epoch",
    "步".encode(): b"step",
    "回合".encode(): b"episode",
}
_ENGLISH: Final = {word.encode(): english.encode() for word, english in _WORDS.items()}
_ANY: Final = re.compile(b"|".join(map(re.escape, _ENGLISH)))


def translate(line: bytes) -> bytes:
    """Return the line with the words that it is read by in English."""
    if line.isascii():
        return line
    if not any(one in line for one in _SIGNS):
        line = _of_gb(line)
        if not any(one in line for one in _SIGNS):
            return line
    if _ORDINAL.search(line):
        line = _ORDINAL.sub(lambda found: b"%b %b " % (_COUNTED[found[2]], found[1]), line)
    line = _ITERATIONS.sub(rb"iteration \1 ", line)
    return _ANY.sub(lambda found: _ENGLISH[found[0]], line).replace(b"  ", b" ")


def _of_gb(line: bytes) -> bytes:
    """Return a line in GB 18030 as UTF-8; any other one as it is."""
    if not any(one in line for one in _GB_SIGNS):
        return line
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode(_GB, "replace").encode()
    return line
