"""What stands elsewhere than beside the value: totals, headings, bars; and what is printed without signs."""

import pytest

from specon_sidecar.following.lines import LineSplitter
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import make_reader


def read(text):
    """Return the reader, and the samples of a whole log."""
    data = text if isinstance(text, bytes) else text.encode()
    reader, splitter = make_reader("auto", FormatOptions()), LineSplitter()
    samples = reader.read(splitter.feed(data))
    rest = splitter.flush()
    return reader, [*samples, *reader.read([] if rest is None else [rest]), *reader.finish()]


def lines(form, count=30, **more):
    """Return so many lines, the value falling."""
    return "".join(form.format(n=n, v=3 - n / 20, e=n / 10, **more) + "\n" for n in range(1, count + 1))


def bar(i, n, more=""):
    return f"\r {100 * i // n:3}%|##   | {i}/{n} [00:01<00:02, 9.5it/s{more}]"


@pytest.mark.parametrize(
    ("form", "step", "epoch", "total", "epochs"),
    [
        ("step {n} loss {v}", 30, None, None, None),
        ("iter {n} | loss {v} | lr 3e-4", 30, None, None, None),
        ("Epoch {n} Loss {v} Accuracy 0.9", None, 30, None, None),
        ("Step {n}/4000, Loss {v}", 30, None, 4000, None),
        ("loss {v}", None, None, None, None),
        ("Ep 1 (Step {n:06}): Train loss {v}, Val loss 3.0", 30, 1, None, None),
        ("step {n}K | loss {v}", 30_000, None, None, None),
        ("[Train {n}/1882] loss: {v}", 30, None, 1882, None),
        ("Epoch {n}, avg loss so far is {v}", None, 30, None, None),
        ("step {n} Loss function: {v}", 30, None, None, None),
        ("epoch {n} | valid | loss 9.0\nepoch {n} | train | loss {v}", None, 30, None, None),
    ],
)
def test_lines_without_signs(form, step, epoch, total, epochs):
    """Pairs without a sign are read with their place, and a line of other data is none of the training."""
    _, samples = read(lines(form))
    last = samples[-1]
    assert len(samples) == 30
    assert last.value == pytest.approx(1.5)
    assert (last.step, last.epoch) == (step, epoch)
    assert (last.total_steps, last.total_epochs) == (total, epochs)


@pytest.mark.parametrize(
    ("head", "steps", "epochs"),
    [
        ("max_steps: 400", 400, None),
        ("INFO:tensorflow:  Num steps = 400", 400, None),
        ("  Total optimization steps = 1,400", 1400, None),
        ("Namespace(max_iters=400, lr=0.1)", 400, None),
        ("Starting training for 400 steps", 400, None),
        ("warmup_steps: 40, num_workers: 4", None, None),
        ("max_steps: -1", None, None),
        ("warmup max steps: 40", None, None),
        ("training stops after no improvement for 50 steps", None, None),
    ],
)
def test_totals_at_the_head(head, steps, epochs):
    """A total that is said once holds, and the reader says which line said it."""
    reader, samples = read(head + "\n" + lines("step {n} loss: {v}"))
    assert (samples[-1].total_steps, samples[-1].total_epochs) == (steps, epochs)
    assert (reader.total is None) == (steps is None)
    assert reader.total is None or head.strip()[-12:] in reader.total.source


def test_heading_is_the_context_of_what_follows():
    """`Epoch 3/30` gives the lines below it their epoch, and its total."""
    form = "2025-05-04 22:32:07,055 - INFO - Epoch {n}/30\n  Train Loss: {v}\n  Val   Loss: 4.0"
    reader, samples = read(lines(form, 20))
    assert [one.epoch for one in samples] == list(range(1, 21))
    assert {one.name for one in samples} == {"Train Loss"}
    assert (reader.total.steps, reader.total.epochs) == (None, 30)
    assert "heading" in reader.total.source


@pytest.mark.parametrize(
    "heading",
    [
        "Epoch {n}/30 Running...",
        "--- Epoch {n}/30 on cuda ---",
        "2024-03-02 10:15:01.290 | INFO     | app.train:main:{n} - epoch{n}/30:",
    ],
)
def test_words_around_a_heading(heading):
    """What a logger or the script adds leaves a heading one."""
    _, samples = read(lines(heading + "\n\nloss: {v}"))
    assert (samples[-1].epoch, samples[-1].total_epochs) == (30, 30)


