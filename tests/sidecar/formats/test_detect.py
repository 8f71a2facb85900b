"""The format of a log is found from its first lines, and nothing is lost meanwhile."""

import pytest

from specon_sidecar.formats.detect import ENOUGH_WITHOUT_PLACE, HEAD, SILENCE
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader


def auto(**options):
    return make_reader("auto", FormatOptions(**options))


LOGS = {
    "json-lines": [b'{"step": %d, "loss": %d.5}' % (i, 90 - i) for i in range(20)],
    "csv": [b"step,loss", *(b"%d,%d.5" % (i, 90 - i) for i in range(20))],
    "key-value": [b"step %d loss: %d.5" % (i, 90 - i) for i in range(20)],
}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("batch", [1, 2, 7, 1000])
def test_found_and_complete(name, batch):
    """The right format is chosen, and all samples since the first line come once and in order."""
    reader = auto()
    noise = [b"loading 5 shards", b"lr: 0.1", b"learning with loss_scale: 5.0"] * 30
    lines = noise + LOGS[name]
    samples = [one for i in range(0, len(lines), batch) for one in reader.read(lines[i : i + batch])]
    assert reader.chosen == name
    assert [(one.step, one.value) for one in samples] == [(i, 90.5 - i) for i in range(20)]


def test_decides_at_the_third_sample():
    """Three values at two steps are enough; before that nothing is delivered."""
    reader = auto()
    assert reader.read(LOGS["key-value"][:2]) == []
    assert reader.chosen is None
    assert len(reader.read(LOGS["key-value"][2:3])) == 3


def test_one_step_alone_is_no_evidence():
    """Values that all stand at the same step do not decide, nor do values that are not finite."""
    reader = auto()
    assert reader.read([b"step=1 loss=2"] * 50 + [b"step=%d loss=nan" % i for i in range(50)]) == []
    assert reader.chosen is None


def test_values_without_steps_decide_later():
    """Without steps or epochs it takes more values, or the end of the head."""
    few, noise = [b"loss: 3", b"loss: 2", b"loss: 1"], [b"epoch finished"]
    reader = auto()
    assert reader.read(few) == []
    assert len(reader.read(noise * HEAD)) == 3
    many = [b"loss: %d" % i for i in range(ENOUGH_WITHOUT_PLACE)]
    assert len(auto().read(many)) == ENOUGH_WITHOUT_PLACE


def test_constant_values_without_steps_are_no_evidence():
    """A source text says `loss = 0` again and again."""
    reader = auto()
    assert reader.read([b"loss: 3"] * (2 * HEAD)) == []
    assert reader.chosen is None


def test_undecided_log_stays_bounded_and_open():
    """However long nothing is found, little is kept, and the format is still found afterwards."""
    reader = auto()
    assert reader.read(b"step=1 loss=%d" % i for i in range(10 * HEAD)) == []
    assert all(len(one.samples) <= HEAD for one in reader._detection._candidates)
    reader.read(LOGS["key-value"])
    assert reader.chosen == "key-value"


def test_particular_format_is_waited_for():
    """A bar whose first epoch is long is not taken for plain pairs meanwhile."""
    reader = auto()
    bar = [b"%d/900 [==>...] - ETA: 1s - loss: %d.5" % (i, 950 - i) for i in range(1, 901)]
    lines = [line for epoch in (1, 2, 3, 4) for line in (b"Epoch %d/9" % epoch, *bar)]
    samples = reader.read(lines)
    assert reader.chosen == "keras"
    assert [(one.step, one.value) for one in samples] == [(900, 50.5), (1800, 50.5), (2700, 50.5)]


def test_weak_decision_is_corrected():
    """Values of a source text at the head give way as soon as another format shows steps."""
    reader = auto()
    reader.read([b"    loss = %d" % i for i in range(12)])
    assert reader.chosen == "key-value"
    samples = reader.read([b"step:%d/6200 train_loss:%d.5 train_time:1ms" % (i, 20 - i) for i in range(1, 9)])
    assert reader.chosen == "modded-nanogpt"
    assert [one.step for one in samples][-5:] == [4, 5, 6, 7, 8]


def test_silent_choice_is_reconsidered():
    """After a long silence of the chosen format the others are tried again, and nothing else is lost."""
    reader = auto()
    assert len(reader.read(LOGS["json-lines"])) == 20
    assert reader.read([b"nothing"] * SILENCE) == []
    steps = [b"iter %d: loss %d.5, time 1ms" % (i, 90 - i) for i in range(9)]
    assert [one.step for one in reader.read(steps)] == list(range(9))
    assert reader.chosen == "nanogpt"


def test_evidence_says_why():
    """The three likeliest formats are told, best first, with what they found."""
    reader = auto()
    assert reader.evidence == ()
    reader.read([b"iter %d: loss: %d.5" % (i, 9 - i) for i in range(3)])
    best = reader.evidence[0]
    assert (best.format, best.samples, best.steps, best.share_of_lines) == ("key-value", 3, 3, 1.0)
    assert (best.first.value, best.last.value) == (9.5, 7.5)


def test_scores_give_way_to_a_loss():
    """An evaluation before the first step of a training is no part of its series."""
    for name in ("auto", "key-value"):
        reader = make_reader(name, FormatOptions())
        scores = [b"step %d accuracy: 0.%d" % (i, i) for i in range(3)]
        losses = [b"step %d loss: %d.5" % (i, 9 - i) for i in range(5)]
        assert {one.name for one in reader.read(scores + losses)} == {"loss"}
        assert reader.goal == "min"


def test_end_of_the_log_decides():
    """At the end of a short log three values are enough; fewer are not."""
    reader = auto()
    reader.read([b"loss: 3", b"loss: 2", b"loss: 1"])
    assert [one.value for one in reader.finish()] == [3, 2, 1]
    assert reader.finish() == []
    short = auto()
    short.read([b"loss: 3"])
    assert short.finish() == []
    assert short.chosen is None


def test_pattern_settles_it():
    """With a pattern there is nothing to find out."""
    reader = auto(pattern=r"v=(?P<value>\d+)")
    assert reader.chosen == "regular-expression"
    assert [one.value for one in reader.read([b"v=5"])] == [5]
