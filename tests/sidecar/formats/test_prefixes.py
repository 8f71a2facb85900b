"""What stands before a line is taken off; rank and time are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_sidecar.formats.prefixes import read_rank, strip, strip_terminal

PREFIXES = [
    (b"[1,0]<stderr>:", 0),
    (b"[1,3]<stdout>:INFO:root:", 3),
    (b"[rank2]: ", 2),
    (b"[rank-7/8]: ", 7),
    (b"[Rank 0] ", 0),
    (b"[default5]:", 5),
    (b" 4: ", 4),
    (b"12: ", 12),
    (b"INFO:tensorflow:", None),
    (b"INFO:", None),
    (b"2.train       | ", None),
    (b"trainer-1  | ", None),
    (b"[pod/mnist-worker-0/pytorch] 2026-11-20T23:00:00Z ", None),
    (b"[2021-05-14 19:43:45,087] {bash.py:173} INFO - [1,0]<stdout>:", 0),
    (b"2020-03-01 12:12:12,123 - name - INFO - ", None),
    (b"2020-03-01 12:12:12,123 INFO [train.py:185] ", None),
    (b"(src/fit.py:12) INFO: ", None),
    (b"I0317 10:00:17.579063 125344476638336 metric_logger.py:181] ", None),
    (b"I20260317 10:00:17 1234 dinov2 helpers.py:103] ", None),
    (b"[2022-04-08 18:48:05,372][train_inner][INFO] - ", None),
    (b"[2021-03-21 00:29:15,279 INFO] ", None),
    (b"[2022/08/16 03:07:33] ppocr INFO: ", None),
    (b"[11/18 18:14:12] d2.utils.events INFO:  ", None),
    (b"[12/14 00:39:16 d2.utils.events]:  ", None),
    (b"11/20 23:16:41 - mmengine - INFO - ", None),
    (b"[20:33:47] ", None),
    (b"2024.03.02 10:15:01 ", None),
    (b"20200204-19:54:00 ", None),
    (b"[03.24.23|09:56:11] ", None),
    (b"[04/12/24 16:45:17] INFO     ", None),
    (b"[2022-06-25 06:42:32,238]", None),
    (b"2024-03-02 10:15:01.290 | INFO     | trainer.loop:fit:48 - ", None),
    (b"2024-03-02 10:15:01.290 | SUCCESS  | __main__:<module>:9 - ", None),
    (b"stdout F ", None),
    (b"\x1b[32m[11/18 18:14:12 d2.utils.events]: \x1b[0m ", None),
    (b"\x1b]0;title\x07\x1b[1;31m", None),
]


@pytest.mark.parametrize(("prefix", "rank"), PREFIXES)
@pytest.mark.parametrize("text", [b"Epoch 1 loss: 2.5", b"step 3/9 loss=1", b"{'loss': 2.0}"])
def test_prefix(prefix, rank, text):
    """The text remains, but for blanks before it, and the rank is known."""
    line = strip(prefix + text)
    assert (line.text.strip(), line.rank) == (text, rank)


@pytest.mark.parametrize(
    "line",
    [
        b"480:\tlearn: 15.7",
        b"[365]\ttrain-logloss:0.1",
        b"[1, 2000] loss: 2.2",
        b"| epoch 002 | loss 4",
        b"[Epoch 0][Batch 9], x=1",
        b"[640/1347 (45%)]",
        b"1/43 - 1s - loss: 2",
    ],
)
def test_text_is_no_prefix(line):
    """Iterations, epochs and tables at the start of a line stay."""
    assert strip(line).text == line


def test_time_of_a_stamp_with_zone():
    """The stamp is the time only where its zone is printed."""
    assert strip(b"[rank0]: 2026-11-20T23:00:00.5Z loss=2").time == 1795215600.5
    assert strip(b"2026-11-20 23:00:00,123 INFO loss=2").time is None


def test_terminal():
    """Colours, titles and links are dropped; of what backspaces overwrote the last state counts."""
    assert strip_terminal(b"\x1b[1mstep\x1b[0m \x1b]8;;u\x1b\\a\x1b]8;;\x07 1\b\b\b2 \b\b") == b"2 "
    assert strip_terminal(b"\x1b[A\x1b(Bloss") == b"loss"
    assert strip_terminal(b"[==>..] loss 2\b\b\b\b 9/39 ") == b"[==>..] loss 2 9/39 "


def test_line_above():
    """Of what went back to the line above, the last that shows anything counts."""
    assert strip_terminal(b"Validation: |  | 0/? \x1b[A\x1b[37mEpoch 1: loss 2\x1b[0m") == b"Epoch 1: loss 2"
    assert strip_terminal(b" 5%|| 1/20 loss=2\x1b[A\x1b[K") == b" 5%|| 1/20 loss=2"


def test_named_rank():
    """A rank among the values is one; that of an adapter is not."""
    assert read_rank(b"step=1 rank=3 loss=2") == 3
    assert read_rank(b'"global_rank": 2') == 2
    assert read_rank(b"lora_rank: 8 crank=2 rank=1.5") is None


@given(st.binary(max_size=200) | st.lists(st.sampled_from([one[0] for one in PREFIXES])).map(b"".join))
def test_any_bytes(line):
    """No bytes make it raise, and what remains is the end of what the terminal shows."""
    assert strip_terminal(line).endswith(strip(line).text)
