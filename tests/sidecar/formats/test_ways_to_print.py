"""Where scripts print the place of a value: within the pair, after "of", on a line of its own, in a table."""

import pytest

from specon_sidecar.following.lines import LineSplitter
from specon_sidecar.formats.metric_names import find_whole_loss, goal_of, is_validation
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.reward_names import is_return, is_reward
from specon_sidecar.formats.table import make_reader


def read(text, encoding="utf-8"):
    reader, splitter = make_reader("auto", FormatOptions()), LineSplitter()
    samples = reader.read(splitter.feed(text.encode(encoding)))
    rest = splitter.flush()
    return reader, [*samples, *reader.read([] if rest is None else [rest]), *reader.finish()]


def repeat(form, count=14):
    return "".join(form.format(n=n, m=100 * n, v=3 - n / 10, z=n - 1) for n in range(1, count + 1))


def place(sample):
    return sample.name, sample.step, sample.epoch, sample.total_steps, sample.total_epochs


@pytest.mark.parametrize(
    ("form", "last"),
    [
        ("Cost after iteration {m}: {v}\n", ("Cost", 1400, None, None, None)),
        ("Train | Epoch {n} | 143/573 | 1.3 it/sec | Loss {v}\n", ("Loss", 7592, 14, None, None)),
        ("Train Epoch: 1 [{m} / 2000] loss = {v}\n", ("loss", 1400, 1, None, None)),
        ("Epoch[3] Batch [0-{m}]\tSpeed: 25.0 samples/sec\tLoss={v}\n", ("Loss", 1400, 3, None, None)),
        ("iteration:3 step:{n}/29, NER loss:{v}\n", ("NER loss", 14, 3, 29, None)),
        ("Iteration: {m}\tError: {v}\n", ("Error", 1400, None, None, None)),
        ("Epoch {n}, loss {v}, train accuracy: 5{n}.2%\n", ("loss", None, 14, None, None)),
        ("Cost after epoch {n}: {v}\n", ("Cost", None, 14, None, None)),
        ("Training loss after epoch {n} is {v}\n", ("Training loss", None, 14, None, None)),
        ("Training loss (for one batch) at step {m}: {v}\n", ("Training loss", 1400, None, None, None)),
        ("loss at step {m}/9000 = {v}\n", ("loss", 1400, None, 9000, None)),
        ("loss of iteration {n} : {v}\n", ("loss", 14, None, None, None)),
        ("Epoch 3 Update {n} Cost {v} PD 0.9\n", ("Cost", 14, 3, None, None)),
        ("{n}/500 in 0 epoch finished, Loss is {v}\n", ("Loss", 14, None, 500, None)),
        ("Epoch {n} of 40: loss {v}\n", ("loss", None, 14, None, 40)),
        ("Finished Epoch[{n} of 40]: [Training] loss = {v} * 500\n", ("loss", None, 14, None, 40)),
        ("Epoch [{n}]/[40] \t Training Loss: {v}\n", ("Training Loss", None, 14, None, 40)),
        ("('Epoch', {n}, 'loss', {v})\n", ("loss", None, 14, None, None)),
        ("Step... ({m} | Loss: {v}, Learning Rate: 2e-05)\n", ("Loss", 1400, None, None, None)),
        ("step {n}/600 (epoch 1/10), loss = {v}\n", ("loss", 14, 1, 600, None)),
        ("Epoch {n} | Steps: 300 | Loss: {v}\n", ("Loss", None, 14, None, None)),
        (">>> iter {m} -> loss -> {v}\n", ("loss", 1400, None, None, None)),
        ("epoch: {n}, loss: [{v}/2.2], time: [4.1]\n", ("loss", None, 14, None, None)),
        ("Train loss {n} {v}\n", ("Train loss", None, None, None, None)),
        ("Generation {n}: best fitness: {v}, mean size: 3.5\n", ("best fitness", 14, None, None, None)),
        ("Epoch [{n}/40] Recon: {v} | KL: 3.5 | Phys: 0.1\n", ("Recon", None, 14, None, 40)),
        ("Process {m}/9000(3.1%) average objf: {v}, epoch 0\n", ("average objf", 1400, 0, None, None)),
        (
            " {m}/50000: episode: {n}, episode steps: 13, episode reward: {v}, loss: 7.5\n",
            ("episode reward", 1400, None, 50000, None),
        ),
        (
            "[batch={n}/4800]:\n\t lr: 0.1\n\t loss/train/total: {v}\n",
            ("loss/train/total", 14, None, 4800, None),
        ),
        (
            " *** Running generation {n} *** \n\nAverage fitness: {v}\n",
            ("Average fitness", 14, None, None, None),
        ),
        ("Epoch 2/9\n  Batch {n}/90\n    Loss: {v}\n", ("Loss", 104, 2, 810, 9)),
        ("iteration {n}\n       Mean reward:            {v}\n", ("Mean reward", 14, None, None, None)),
        ("frames: {m}, Avg episode reward: [(0, '{v}')]\n", ("Avg episode reward", None, None, None, None)),
        (" Finished Epoch[{n} of 40]: [Training] ce = {v} * 500; errs = 80.1%\n", ("ce", None, 14, None, 40)),
        ("Epoch: {n}, Train: 0.9, Val: 0.8, Test: 0.8, Loss: {v}\n", ("Loss", None, 14, None, None)),
        ("w1 Ep: {n} | Ep_r: {v}\n", ("Ep_r", None, 14, None, None)),
        ("Эпоха {n}/20: потери {v}\n", ("loss", None, 14, None, 20)),
        ("[{m}] learning_rate=0.1, train_loss={v}\n", ("train_loss", 1400, None, None, None)),
        ("| nupdates: {m} | lr: 0.1 | loss: {v} |\n", ("loss", 1400, None, None, None)),
        ("Current batch:{n}/200 loss:[ {v}]\n", ("loss", 14, None, None, None)),
        ("Época {n}/20 - Pérdida: {v}\n", ("loss", None, 14, None, 20)),
        ("Epoche {n}/20: loss = {v}\n", ("loss", None, 14, None, 20)),
        ("에폭 {n}/20 - 학습 손실: {v}, 검증 손실: 3.1\n", ("train loss", None, 14, None, 20)),
        ("Эпоха {n}/20, Loss: {v}\n", ("Loss", None, 14, None, 20)),
        ("2020-04-19 11:35:46,382 - root - Epoch{n} loss = {v}\n", ("loss", None, 14, None, None)),
        ("[  {m}] | gnorm 0.28 lr 0.1 | loss  {v}\n", ("loss", 1400, None, None, None)),
        ("Episode {n}/5000 | Epsilon: 0.9 | Steps: 1{n} | Loss: {v}\n", ("Loss", 14, None, 5000, None)),
        (
            "Epoch {n}/20 - Loss (total): {v} - A Loss: 0.1 - B Loss: 0.2\n",
            ("Loss (total)", None, 14, None, 20),
        ),
        (
            "[1, {n}] A loss (total): {v} - B Loss: 0.1 - C Loss: 0.2\n",
            ("A loss (total)", None, None, None, None),
        ),
        ("Loss at epoch {n} and iteration {m} is {v}\n", ("Loss", 1400, 14, None, None)),
        ("2019_11_09_15_34_13 [Epoch] {n} [Loss] loss_all {v}\n", ("loss_all", None, 14, None, None)),
        ("2019-11-09 15:34:13iters:{m}, loss:{v}, accuracy:0.9\n", ("loss", 1400, None, None, None)),
        ("{m} 5% (0m 7s) {v} Horigome / Japanese\n", ("loss", 1400, None, None, None)),
        (
            "{n}: 0.121626, {v} avg, 0.000010 rate, 0.196614 seconds, 6000 images\n",
            ("loss", 14, None, None, None),
        ),
        (
            '{{"train_loss": {v}, "test_bbox": [0.1, 0.2, 0.3, 0.4], "epoch": {n}}}\n',
            ("train_loss", None, 14, None, None),
        ),
        ("{n} epoch, loss: {v}\n", ("loss", None, 14, None, None)),
        ("第{n}轮 loss: {v}\n", ("loss", None, 14, None, None)),
        ("训练次数\N{FULLWIDTH COLON}{n}Loss:{v}\n", ("Loss", 14, None, None, None)),
        ("迭代次数: {n}, 损失: {v}\n", ("loss", 14, None, None, None)),
        ("epoch：{n}，loss：{v}\n", ("loss", None, 14, None, None)),  # noqa: RUF001 - as it is printed
        ("OrderedDict([('epoch', {n}), ('loss', {v})])\n", ("loss", None, 14, None, None)),
        ("{n:04d} | loss: {v} | acc 0.1\n", ("loss", 14, None, None, None)),
        (
            "average reward of last 100 episodes: {v} at episode {n}\n",
            ("average reward", 14, None, None, None),
        ),
        ("Game {n}, reward {v}\n", ("reward", 14, None, None, None)),
        ('{{"_step": {m}, "loss": {v}}}\n', ("loss", 1400, None, None, None)),
        (
            "Step: {m}. Time Elapsed: 3.1 s. Mean Reward: {v}. Training.\n",
            ("Mean Reward", 1400, None, None, None),
        ),
        ("Epoch: [{n}][10/90]    Time 0.3  Err {v}  top1  80.0\n", ("Err", 1180, 14, None, None)),
        ("Epoch {n}/14 Val steps: 2 1.23s loss: {v} val_loss: 3\n", ("loss", None, 14, None, 14)),
        ("epoch: {n}, (loss_avg_rank: {v}), (loss_avg_slice: 2)\n", ("loss_avg_rank", None, 14, None, None)),
        ("[1/200], [{n}/288], global_step: {m}, acc: 0.5, loss: {v}\n", ("loss", 1400, 1, None, 200)),
        ("Avg learning reward last 9 episodes: {v}\n", ("Avg learning reward", None, None, None, None)),
        ("epoch_{n} loss {v}\n", ("loss", None, 14, None, None)),
        ("Epoch-{n:03d}: loss={v}\n", ("loss", None, 14, None, None)),
        ("cur_epoch={n}, cur_step={m}, loss={v}\n", ("loss", 1400, 14, None, None)),
        ("meta_epoch {n} | train_iter {m} loss: {v}\n", ("loss", 1400, 14, None, None)),
        ("globalStep={m} loss={v}\n", ("loss", 1400, None, None, None)),
        ("epoch_out: {n}, epoch_in: 3, loss: {v}\n", ("loss", None, 14, None, None)),
        ("step {m}/9,000 | loss {v}\n", ("loss", 1400, None, 9000, None)),
        ("Total T: {m} Episode Num: {n} Episode T: 40 Reward: {v}\n", ("Reward", 1400, None, None, None)),
        ("Episode Num: {n} Reward: {v}\n", ("Reward", 14, None, None, None)),
        ("Timestep {m}: return {v}\n", ("return", 1400, None, None, None)),
        ("Epoch {n}/20 completed. Average loss: {v}\n", ("Average loss", None, 14, None, 20)),
        ("Epoch {n} done. Val. loss: 3.1, loss: {v}\n", ("loss", None, 14, None, None)),
        ("avg loss epoch {n}: {v}\n", ("avg loss", None, 14, None, None)),
        ("Loss (epoch {n}): {v}\n", ("Loss", None, 14, None, None)),
        ("Epoch {n} Error: {v}\n", ("Error", None, 14, None, None)),
        ("epoch {n} -ELBO: {v}\n", ("neg ELBO", None, 14, None, None)),
        ("iter {n} objective = {v}\n", ("objective", 14, None, None, None)),
        ("Epoch 20/{n}, Step 90/2, loss: {v}\n", ("loss", 90 * 13 + 2, 14, 1800, 20)),
        ("Epoch {n}: 100%|##| 9/9 [00:10<00:00, 1.9s/it, loss:{v}]\n", ("loss", 126, 14, None, None)),
    ],
)
def test_line(form, last):
    """The place of a value is found wherever the line prints it."""
    _, samples = read(repeat(form))
    assert place(samples[-1]) == last
    assert samples[-1].value == pytest.approx(1.6)