def test_another_run_in_the_same_file_may_have_another_length():
    """Its headings say it, where its lines have the epoch alone."""
    run = "--- Epoch {{n}}/{} on cuda ---\nEpoch {{n}} Average Training Loss: {{v}}"
    _, samples = read(lines(run.format(20), 20) + lines(run.format(10), 10))
    assert (samples[-1].epoch, samples[-1].total_epochs) == (10, 10)


def test_steps_that_start_again_in_each_epoch():
    """Then the number behind the stroke is the epoch's, and a configured number of epochs makes the total."""
    text = "".join(f"Epoch {e} | Step {s}/50 | Loss: {9 - e - s / 50}\n" for e in (0, 1) for s in range(50))
    _, samples = read("  epochs: 2\n" + text)
    assert (samples[-1].step, samples[-1].total_steps, samples[-1].total_epochs) == (99, 100, 2)


def test_bar_behind_a_record_is_its_step():
    """The Trainer writes the bar again behind each dictionary."""
    text = bar(0, 96) + "".join(
        f"\r    \r{{'loss': {4 - n / 10}, 'epoch': {n / 8}}}\n{bar(4 * n, 96)}" for n in range(1, 25)
    )
    reader, samples = read(text)
    assert [one.step for one in samples] == list(range(4, 97, 4))
    assert reader.total.steps == 96


def test_records_written_late_count_once_and_have_no_step():
    """Under `nohup` the dictionaries come in one go behind all bars: no bar tells their steps."""
    text = (
        "".join(bar(n, 96) for n in range(97))
        + "\n"
        + "".join(f"{{'loss': {4 - n / 10}, 'epoch': {n / 8}}}\n" for n in range(1, 25))
    )
    _, samples = read(text)
    assert len(samples) == 24
    assert {one.step for one in samples} == {None}


@pytest.mark.parametrize("end_of_bar", ["\n", ""])
def test_bar_behind_many_late_records_tells_the_epochs(end_of_bar):
    """Under `nohup` records come in batches: the bar behind a batch is at the last record's epoch.

    A bar before the first of them, on its line, is not where that one was.
    """

    def batch(begin, end):
        bars = "".join(bar(step, 960) for step in range(begin, end + 1))
        places = range(begin + 10, end + 1, 10)
        records = "".join(f"{{'loss': '{4 - n / 960}', 'epoch': '{n / 320:.4}'}}\n" for n in places)
        return bars + end_of_bar + records

    reader, samples = read(batch(0, 300) + batch(300, 600) + bar(610, 960))
    assert reader.chosen == "hugging-face"
    assert [len(samples), samples[-1].step, samples[-1].total_epochs] == [60, None, 3]
    assert "300/960" in reader.total.source


def test_bars_of_folds():
    """`fold 2, 132/200:` before a bar is an epoch; the bar counts its batches."""
    text = "".join(
        bar(i, 4, f", loss={9 - n / 10 - i / 100:.2f}").replace("\r", f"\r[fold_0] {n:03}/200: ")
        for n in range(1, 31)
        for i in range(1, 5)
    )
    _, samples = read(text)
    assert [samples[0].step, samples[-1].step, samples[-1].total_steps] == [1, 120, 800]


@pytest.mark.parametrize(
    ("form", "step", "total", "name"),
    [
        ("Episode {n}/500 | Reward: {e} | Loss: {v}", 30, 500, "Reward"),
        ("Episode {n}/500, return: {e}, loss: {v}", 30, 500, "return"),
        ("Episode {n} | Deliveries: 3 | Loss: {v}", 30, None, "Loss"),
        ("[step={n}] episode={n} return={e} policy_loss={v} value_loss={v}", 30, None, "return"),
        ("Epoch {n} loss: {v}, return: {e}", None, None, "loss"),
    ],
)
def test_episodes(form, step, total, name):
    """Episodes are steps, and where a log counts them a return is their reward."""
    reader, samples = read(lines(form))
    assert [samples[-1].step, samples[-1].total_steps, samples[-1].name] == [step, total, name]
    assert reader.unclassifiable is None


