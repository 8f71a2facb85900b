"""The followed metric is chosen by name, and the choice holds."""

import pytest

from specon_sidecar.formats.metric_choice import LONGEST_NAME, PATIENCE, MetricChoice


def pick(choice, **values):
    found = [(choice.candidate(name), float(value)) for name, value in values.items()]
    return choice.pick([(candidate, value) for candidate, value in found if candidate is not None])


@pytest.mark.parametrize(
    "name",
    [
        *(
            "loss",
            "Loss",
            "LOSS",
            "total_loss",
            "train_loss",
            "train/loss",
            "training loss",
            "lm loss",
            "lm_loss",
        ),
        *("mlm_loss", "Loss/tok", "ObjLoss", "CrossEntropyLoss", "train-logloss", "loss_cls", "INFO loss"),
        *("act_loss", "samples/sec loss", "train/CrossEntropyLoss"),
    ],
)
def test_losses(name):
    """Names with a word that ends in loss are candidates."""
    assert MetricChoice().candidate(name) is not None


@pytest.mark.parametrize(
    "name",
    [
        *(
            "loss_scale",
            "loss scale",
            "setting loss scale to",
            "loss_scaler",
            "lm loss value",
            "virtual_losses",
        ),
        *(
            "val_loss",
            "val loss",
            "eval_loss",
            "test_loss",
            "valid_loss",
            "validation loss",
            "ValLoss",
            "val/loss",
        ),
        *("eval-logloss", "map", "glossary", "lossless", "best_loss", "step", ""),
    ],
)
def test_no_losses(name):
    """Scales, validation, and other words with these four letters are no candidates."""
    assert MetricChoice().candidate(name) is None


def test_preference_on_one_line():
    """Of several names on a line the preferred one counts, wherever it stands."""
    assert pick(MetricChoice(), loss_cls=1, total_loss=2, loss=3) == ("loss", 3)
    assert pick(MetricChoice(), loss_cls=1, train_loss=2, total_loss=3) == ("total_loss", 3)


def test_parts_of_a_loss_count_as_their_sum():
    """Where a line prints parts only; a line that lacks one of them says nothing."""
    choice = MetricChoice()
    assert pick(choice, loss_bbox=1, loss_cls=2, acc=0.5) == ("sum of loss parts", 3)
    assert pick(choice, loss_cls=1) is None
    assert pick(choice, loss_cls=1, loss_bbox=1.5) == ("sum of loss parts", 2.5)
    assert pick(choice, loss_cls=1, loss_bbox=1.5, loss=2) == ("loss", 2)


@pytest.mark.parametrize("other", ["avg_loss", "batch_loss", "smooth_loss", "ema_loss", "val_cls_loss"])
def test_a_loss_that_is_printed_in_two_ways_is_not_summed(other):
    """A mean and a value of one step are the same loss; one of validation is another."""
    assert pick(MetricChoice(), cls_loss=2, **{other: 1}) in {("cls_loss", 2), (other, 1)}


def test_losses_against_each_other_have_no_sum():
    """The two sides of a GAN are no parts of one loss."""
    choice = MetricChoice()
    for _ in range(3):
        assert pick(choice, d_loss=1, g_loss=2) != ("sum of loss parts", 3)


def test_choice_holds_over_lines():
    """A lesser name on another line is another series, so it gives nothing."""
    choice = MetricChoice()
    assert pick(choice, loss=3) == ("loss", 3)
    assert pick(choice, train_loss=1.06) is None
    assert pick(choice, loss=2) == ("loss", 2)


def test_first_of_equals_stays():
    """Among names without preference the first one seen stays, whatever comes first later."""
    choice = MetricChoice()
    assert pick(choice, batch_loss=3) == ("batch_loss", 3)
    assert pick(choice, smooth_loss=1, batch_loss=2) == ("batch_loss", 2)
    assert pick(choice, smooth_loss=1) is None


def test_better_name_takes_over():
    """A preferred name that appears later takes over at once."""
    choice = MetricChoice()
    pick(choice, loss_cls=1)
    assert pick(choice, loss=2) == ("loss", 2)
    assert pick(choice, loss_cls=1) is None