@pytest.mark.parametrize(
    ("form", "last"),
    [
        (
            "Updates {n}, num timesteps {m}, FPS 950 \n Last 9 training episodes: mean reward {v}, max 3.5\n",
            ("mean reward", 1400, None, None, None),
        ),
        (
            "Epoch {n}\n---\nloss: {v}  [64/30000]\nloss: {v}  [29000/30000]\nTest Error:\n Avg loss: 1.5\n",
            ("loss", 14 * 30000 - 1000, 14, None, None),
        ),
        ("Epoch {n} of 40 took 2.1s\n  training loss:\t{v}\n", ("training loss", None, 14, None, 40)),
        (
            "".join(
                f"2018-07-30 12:34:43,867:INFO: {text}\n"
                for text in ("Epoch {n}/40", "- Train metrics: loss: {v}", "- Eval metrics: loss: 3.1")
            ),
            ("loss", None, 14, None, 40),
        ),
        (
            "-" * 9 + "iteration {m}" + "-" * 9 + "50 left" + "-" * 9 + "\nloss:{v}\nbox:0.1\n",
            ("loss", 1400, None, None, None),
        ),
        (
            "[proc 0][Train] average pos_loss: 7\n[proc 0][Train] average loss: {v}\n",
            ("average loss", None, None, None, None),
        ),
        (
            "[epoch=2][batch={n}/20]:\n\t Train loss/train/total: {v}\n",
            ("Train loss/train/total", 34, 2, None, None),
        ),
        (
            "   --> STEP: {n}/20 -- GLOBAL_STEP: {m}\n     | > loss: {v}  (2.0)\n",
            ("loss", 1400, None, None, None),
        ),
        (
            "Starting iteration {n}\nAverage return per training episode: {v}\n",
            ("return per training episode", 14, None, None, None),
        ),
        (
            (
                "01/01/2022 10:00:00 - INFO - __main__ -   Epoch {n}\n"
                "01/01/2022 10:00:01 - INFO - __main__ - loss: {v}\n"
            ),
            ("loss", None, 14, None, None),
        ),
        (
            (
                "-----------------  -----\nevaluation/Returns     {v}\n"
                "Epoch              {n}\n-----------------  -----\n"
            ),
            ("evaluation/Returns", None, 14, None, None),
        ),
        ("Epoch {n} in 2.1 sec\nTraining loss {v}\n", ("Training loss", None, 14, None, None)),
        ("-" * 47 + "Iteration: {m}" + "-" * 47 + "\nLoss: {v}\n", ("Loss", 1400, None, None, None)),
        (
            "[03.24.23|09:56:11] Training epoch: {n}\n[03.24.23|09:56:31] \tmean_loss: {v}\n",
            ("mean_loss", None, 14, None, None),
        ),
        (
            "Start training epoch {n}, 50 iters per inner epoch.\nAveraged stats: loss: {v}\n",
            ("loss", None, 14, None, None),
        ),
        ("  Learning iteration {n}/1500\n Mean reward: {v}\n", ("Mean reward", 14, None, 1500, None)),
        ('{{\n "epoch": {n},\n "train_loss": {v}\n}},\n', ("train_loss", None, 14, None, None)),
        (
            "[NeMo I 2023-01-01 10:10:00 m.py:1] Step: {m}\n[NeMo I 2023-01-01 10:10:00] Loss: {v}\n",
            ("Loss", 1400, None, None, None),
        ),
    ],
)
def test_lines(form, last):
    """A line of its own places the value below it."""
    assert place(read(repeat(form))[1][-1]) == last