@pytest.mark.parametrize("form", ["Epoch {n} [4/40] loss {v}", "Epoch:[{n}/50](4/40), loss: {v}"])
def test_batch_behind_the_epoch(form):
    """A batch needs no name where it stands behind its epoch."""
    _, samples = read(lines(form))
    assert [samples[0].step, samples[-1].step] == [4, 29 * 40 + 4]


def test_last_words_of_the_trainer_are_no_training():
    """What the Trainer says at its end is a mean of all steps; several trainings say it several times."""
    _, samples = read(lines("{{'train_runtime': 9.3, 'train_loss': {v}, 'epoch': 1.0}}"))
    assert samples == []


def test_format_that_has_just_spoken_is_not_replaced():
    """Bars with a loss are followed to the end, though dictionaries with the same losses come behind them."""
    text = "".join(bar(n, 4000, f", loss={9 - n / 1000:.3f}") for n in range(1, 4001)) + "\n"
    reader, samples = read(text + lines("{{'loss': {v}, 'epoch': {e}}}", 40))
    assert reader.chosen == "progress-bar"
    assert len(samples) == 4000


def drawn(n, text):
    before = "Tokenizing [####] 100.0% 70/70 | 4.6 MiB/s\n"
    return f"{before}Training [===    ] {n / 0.3:.1f}% {n}/30 | 4.6 it/s | {text}\n"


def test_bar_drawn_with_signs_is_the_place():
    """The count behind its percentage; a bar of something else between them is none of the training."""
    _, samples = read("".join(drawn(n, f"loss={3 - n / 20}") for n in range(1, 31)))
    assert (samples[-1].step, samples[-1].total_steps, len(samples)) == (30, 30, 30)
    _, samples = read("".join(f"acc 50.0% {n}/30 | loss={3 - n / 20}\n" for n in range(1, 31)))
    assert samples[-1].step is None


@pytest.mark.parametrize(("head", "total"), [("Training for 6 epochs...\n", 60), ("", None)])
def test_bar_of_each_epoch(head, total):
    """Its length and a stated number of epochs give the total."""
    text = "".join(bar(i, 10, f", loss={9 - n / 5 - i / 50:.2f}") for n in range(6) for i in range(1, 11))
    _, samples = read(head + text)
    assert [samples[-1].step, samples[-1].total_steps] == [60, total]
    varied = "".join(
        bar(i, 10 + n, f", loss={9 - n / 5 - i / 50:.2f}") for n in range(5) for i in range(1, 11)
    )
    assert read(head + varied)[1][-1].total_steps is None


def test_last_state_of_a_bar_counts():
    """The state of before is written with the new step first, then the new one."""
    text = "".join(
        bar(n, 30, f", loss={v:.2f}") for n in range(1, 31) for v in (4 - (n - 1) / 10, 4 - n / 10)
    )
    _, samples = read(text)
    assert [one.value for one in samples] == pytest.approx([4 - n / 10 for n in range(1, 31)])


def test_evaluation_behind_the_last_epoch_is_no_training():
    """Keras prints `evaluate` as it prints an epoch, without a heading."""
    epoch = "Epoch {n}/8\n52/52 - 1s - loss: {v} - val_loss: 3.0"
    _, samples = read(lines(epoch, 8) + "52/52 - 0s - loss: 0.1\n64/64 - 0s - loss: 0.1\n")
    assert len(samples) == 8
    assert samples[-1].value == pytest.approx(2.6)


def test_reward_is_followed_and_never_the_loss_alone():
    """What GRPO prints as a loss says nothing about how it goes."""
    reader, samples = read(lines("{{'loss': 0.0, 'reward': {e}, 'reward_std': 0.1, 'epoch': {e}}}"))
    assert (samples[-1].name, reader.goal) == ("reward", "max")


def test_both_sides_on_one_number_are_refused():
    """`Gen/Dis Loss: 0.3/4.7` is a GAN."""
    reader, samples = read(lines("Epoch: 1 | Batch {n}/469 | Gen/Dis Loss: {v}/4.7"))
    assert samples == []
    assert "GAN" in reader.unclassifiable