def test_passing_line_does_not_silence_the_log():
    """A name that is printed no more gives way after so many other samples, and stays away."""
    choice = MetricChoice()
    for _ in range(3):
        pick(choice, loss=1)
    given = [pick(choice, step_loss=2) for _ in range(PATIENCE + 2)]
    assert given == [None] * PATIENCE + [("step_loss", 2)] * 2
    assert pick(choice, loss=1) is None
    assert pick(choice, loss=1, step_loss=3) == ("step_loss", 3)


def test_configured_name_is_exact():
    """A configured name matches in any case, and nothing that merely holds it."""
    choice = MetricChoice("Val Loss")
    assert pick(choice, **{"loss": 1, "val  LOSS": 2, "best val loss": 3}) == ("val  LOSS", 2)
    assert pick(choice, **{"VAL LOSS": 4}) == ("val  LOSS", 4)
    assert MetricChoice("acc").candidate("accuracy") is None


def test_needle_is_in_each_line_that_can_count():
    """The bytes to look for first hold for blanks, paths and letters beyond ASCII."""
    assert MetricChoice().needle == b"loss"
    assert MetricChoice("train/CrossEntropy").needle == b"crossentropy"
    assert MetricChoice("verlust größe").needle == b""


def test_empty_metric_is_refused():
    """A blank name would match nothing for ever."""
    with pytest.raises(ValueError, match="metric must not be empty"):
        MetricChoice("  ")


@pytest.mark.parametrize("kind", [str, str.encode], ids=["text", "bytes"])
def test_long_names(kind):
    """A key that is longer than any name names nothing, and is not remembered."""
    choice = MetricChoice()
    assert choice.named(kind("a" * (LONGEST_NAME - 5) + "_loss")) is not None
    assert choice.named(kind("a" * (LONGEST_NAME - 4) + "_loss")) is None
    assert len(choice._known) == 1


@pytest.mark.parametrize(
    ("values", "picked"),
    [
        ({"base_loss_new": 2, "pair_loss_new": 1, "avg_loss_new": 3.5}, ("avg_loss_new", 3.5)),
        ({"base_loss_new": 2, "pair_loss_new": 1}, ("sum of loss parts", 3)),
        ({"box_loss": 2, "box_cls_loss": 1}, ("sum of loss parts", 3)),
        ({"loss_cls": 2, "loss_box": 1, "loss_box_cls": 4}, ("sum of loss parts", 7)),
    ],
)
def test_a_loss_beside_its_parts(values, picked):
    """A loss whose words all the others have, besides one of their own, is followed, not the sum."""
    assert pick(MetricChoice(), **values) == picked


@pytest.mark.parametrize(
    ("name", "goal"),
    [
        *(("Log-likelihood", "max"), ("train_log_likelihood", "max"), ("train-log-likelihood", "max")),
        *(("mean log likelihood", "max"), ("negative log likelihood", "min"), ("negloglikelihood", "min")),
        *(("NegativeLogLikelihood", "min"), ("minus_log_likelihood", "min"), ("nLogLikelihood", "min")),
    ],
)
def test_a_likelihood_is_followed_where_there_is_nothing_else(name, goal):
    """Of a likelihood more is better, unless its sign is turned."""
    choice = MetricChoice(last_resorts=True)
    assert pick(choice, **{name: 2}) == (name, 2)
    assert choice.goal == goal


def test_means_of_adversarial_losses_are_adversarial():
    """`Average Loss_G` is the loss of a generator as `Loss_G` is."""
    choice = MetricChoice()
    found = [(choice.named(name), 0.5) for name in ("Average Loss_G", "Loss_D")]
    assert all(choice.pick(found) is None or choice.verdict is None for _ in range(3))
    assert choice.verdict == "two losses against each other (GAN)"


def test_reward_by_its_name_stands_before_a_score():
    """Of `Score` and `Total_Reward` of the same episodes the reward is followed."""
    choice = MetricChoice()
    choice.count_episodes()
    found = [(choice.named(name), value) for name, value in (("Score", 3.0), ("Total_Reward", 7.0))]
    assert choice.pick(found) == ("Total_Reward", 7.0)
    assert choice.named("Avg learning reward").rank < choice.named("Avg testing reward").rank < 0