@pytest.mark.parametrize(
    ("head", "row", "last"),
    [
        (
            "| Epoch | Training Loss | Validation Loss |\n|---|---|---|\n",
            "| {n} | {v} | 3.1 |\n",
            ("Training Loss", None, 14, None, None),
        ),
        (
            "| Epoch | Iteration | Mini-batch | Mini-batch |\n| | | Accuracy | Loss |\n|====|\n",
            "|  {n}  |  {m}  |  12.50%  |  {v}  |\n",
            ("Mini-batch Loss", 1400, 14, None, None),
        ),
        (
            "  epoch    trn loss    val loss    dur\n-------  ----------  ----------  -----\n",
            "  {n}    {v}    3.1    1.2s\n",
            ("trn loss", None, 14, None, None),
        ),
        (",loss,acc\n", "{z},{v},0.5\n", ("loss", 13, None, None, None)),
        (",epoch,loss\n", "{z},{n},{v}\n", ("loss", None, 14, None, None)),
        ("Epoch | Train Loss | Val Loss\n", "{n} | {v} | 3\n", ("Train Loss", None, 14, None, None)),
        (
            "Step      Train loss              Test loss               Test metric\n",
            "{m}       [{v}e+00, 0.00e-01]     [1.1e+00, 2.00e-01]     []  \n",
            ("loss_train", 1400, None, None, None),
        ),
        ("# Epoch batch       loss      loss_f\n", "  {n}   {m}   {v}   3\n", ("loss", 1400, 14, None, None)),
        ("iter      cost\n", "{n}   {v}\n", ("cost", 14, None, None, None)),
        ("total_steps,episode_return\n", "{m},{v}\n", ("episode_return", 1400, None, None, None)),
        ("episode_reward,frame\n", "{v},{m}\n", ("episode_reward", 1400, None, None, None)),
        ("episode,score\n", "{n},{v}\n", ("score", 14, None, None, None)),
        ("iter   tr_logloss   va_logloss\n", "{n}   {v}   3.1\n", ("tr_logloss", 14, None, None, None)),
    ],
)
def test_table(head, row, last):
    """Tables in frames, under two lines of heading, or with names of two words are read."""
    assert place(read(head + repeat(row))[1][-1]) == last