@pytest.mark.parametrize(
    ("text", "name", "count"),
    [
        (lines("step {n} ppl: {v}"), "ppl", 30),
        (lines("step {n} val_loss: {v}"), "val_loss", 30),
        ("epoch,train/box_loss,mAP_0.5:0.95\n" + lines("{n},{v},0.5"), "train/box_loss", 30),
        ("loss,acc\n" + lines("{v},0.5"), "loss", 30),
        (lines("17952168902{n:02} {v} {n}"), "loss", 30),
        (
            lines(':::MLLOG {{"value": {v}, "key": "eval_error", "metadata": {{"epoch_num": {n}}}}}'),
            "eval_error",
            30,
        ),
        (lines("UAS {n}%"), "UAS", 30),
        ("".join(f"Epoch {n}/40 █ loss: {3 - n / 20}\r\n" for n in range(30)).encode("utf-16"), "loss", 30),
    ],
)
def test_what_else_is_read(text, name, count):
    """Last resorts, tables without steps, MLflow's files, MLLOG with its keys in any order, UTF-16."""
    _, samples = read(text)
    assert (samples[-1].name, len(samples)) == (name, count)


@pytest.mark.parametrize(
    ("form", "step", "total"),
    [
        ("current step: {n}th step\nbatch loss: {v}", 30, None),
        ("--- Iteration {n}/400 ---\nacc: 0.5\nloss: {v}", 30, 400),
        (" Iteration:           {n}  Time: 120.25\n  MAE:   {v}   over 500 points", 30, None),
        ("Step [{n}]\nloss: {v}\nloss: 9.0", 30, None),
        (
            " Scenario a Exp c updates 5/90 episodes, total num timesteps {n}/5400, FPS 43.\n\nloss: {v}",
            30,
            5400,
        ),
    ],
)
def test_the_step_on_the_line_above(form, step, total):
    """A line that says nothing but the step places the first value of each metric below it."""
    _, samples = read(lines(form))
    assert len(samples) == 30
    assert samples[-1].value == pytest.approx(1.5)
    assert (samples[-1].step, samples[-1].total_steps) == (step, total)


def test_a_stage_of_a_pipeline_is_no_step():
    """A line `Step 2` above a whole training places none of its epochs."""
    _, samples = read("Step 2\n" + lines("epoch {n} loss {v}"))
    assert [sample.step for sample in samples] == [None] * 30
    assert samples[-1].epoch == 30


@pytest.mark.parametrize("stages", ["Step 2\n", "Step 1/3\nloading\nStep 2/3\n"])
def test_a_stage_of_a_pipeline_hides_no_training_without_steps(stages):
    """Losses below one line `Step 2` are not what a step prints beside its own."""
    _, samples = read(stages + lines("loss: {v}"))
    assert len(samples) == 30
    assert [sample.step for sample in samples[1:]] == [None] * (len(samples) - 1)
    assert samples[-1].value == pytest.approx(1.5)


@pytest.mark.parametrize("other", ["Eval  acc: 0.97  loss: 0.5", "Test acc: 0.97, loss: 0.5"])
def test_line_that_begins_with_other_data(other):
    """All of it is of those, where lines of the training begin with their name; else nothing says so."""
    for train, name in (("Train loss: {v}  acc: 0.9", "Train loss"), ("Train acc: 0.9, loss: {v}", "loss")):
        _, samples = read(lines("Epoch {n}/30\n  " + train + "\n  " + other))
        assert {one.name for one in samples} == {name}
        assert [one.value for one in samples] == pytest.approx([3 - n / 20 for n in range(1, 31)])
    _, samples = read(lines("Training epoch {n}\nValidation accuracy: 0.{n}"))
    assert samples[-1].name == "Validation accuracy"


def test_games_are_episodes():
    """Of those who learn to play; of others a score is anything."""
    assert read(lines("Game {n} Score {n} Record: 43"))[1][-1].step == 30
    assert read(lines("Game {n} Score {n}"))[1] == []


@pytest.mark.parametrize("announced", ["Testing...", "== Start evaluation ==", "validating on 500 images"])
def test_same_line_behind_the_announcement_of_an_evaluation(announced):
    """It is none of the training, unless its place is another one."""
    announced = announced.replace("500", "all")
    _, samples = read(lines("epoch: {n}, loss: {v}\n" + announced + "\nepoch: {n}, loss: 9.5", 20))
    assert [one.value for one in samples] == pytest.approx([3 - n / 20 for n in range(1, 21)])
    _, samples = read(lines(announced + "\nepoch: {n}, loss: {v}", 20))
    assert len(samples) == 20