def test_bar_without_a_frame():
    """The bar behind a record may have no frame, as notebooks write it."""
    _, samples = read(repeat("{{'loss': {v}, 'epoch': 0.{n}}}\n  1% {m}/9000 [00:10<14:00, 1.57it/s]\n"))
    assert place(samples[-1])[1:4:2] == (1400, 9000)


def test_bar_that_a_stated_total_confirms():
    """A bar as long as the stated training is not that of an epoch, though the epochs have headings."""
    head = "num epochs / epoch数: 4\ntotal optimization steps / 学習ステップ数: 1600\nepoch 1/4\n"
    bars = repeat("\rsteps:   1%|1    | {m}/1600 [00:10<25:10, 1.0it/s, avr_loss={v}]")
    assert place(read(head + bars + "\n")[1][-1]) == ("avr_loss", 1400, 1, 1600, 4)


def test_total_where_the_training_begins():
    """`Starting training..., iters: 1000` says how long it is."""
    reader, _ = read("Starting training..., iters: 1000\n" + repeat("Iter {m}: Train loss {v}\n", 9))
    assert reader.total.steps == 1000


@pytest.mark.parametrize(
    ("head", "epochs"),
    [
        ("Epochs:  21%|##   | 26/126 [11:36<40:07, 24.07s/it]\n", 126),
        ("epoches number: 100\n", 100),
    ],
)
def test_epochs_on_a_line_of_their_own(head, epochs):
    """A bar named for the epochs says how many there are; a single one's bar has its steps."""
    assert read(head + repeat("epoch {n}, loss {v}\n"))[0].total.epochs == epochs
    assert (
        read("Epoch:  21%|##   | 26/126 [11:36<40:07]\n" + repeat("epoch {n}, loss {v}\n"))[0].total is None
    )


def test_one_step_and_one_line_of_each_epoch():
    """A step that is the same in each epoch places nothing; the epochs' own lines are followed."""
    reader, samples = read(repeat("  step 100/150  loss=5.{n}\n  Epoch {n}: loss={v}, acc=0.1\n"))
    assert {place(one)[1] for one in samples} == {None}
    assert (samples[-1].epoch, samples[-1].value, reader.total) == (14, 1.6, None)


def test_results_behind_the_last_epoch():
    """What is printed of the finished model is none of its training."""
    _, samples = read(repeat("Epoch: {n}, loss: {v}\n") + "Results:\n- test data:\n   - loss -> 0.2\n")
    assert (len(samples), samples[-1].epoch) == (14, 14)


def test_counter_that_two_loggers_print():
    """A line that comes twice with the same counter and value counts once."""
    twice = "INFO:tensorflow:[{m}] | loss  {v}\nI1214 15:23:46.103303 1393 train.py:298] [{m}] | loss  {v}\n"
    _, samples = read(repeat(twice))
    assert [one.step for one in samples] == [100 * n for n in range(1, 15)]


def test_progress_of_baselines():
    """The table of Baselines' DQN has a column `% time spent exploring`."""
    head = "episodes,mean 100 episode reward,% time spent exploring\n"
    reader, samples = read(head + repeat("{m},-{v},99\n"))
    assert (samples[-1].name, samples[-1].step, reader.goal) == ("mean 100 episode reward", 1400, "max")


def test_length_in_capitals():
    """`MAX_ITER: 60000` of a configuration is the length."""
    reader, _ = read("  MAX_ITER: 60000\n" + repeat("iter: {m}  loss: {v}\n"))
    assert reader.total.steps == 60000