def test_evaluation_within_an_epoch_is_none_of_the_training():
    """Below a heading, `88/88` behind `614/614` is other data; the steps are numbered through the epochs."""
    text = "".join(
        f"Epoch {e}/3\n"
        + "".join(f"step {i}/60 - loss: {4 - e - i / 60}\n" for i in (20, 40, 60))
        + "".join(f"step {i}/8 - loss: 9.5\n" for i in (4, 8))
        for e in (1, 2, 3)
    )
    _, samples = read(text)
    assert [one.step for one in samples] == [20, 40, 60, 80, 100, 120, 140, 160, 180]
    assert (samples[-1].total_steps, samples[-1].total_epochs) == (180, 3)


def test_stated_steps_of_an_epoch_are_no_total():
    """Where the steps begin anew in each epoch, a stated number of steps is the epoch's."""
    text = "Num Iters: 50\nEPOCHS: 4\n" + "".join(
        f"Epoch: [{e}], step: [{s}], avg_loss: {5 - e - s / 50}\n" for e in (1, 2, 3) for s in (10, 30, 50)
    )
    _, samples = read(text)
    assert (samples[-1].step, samples[-1].total_steps, samples[-1].total_epochs) == (150, 200, 4)


def test_steps_that_go_on_below_the_first_heading():
    """They count the training: the log, or what is left of it, began within an epoch."""
    text = lines("step: {n}/300 loss: {v}", 10) + "Epoch 5/5\n"
    text += "".join(f"step: {n}/300 loss: {2 - n / 300}\n" for n in range(11, 31))
    _, samples = read(text)
    assert (samples[-1].step, samples[-1].total_steps, samples[-1].epoch) == (30, 300, 5)


@pytest.mark.parametrize("per_epoch", [1, 5])
def test_steps_that_are_numbered_through_the_epochs(per_epoch):
    """`epoch: 3, iter: 150/10000` that goes on growing counts the training."""
    text = "".join(
        f"epoch: {(n - 1) // per_epoch + 1}, iter: {10 * n}/10000, loss: {4 - n / 20}\n" for n in range(1, 31)
    )
    _, samples = read(text)
    assert (samples[-1].step, samples[-1].total_steps) == (300, 10000)


@pytest.mark.parametrize(
    ("head", "epochs"),
    [
        ("Beginning training 40 epochs, logging every 1, saving every 50.", 40),
        ("开始训练 (40 epochs)...", 40),
        ("Epoch 1/40 (device=cuda)", 40),
        ("training waits (40 epochs without improvement)", None),
        ("config: {'trainer': {'max_epochs': 40, 'precision': 16}}", 40),
        ("config: {'model': {'depth': 3}, 'max_epochs': 40}", 40),
        ("efficiency ..... {'enabled': False, 'data_sampling': {'on': False, 'num_epochs': 1000}}", None),
        ("Start evaluating (total_samples: 40, total_iters: 40)", None),
    ],
)
def test_epochs_at_the_head(head, epochs):
    """It is understood in words and in a configuration; not that of patience, evaluation or a data set."""
    _, samples = read(head + "\n" + lines("epoch {n} loss: {v}"))
    assert samples[-1].total_epochs == epochs


@pytest.mark.parametrize(
    "line",
    [
        "[2026-05-12 12:09:42,781][solver][INFO] - Valid | Epoch {n} | 3/25 | 40 it/sec | Loss 0.5",
        "2026-05-12 12:09:42,781 - INFO - [Diff-Val(Test-Normal)] Epoch {n} (Deterministic): loss = 0.5",
        "- Eval metrics : loss: 0.5",
    ],
)
def test_line_of_other_data(line):
    """A line that begins with the name of other data is none of the training, behind any prefix."""
    form = "Train | Epoch {n} | 9/30 | 40 it/sec | Loss {v}\n" + line
    _, samples = read(lines(form))
    assert [one.value for one in samples] == [pytest.approx(3 - n / 20) for n in range(1, 31)]


def test_a_length_that_the_steps_have_passed_is_not_that_of_the_training():
    """`max_iterations: 20` counts something else where step 30 was trained."""
    reader, samples = read("max_iterations: 20\n" + lines("step {n} loss {v}"))
    assert (samples[-1].step, samples[-1].total_steps, reader.total) == (30, None, None)