@pytest.mark.parametrize(
    ("head", "steps", "epochs"),
    [
        ("trainer.max_steps: 5000\n", 5000, None),
        ("--train_iters=5000\n", 5000, None),
        ("  train_iters ..................................... 5000\n", 5000, None),
        ("The training runs 5000 steps in total\n", 5000, None),
        ("val.max_steps: 5000\n", None, None),
        ("warmup: 5000 steps in total\n", None, None),
        ("num_train_epochs=50.0\n", None, 50),
        ("TRAIN.EPOCHS: 50\n", None, 50),
        ("nb_epoch: 50\n", None, 50),
        ("num_of_epochs: 50\n", None, 50),
        ("end_epoch: 50\n", None, 50),
        ("End epoch: 50\n", None, None),
        ("num_epochs=50.5\n", None, None),
        ("Training model with 50 epochs\n", None, 50),
        ("Start training, 50 epochs in total\n", None, 50),
        ("Training with 50 epochs of patience\n", None, None),
    ],
)
def test_length(head, steps, epochs):
    """The length of a training is found where a configuration or a sentence states it, and only there."""
    total = read(head + repeat("Epoch {n} step {m} loss {v}\n"))[0].total
    assert (total and total.steps, total and total.epochs) == (steps, epochs)


@pytest.mark.parametrize(
    ("head", "row", "steps"),
    [
        ("num_episodes: 500\n", "Episode {n} reward {v}\n", 500),
        ("Namespace(total_timesteps=9000)\n", "timesteps {m} reward {v}\n", 9000),
        ("Training for 500 rounds\n", "[Round {n}] loss: {v}\n", 500),
        ("num_episodes: 500\n", "step {n} reward {v}\n", None),
        ('{{"training_iteration": 101}}\n', "step {n} loss {v}\n", None),
        ('{"training_iteration": 9, "config": {"training_iterations": 500}}\n', "step {n} loss {v}\n", None),
        ("n_steps: 2048\n", "step {n} loss {v}\n", None),
        ("Average reward for 100 episodes is good\n", "Episode {n} reward {v}\n", None),
        ("Total episodes: 20\nTotal episodes: 30\n", "Episode {n} reward {v}\n", None),
        ("Training until scores don't improve for 100 rounds\n", "Round {n} loss: {v}\n", None),
        ("training_steps=5000\n", "step {n} loss {v}\n", 5000),
        ("n_iters: 5000\n", "iter {n} loss {v}\n", 5000),
        ("5000 steps total\n", "step {n} loss {v}\n", 5000),
    ],
)
def test_length_in_the_unit_of_the_lines(head, row, steps):
    """A number of episodes is the total of lines that count episodes, and of no others."""
    total = read(head + repeat(row))[0].total
    assert (total and total.steps) == steps
    assert total is None or total.source.startswith("the line ")


def test_length_that_was_reckoned():
    """What the program reckoned from its configuration counts more than that."""
    head = "Namespace(max_iterations=50000)\n125 iterations per epoch. 12500 max iterations \n"
    assert read(head + repeat("iteration {m} : loss : {v}\n"))[0].total.steps == 12500


def test_parts_on_other_lines_replace_no_loss():
    """A line with the parts of another stage does not end the series of a loss that was long followed."""
    _, samples = read(repeat("step {n} Coder Loss: {v}\n") + "step 15 A Loss: 7 - B Loss: 8\n")
    assert {one.name for one in samples} == {"Coder Loss"}
    assert samples[-1].step == 14


def test_two_rows_with_steps_are_enough_at_the_end():
    """A short table of losses with steps is one of a training."""
    _, samples = read("_step,train/loss,train/global_step\n0,1.15,500\n1,0.91,1000\n")
    assert [one.step for one in samples] == [500, 1000]


def test_layers_of_darknet_are_no_series():
    """What Darknet prints of its layers many times an iteration is not followed."""
    layer = "v3 (mse loss, Normalizer: (iou: 0.75)) Region 82 Avg (IOU: 0.5), count: 4, total_loss = {v}\n"
    log = "".join(
        repeat(layer, 40) + f" {n}: {3 - n / 10}, {3.1 - n / 10} avg loss, 0.001 rate, 1.2 seconds\n"
        for n in range(1, 9)
    )
    reader, samples = read(log)
    assert (reader.chosen, {one.name for one in samples}, samples[-1].step) == ("darknet", {"avg loss"}, 8)


def test_loop_that_goes_on_behind_its_length():
    """A step beyond the length of its epoch is not taken for a fraction that is turned round."""
    _, samples = read("".join(f"epoch=0 i={n}/20 loss={3 - n / 10}\n" for n in range(30)))
    assert (samples[-1].step, samples[-1].epoch) == (29, 0)


def test_goal_of_a_bound():
    """A bound of the evidence grows, and with its sign turned falls; of an objective nobody knows."""
    names = ("ELBO", "train_elbo", "neg_elbo", "nelbo", "negative ELBO", "objective")
    assert [goal_of(name) for name in names] == ["max", "max", "min", "min", "min", None]


def test_names():
    """What names of the whole, of rewards and of other data say."""
    assert find_whole_loss(["loss_vae", "loss_recon", "loss_kl"]) == "loss_vae"
    assert find_whole_loss(["loss_box", "loss_cls", "loss_obj"]) is None
    assert is_reward("episode/score")
    assert is_reward("AverageReturn")
    assert is_reward("episode_return")
    assert not is_reward("avg_return_temp")
    assert not is_reward("return value")
    assert is_return("Average Score")
    assert not is_return("score of the model")
    assert is_validation("va_logloss")
    assert goal_of("AverageEpRet") == "max"


def test_score_of_episodes_is_the_reward():
    """Where episodes are counted, their score is followed, and not the loss beside it."""
    reader, samples = read(repeat("Episode {n}\tAverage Score: {n}.5\tLoss: {v}\n"))
    assert (samples[-1].name, samples[-1].step, reader.goal) == ("Average Score", 14, "max")


def test_losses_of_a_policy_are_not_summed():
    """The parts of a policy and its critic are no loss together, whatever stands before their names."""
    reader, samples = read(repeat("[{m}] train/loss/policy -0.1{n} / train/loss/value {v}\n", 20))
    assert not samples
    assert "reinforcement" in reader.unclassifiable


def test_steps_of_an_iteration():
    """`iteration` counts as an epoch where the steps of each begin anew."""
    text = "".join(
        f"iteration:{n} step:{i}/29, NER loss:{30 - n - i / 29}\n" for n in (1, 2, 3) for i in (10, 20)
    )
    assert place(read(text)[1][-1]) == ("NER loss", 78, 3, None, None)


def test_counter_below_the_heading_of_an_epoch():
    """`(21/62)` counts the batches of an epoch that stands above; what grows with epochs alone does not."""
    text = "".join(
        f"Epoch: [{n} | 600]\n"
        + "".join(f"({i}/62) Batch: 2.7s | Loss: {3 - n / 9 - i / 99}\n" for i in (1, 21, 41))
        for n in range(1, 5)
    )
    assert place(read(text)[1][-1]) == ("Loss", 3 * 62 + 41, 4, 37200, 600)
    text = "".join(f"Epoch {n}\n({n}/62) Batch: 2.7s | Loss: {3 - n / 9}\n" for n in range(1, 15))
    assert place(read(text)[1][-1])[1:3] == (None, 14)


def test_better_name_that_passes_replaces_nothing():
    """A name of one line within a series of many is no better one; one that stays is."""
    series = "".join(f"Epoch {n}\tmean_loss: {3 - n / 40}\n" for n in range(40))
    at = series.index("Epoch 30")
    assert {one.name for one in read(series[:at] + "Iter 0 | loss: 1.4\n" + series[at:])[1]} == {"mean_loss"}
    better = "".join(f"Epoch {n}\tloss: {3 - n / 40}\n" for n in range(40, 50))
    assert read(series + better)[1][-1].name == "loss"


def test_rewards_without_a_place_must_rise():
    """As scores must: else they are those of anything. A plain name is that of the training."""
    assert len(read("".join(f"Reward: 0.{n * 7 % 10}\n" for n in range(300)))[1]) == 300
    assert read("".join(f"RND REWARD: 0.{n * 7 % 10}\n" for n in range(300)))[1] == []
    assert read("".join(f"RND REWARD: {n}.5\n" for n in range(300)))[1][-1].name == "RND REWARD"


def test_adversarial_losses_are_refused():
    """Those of two sides, by whatever letters."""
    text = "".join(
        f"[iter {n}] d_adv_loss: 0.{n}  f_cyc_loss: 3.{n}  f_adv_loss: 2.{n}\n" for n in range(10, 40)
    )
    reader, samples = read(text)
    assert samples == []
    assert "GAN" in reader.unclassifiable
    for form in (
        "loss_discriminator: 0.6, loss_generator: {v}",
        "Loss D: 0.6, Loss G: {v}",
        "dis_loss: 0.6, gen_loss: {v}",
        "d_A_loss: 0.6, d_B_loss: 0.5, g_loss: {v}",
        "loss_D_A: 0.6, loss_D_B: 0.5, loss_G_A: {v}",
    ):
        reader, samples = read(repeat(f"epoch {{n}}: {form}\n"))
        assert samples == []
        assert "GAN" in reader.unclassifiable
    for one in ("Loss scale: {v}", "Loss Discriminator: {v}, Loss Encoder: 0.5"):
        assert read(repeat(f"epoch {{n}}: {one}\n"))[1] == []


def test_a_loss_behind_a_score_belongs_to_it():
    """Before it a loss without a sign is what trains."""
    for form in (
        "Epoch {n}: accuracy: 0.{n}, early stopping loss 3\n",
        "epoch {n} acc: 0.{n} (previous loss 5.0)\n",
    ):
        text = "".join(form.format(n=n) for n in range(10, 40))
        assert read(text)[1][-1].name.startswith("acc")
    text = "".join(f"Epoch {n}, loss 0.{90 - n}, accuracy: {n}%\n" for n in range(10, 40))
    assert read(text)[1][-1].name == "loss"


def test_printed_records_of_json_are_no_list():
    """They are read as before, key by key, behind whatever stands before the brace; a restart is seen."""
    record = '{{\n    "epoch": {n},\n    "loss": {v}\n}}\n'
    for before in ("", "INFO:root:", "Epoch {n}: ", "metrics = "):
        samples = read(repeat(before + record))[1]
        assert len(samples) >= 13
    text = "".join(f'{{\n  "step": {n},\n  "loss": {9 / n}\n}}\n' for n in (*range(1, 300), *range(100, 400)))
    assert len(read(text)[1]) > 500


def test_record_within_a_record():
    """The inner one is named by its key; a list of them is a series."""
    inner = '    {{\n      "train": {{\n        "loss": {v}\n      }},\n      "epoch": {n}\n    }},\n'
    samples = read('{\n  "history": [\n' + repeat(inner) + "  ]\n}\n")[1]
    assert (len(samples), *place(samples[-1])) == (14, "train/loss", None, 14, None, None)


def test_steps_of_all_episodes():
    """Beside how many episodes there were, the steps are those of all; beside one of them, its length."""
    rows = "".join(
        f"| episodes | {n} |\n| reward | {n}.5 |\n| steps | {9 * n} |\n------\n" for n in range(1, 15)
    )
    assert read("------\n" + rows)[1][-1].step == 126
    assert read(repeat("episode {n}, steps {m}, reward {v}\n"))[1][-1].step == 14


def test_halves_of_a_score_stand_behind_it():
    """Precision grows at the price of recall."""
    text = "".join(f"epoch {n} precision: 0.{50 + n}, recall: 0.4, fscore: 0.{30 + n}\n" for n in range(20))
    assert read(text)[1][-1].name == "fscore"


@pytest.mark.parametrize(
    ("name", "goal"), [("Best_Fitness", "max"), ("objf", "max"), ("Recon", "min"), ("train BCE", "min")]
)
def test_names_without_loss(name, goal):
    """What evolution, Kaldi and autoencoders print says which way is better."""
    assert goal_of(name) == goal


def test_score_of_all_classes_is_followed():
    """Those of one class each stand behind it, wherever it stands."""
    form = "epoch {n}\naccuracy of cats: 0.9{n}\naccuracy of dogs: 0.8{n}\nmean acc: 0.7{n}\n"
    assert read(repeat(form))[1][-1].name == "mean acc"
    assert read(repeat("epoch {n} car iou: 0.9{n}, iou: 0.7{n}\n"))[1][-1].name == "iou"


def test_a_log_in_gb_18030():
    """Chinese systems that do not write UTF-8."""
    form = "当前Batch\N{FULLWIDTH COLON}{n}/60 | 当前epoch:1/5 | 当前损失值\N{FULLWIDTH COLON}{v}\n"
    _, samples = read(repeat(form), "gb18030")
    assert (samples[-1].value, place(samples[-1])[1:]) == (1.6, (14, 1, 300, 5))


def test_yolo_v3_has_a_part_of_another_name():
    """Its `total` is the sum of all three parts."""
    text = "     Epoch   gpu_mem      GIoU       obj       cls     total   targets  img_size\n"
    row = (
        "\r  {n}/29        0G      {v}      0.125    0.0625    3.1    9    64: 100%|###| 4/4 [00:02<00:00]\n"
    )
    reader, samples = read(text + repeat(row))
    assert (reader.chosen, len(samples)) == ("yolov5", 14)
    assert (samples[-1].value, samples[-1].epoch) == (pytest.approx(1.7875), 14)
