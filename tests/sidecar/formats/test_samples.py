"""Each family's sample file is recognised and read, without any configuration."""

import math
import random
from pathlib import Path

import pytest

from specon_sidecar.following.lines import LineSplitter
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import FORMATS, make_reader

SAMPLES = Path(__file__).parent / "samples"
NAN = math.nan

# File, format, count, first and last (step, epoch, value), totals of steps and of epochs, metric, goal.
EXPECTED = [
    (
        "accuracy-only.log",
        "key-value",
        14,
        (None, 0.0, 0.2),
        (None, 13.0, 0.85),
        None,
        None,
        "train-accuracy",
        "max",
    ),
    (
        "chainer-log.json",
        "json-records",
        6,
        (626, 1.0, 5.5),
        (3756, 6.0, 2.25),
        None,
        None,
        "main/loss",
        "min",
    ),
    (
        "build-nanogpt.log",
        "build-nanogpt",
        60,
        (0, None, 10.75),
        (59, None, 7.0625),
        None,
        None,
        "loss",
        "min",
    ),
    (
        "pytorch-tutorial.log",
        "pytorch-tutorial",
        12,
        (1000, None, 2.9375),
        (12000, None, 2.25),
        None,
        None,
        "loss",
        "min",
    ),
    (
        "hash-header.log",
        "csv",
        20,
        (None, 0.0, 1.0994440809972745),
        (None, 19.0, 0.054972204),
        None,
        None,
        "Training Error",
        "min",
    ),
    (
        "iteration-error.log",
        "key-value",
        15,
        (100, None, 0.25),
        (1500, None, 0.016667),
        None,
        None,
        "Error",
        "min",
    ),
    (
        "loss-without-a-sign.log",
        "key-value",
        12,
        (None, 1.0, 0.734375),
        (None, 12.0, 0.5625),
        None,
        None,
        "loss",
        "min",
    ),
    (
        "parts-after-training.log",
        "key-value",
        8,
        (None, 0.0, 6.5),
        (None, 7.0, 4.75),
        None,
        None,
        "loss",
        "min",
    ),
    ("airflow.log", "keras", 4, (43, 1.0, 2.0833), (172, 4.0, 1.3889), 1032, 24, "loss", "min"),
    (
        "average-beside-parts.log",
        "key-value",
        8,
        (None, 0.0, 8.0),
        (None, 7.0, 0.3125),
        None,
        None,
        "avg_loss_new",
        "min",
    ),
    ("axolotl.log", "hugging-face", 5, (None, 0.01, 2.0833), (None, 0.05, 1.25), None, None, "loss", "min"),
    ("allennlp.log", "allennlp", 4, (5, 0.0, 2.5), (20, 3.0, 0.625), 45, 9, "loss", "min"),
    ("caffe.log", "caffe", 6, (0, None, 2.5), (500, None, 1.25), None, None, "loss", "min"),
    ("catboost.log", "catboost", 7, (0, None, 25.0), (6, None, 11.3636364), None, None, "learn", None),
    ("compose.log", "keras", 4, (43, 1.0, 2.0833), (172, 4.0, 1.3889), 172, 4, "loss", "min"),
    ("cri.log", "key-value", 6, (1, None, 2.08333), (6, None, 1.13636), 600, None, "loss", "min"),
    ("deepspeed.log", "deepspeed", 6, (10, None, 2.0833), (60, None, 1.1364), None, None, "loss", "min"),
    (
        "detectron2-metrics.json",
        "json-lines",
        4,
        (19, None, 2.100840336134454),
        (39, None, 1.7),
        None,
        None,
        "total_loss",
        "min",
    ),
    (
        "detectron2.log",
        "detectron2",
        7,
        (19, None, 2.1008),
        (99, None, 1.2563),
        None,
        None,
        "total_loss",
        "min",
    ),
    ("docker.json", "pytorch-mnist", 4, (0, 1.0, 2.083333), (1987, 2.0, 1.672212), None, None, "Loss", "min"),
    ("fairseq-json.log", "fairseq-json", 4, (200, 1.0, 6.083), (800, 1.0, 5.389), None, None, "loss", "min"),
    ("fairseq.log", "fairseq", 5, (1708, 2.0, 20833.333), (2308, 2.0, 17361.111), None, None, "loss", "min"),
    ("sockeye.log", "sockeye", 6, (50, 0.0, 50.0), (300, 1.0, 14.285714), None, None, "ppl", "min"),
    ("darknet.log", "darknet", 4, (1, None, 800.5), (4, None, 716.25), None, None, "avg loss", "min"),
    (
        "framed-records.log",
        "framed-records",
        4,
        (100, None, 21.5),
        (400, None, 80.5),
        None,
        None,
        "mean 100 episode reward",
        "max",
    ),
    ("lcurve.out", "columns", 5, (0, None, 8.0), (400, None, 0.5), None, None, "rmse_trn", "min"),
    ("yolov5.log", "yolov5", 3, (None, 0.0, 0.5), (None, 2.0, 0.125), None, 3, "sum of loss parts", "min"),
    ("fastai.log", "fastai", 5, (None, 0.0, 2.5), (None, 4.0, 1.388889), None, None, "train_loss", "min"),
    (
        "gluon-segmentation.log",
        "gluon-segmentation",
        6,
        (250, 0.0, 2.381),
        (4516, 1.0, 1.852),
        None,
        None,
        "training loss",
        "min",
    ),
    ("gluoncv-yolo.log", "gluon", 6, (99, 0.0, 209.681), (299, 1.0, 125.125), None, None, "ObjLoss", "min"),
    (
        "gluonnlp-bert.log",
        "key-value",
        6,
        (249, None, 9.77145),
        (1499, None, 8.82351),
        None,
        None,
        "sum of loss parts",
        "min",
    ),
    ("gluonnlp.log", "gluon", 6, (200, 0.0, 10.2727), (1200, 0.0, 9.5625), None, None, "loss", "min"),
    (
        "deeplearning4j.log",
        "deeplearning4j",
        6,
        (0, None, 2.5),
        (500, None, 0.3125),
        None,
        None,
        "loss",
        "min",
    ),
    ("gnmt.log", "gnmt", 6, (490, 0.0, 3.149), (1801, 1.0, 1.8248), None, None, "Loss/tok", "min"),
    ("hugectr.log", "hugectr", 7, (100, None, 0.166667), (700, None, 0.083333), None, None, "loss", "min"),
    (
        "hugging-face-4.log",
        "hugging-face",
        5,
        (10, 0.23, 2.0833),
        (50, 1.16, NAN),
        129,
        3,
        "loss",
        "min",
    ),
    (
        "hugging-face-5.log",
        "hugging-face",
        4,
        (None, 0.2326, 2.083),
        (None, 0.9302, 1.389),
        None,
        None,
        "loss",
        "min",
    ),
    (
        "keras-csvlogger.csv",
        "csv",
        5,
        (None, 0.0, 2.5),
        (None, 4.0, 1.3888888888888888),
        None,
        None,
        "loss",
        "min",
    ),
    ("keras2-unknown.log", "keras", 2, (4, 1.0, 1.3889), (8, 2.0, 0.9615), 8, 2, "loss", "min"),
    ("keras2-verbose2.log", "keras", 4, (43, 1.0, 2.0833), (172, 4.0, 1.3889), 1720, 40, "loss", "min"),
    ("keras2.log", "keras", 3, (43, 1.0, 2.0833), (129, 3.0, 1.5625), 129, 3, "loss", "min"),
    ("keras3-verbose2.log", "keras", 4, (43, 1.0, 2.0833), (172, 4.0, 1.3889), 172, 4, "loss", "min"),
    ("keras3.log", "keras", 3, (43, 1.0, 2.0833), (129, 3.0, 1.5625), 129, 3, "loss", "min"),
    ("key-value.log", "key-value", 7, (10, None, 2.08333), (70, None, 1.04167), 400, None, "loss", "min"),
    ("kubectl.log", "csv", 5, (10, 0.0, 2.0833333333333335), (50, 0.0, 1.25), None, None, "loss", "min"),
    (
        "likelihood.log",
        "key-value",
        6,
        (None, 0.0, -250000.0),
        (None, 5.0, -41666.66667),
        None,
        None,
        "Log-likelihood",
        "max",
    ),
    (
        "lightgbm.log",
        "lightgbm",
        7,
        (10, None, 208.3333),
        (70, None, 104.1667),
        None,
        None,
        "training's l2",
        "min",
    ),
    ("lightning-metrics.csv", "csv", 6, (9, 0.0, 2.5), (59, 1.0, 1.125), None, None, "train_loss", "min"),
    ("lightning.log", "progress-bar", 9, (0, 0.0, 2.5), (129, 2.0, 1.25), None, 3, "train_loss", "min"),
    ("llm.c-main.log", "llm.c", 7, (1, None, 10.0833), (7, None, 9.0417), None, None, "trl", "min"),
    (
        "llm.c-console.log",
        "llm.c-console",
        5,
        (1, None, 10.083333),
        (5, None, 9.25),
        19560,
        None,
        "loss",
        "min",
    ),
    (
        "maskrcnn-benchmark.log",
        "detectron2",
        6,
        (20, None, 2.0833),
        (120, None, 1.1364),
        None,
        None,
        "loss",
        "min",
    ),
    ("maxtext.log", "maxtext", 7, (0, None, 10.5), (6, None, NAN), None, None, "loss", "min"),
    ("megatron.log", "megatron", 6, (20, None, 9.785714), (70, None, 9.041667), 1000, None, "lm loss", "min"),
    ("timm.log", "timm", 6, (0, 0.0, 2.5), (2251, 1.0, 1.25), None, None, "Loss", "min"),
    (
        "paddle-detection.log",
        "paddle-detection",
        6,
        (0, 0.0, 2.5),
        (180, 1.0, 1.25),
        None,
        None,
        "loss",
        "min",
    ),
    ("marian.log", "marian", 6, (100, 1.0, 2.5), (600, 1.0, 1.25), None, None, "loss", "min"),
    ("espnet.log", "espnet", 6, (50, 1.0, 2.5), (300, 1.0, 1.25), None, 30, "loss", "min"),
    ("mlflow-loss", "mlflow", 6, (0, None, 2.5), (50, None, 1.25), None, None, "loss", "min"),
    ("mlperf.log", "mlperf", 4, (None, 1.0, 0.3), (None, 13.0, 0.6), None, None, "eval_accuracy", None),
    ("mmdetection.log", "mmdetection", 6, (50, 1.0, 2.0548), (1325, 2.0, 1.7241), 14100, 12, "loss", "min"),
    (
        "rllib-result.json",
        "json-lines",
        6,
        (4000, None, 24.5),
        (24000, None, 44.5),
        None,
        None,
        "env_runners/episode_return_mean",
        "max",
    ),
    ("nemo.log", "nemo", 6, (1, None, 2.5), (6, None, 1.111), 20, None, "reduced_train_loss", "min"),
    ("nemo-2.log", "nemo", 6, (0, None, 2.5), (5, None, 1.111), 99, None, "reduced_train_loss", "min"),
    ("minimind.log", "key-value", 8, (100, 1.0, 2.0), (800, 2.0, 0.8333), 800, 2, "loss", "min"),
    ("chinese.log", "key-value", 6, (None, 1.0, 2.5), (None, 6.0, 1.1111), None, 20, "train loss", "min"),
    (
        "cleanrl.log",
        "key-value",
        12,
        (512, None, 21.5),
        (6144, None, 38.0),
        None,
        None,
        "episodic_return",
        "max",
    ),
    ("tqdm-loggable.log", "key-value", 6, (0, None, 0.25), (500, None, 0.1111), 30000, None, "loss", "min"),
    (
        "trailing-tabs.txt",
        "csv",
        12,
        (None, None, 12.5),
        (None, None, 3.333333),
        None,
        None,
        "total loss",
        "min",
    ),
    (
        "stable-baselines3.log",
        "stable-baselines3",
        4,
        (2048, None, 21.1),
        (8192, None, 24.1),
        None,
        None,
        "ep_rew_mean",
        "max",
    ),
    (
        "deepspeed-chat.log",
        "deepspeed-chat",
        9,
        (236, 0.0, 0.236),
        (244, 0.0, 0.244),
        None,
        None,
        "average reward score",
        "max",
    ),
    (
        "mmengine-scalars.json",
        "json-lines",
        8,
        (10, 1.0, 2.0833333333333335),
        (80, 2.0, 0.9615384615384615),
        None,
        None,
        "loss",
        "min",
    ),
    ("mmengine.log", "mmengine", 8, (10, 1.0, 2.0056), (83, 2.0, 1.5762), None, None, "loss", "min"),
    (
        "modded-nanogpt-val.log",
        "modded-nanogpt",
        9,
        (0, None, 5.5),
        (1000, None, 3.9615),
        1393,
        None,
        "val_loss",
        "min",
    ),
    (
        "modded-nanogpt.log",
        "modded-nanogpt",
        7,
        (1, None, 5.0833),
        (7, None, 4.0417),
        6200,
        None,
        "train_loss",
        "min",
    ),
    (
        "mxnet-detection.log",
        "mxnet",
        6,
        (20, 3.0, 2.5),
        (60, 4.0, 0.3125),
        None,
        None,
        "Train-SmoothL1",
        "min",
    ),
    (
        "mxnet-old.log",
        "mxnet",
        4,
        (50, 0.0, 2.083333),
        (100, 1.0, 1.25),
        None,
        None,
        "Train-cross-entropy",
        "min",
    ),
    ("mxnet-ssd.log", "gluon-ssd", 4, (6400, 28.0, 1.096), (6460, 28.0, 1.091), None, None, "loss", "min"),
    ("mxnet.log", "mxnet", 6, (20, 0.0, 0.1245), (60, 1.0, 0.2285), None, None, "accuracy", "max"),
    ("nanogpt.log", "nanogpt", 6, (0, None, 2.5), (50, None, NAN), None, None, "loss", "min"),
    ("odd-numbers.log", "key-value", 6, (1, None, 0.9), (6, None, -7.5394e-05), None, None, "loss", "min"),
    ("olmo.log", "olmo", 5, (1, 0.0, 10.083), (5, 0.0, 9.25), 15000, None, "train/CrossEntropyLoss", "min"),
    ("opennmt.log", "opennmt", 6, (50, None, 11.08), (300, None, 10.14), 1000, None, "xent", "min"),
    ("osc.log", "key-value", 5, (1, None, 2.0833), (5, None, 1.25), None, None, "loss", "min"),
    ("paddleocr.log", "paddle", 6, (20, 1.0, 4.083333), (120, 1.0, 3.136364), None, 400, "loss", "min"),
    (
        "pytorch-cifar.log",
        "pytorch-cifar",
        12,
        (2000, 1.0, 2.027),
        (12000, 2.0, 1.562),
        None,
        None,
        "loss",
        "min",
    ),
    (
        "pytorch-imagenet.log",
        "pytorch-imagenet",
        8,
        (0, 0.0, 2.5),
        (982, 1.0, 1.6892),
        None,
        None,
        "Loss",
        "min",
    ),
    (
        "pytorch-mnist.log",
        "pytorch-mnist",
        9,
        (0, 1.0, 1.785714),
        (3974, 3.0, 1.046002),
        None,
        None,
        "Loss",
        "min",
    ),
    ("ranks-srun.log", "key-value", 5, (1, None, 5.0833), (5, None, 1.25), None, None, "loss", "min"),
    ("ranks-torchrun.log", "key-value", 5, (1, None, 5.0833), (5, None, 2.25), None, None, "loss", "min"),
    ("restart.log", "key-value", 8, (1, None, 2.0833), (6, None, 1.1374), None, None, "loss", "min"),
    (
        "scikit-learn-boosting.log",
        "scikit-learn-boosting",
        12,
        (1, None, 1.1859),
        (30, None, 0.1414),
        None,
        None,
        "Train Loss",
        "min",
    ),
    (
        "lightgbm-early.log",
        "lightgbm",
        11,
        (2, None, 0.296633),
        (22, None, 0.00133765),
        None,
        None,
        "training's binary_logloss",
        "min",
    ),
    (
        "scikit-learn-mlp.log",
        "scikit-learn",
        12,
        (1, None, 0.7152153),
        (12, None, 0.54308291),
        None,
        None,
        "loss",
        "min",
    ),
    ("spacy.log", "spacy", 6, (0, 0.0, 250.0), (500, 2.0, 125.0), None, None, "LOSS NER", "min"),
    (
        "tensorflow-estimator.log",
        "tensorflow-1",
        6,
        (0, None, 2.5),
        (500, None, 1.25),
        None,
        None,
        "loss",
        "min",
    ),
    (
        "tensorflow-slim.log",
        "tensorflow-1",
        6,
        (10, None, 2.0833),
        (60, None, 1.1364),
        None,
        None,
        "loss",
        "min",
    ),
    (
        "torchtune.log",
        "torchtune",
        6,
        (1, None, 2.0833333333333335),
        (6, None, 1.1363636363636362),
        None,
        None,
        "loss",
        "min",
    ),
    ("torchvision.log", "torchvision", 8, (0, 0.0, 2.5), (11, 1.0, 1.8293), None, None, "loss", "min"),
    ("tqdm.log", "progress-bar", 9, (0, 1.0, 1.5625), (129, 3.0, 0.8333), 645, 15, "loss", "min"),
    (
        "trainer_log.jsonl",
        "json-lines",
        6,
        (10, 0.02, 2.0833333333333335),
        (60, 0.12, 1.1363636363636362),
        11900,
        None,
        "loss",
        "min",
    ),
    (
        "trainer_state.json",
        "trainer-state",
        5,
        (10, 0.23, 2.0833),
        (50, 1.16, 1.1),
        129,
        3,
        "loss",
        "min",
    ),
    (
        "ultralytics-results.csv",
        "csv",
        5,
        (None, 0.0, 0.625),
        (None, 4.0, 0.58056),
        None,
        None,
        "sum of loss parts",
        "min",
    ),
    (
        "ultralytics.log",
        "ultralytics",
        3,
        (None, 1.0, 4.425),
        (None, 3.0, 3.904),
        None,
        300,
        "sum of loss parts",
        "min",
    ),
    ("xgboost-auc.log", "xgboost", 6, (0, None, 0.6), (5, None, 0.85), None, None, "validation_0-auc", "max"),
    (
        "xgboost.log",
        "xgboost",
        12,
        (0, None, 0.43225),
        (11, None, 0.03541),
        None,
        None,
        "train-logloss",
        "min",
    ),
    (
        "step-above.log",
        "key-value",
        6,
        (1, None, 2.5),
        (6, None, 0.3125),
        None,
        None,
        "batch loss",
        "min",
    ),
    (
        "yolov5-results.txt",
        "yolov5-results",
        6,
        (None, 0.0, 2.5),
        (None, 5.0, 0.3125),
        None,
        49,
        "loss",
        "min",
    ),
    ("tflearn.log", "tflearn", 14, (1, None, 2.5), (14, None, 0.84746), None, None, "loss", "min"),
    (
        "scikit-learn-kmeans.log",
        "scikit-learn-iterations",
        11,
        (0, None, 5000.0),
        (10, None, 2000.0),
        None,
        None,
        "inertia",
        "min",
    ),
    (
        "scikit-learn-tsne.log",
        "scikit-learn-iterations",
        9,
        (50, None, 80.0),
        (450, None, 36.3636364),
        None,
        None,
        "error",
        "min",
    ),
    (
        "r-nnet.log",
        "optimizer-iterations",
        12,
        (10, None, 100.0),
        (120, None, 37.735849),
        None,
        None,
        "loss",
        "min",
    ),
    (
        "liblinear.log",
        "optimizer-iterations",
        11,
        (1, None, 200.0),
        (11, None, 80.0),
        None,
        None,
        "loss",
        "min",
    ),
    (
        "char-rnn.log",
        "char-rnn",
        10,
        (1, 0.0, 4.0),
        (10, 0.009, 1.70212766),
        21150,
        None,
        "train_loss",
        "min",
    ),
    ("tacotron2.log", "tacotron2", 9, (0, 0.0, 20.0), (8, 0.0, 9.090909), None, None, "loss", "min"),
    ("wenet.log", "wenet", 10, (0, 0.0, 120.0), (900, 0.0, 51.06383), None, None, "loss", "min"),
    ("swin.log", "swin", 20, (0, 0.0, 7.0), (1900, 1.0, 1.8182), 300000, 300, "loss", "min"),
    ("openpcdet.log", "openpcdet", 10, (0, 1.0, 9.0), (450, 1.0, 3.83), 74240, 80, "loss", "min"),
    ("basicsr.log", "basicsr", 10, (10, 0.0, 0.1), (100, 0.0, 0.042553), None, None, "loss", "min"),
    ("baselines.log", "baselines", 4, (1024, None, 10.0), (4096, None, 17.5), None, None, "eprewmean", "max"),
    (
        "spinning-up.log",
        "spinning-up",
        5,
        (None, 0.0, 20.0),
        (None, 4.0, 69.2),
        None,
        None,
        "AverageEpRet",
        "max",
    ),
    (
        "baselines-ddpg.log",
        "baselines-off-policy",
        4,
        (2000, None, 20.5),
        (8000, None, 50.5),
        None,
        None,
        "rollout/return",
        "max",
    ),
]
# File, and what its verdict holds.
UNCLASSIFIABLE = [
    ("cyclegan.log", "GAN"),
    ("dcgan.log", "GAN"),
    ("actor-critic.log", "reinforcement learning"),
]
# File, a metric to name, count, first and last (step, value), goal.
NAMED = [
    ("cyclegan.log", "cycle_A", 7, (100, 2.083), (700, 1.042), None),
    ("stable-baselines3.log", "ep_rew_mean", 4, (2048, 21.1), (8192, 24.1), "max"),
    ("deepspeed-chat.log", "cri_loss", 10, (235, 0.127197265625), (244, 0.127197265625), "min"),
    ("keras2.log", "val_accuracy", 3, (43, 0.41), (129, 0.43), "max"),
    ("nanogpt.log", "val loss", 2, (0, 4.2823), (40, 3.3687), "min"),
    ("xgboost.log", "eval-auc", 12, (0, 0.99144), (11, 1.0), "max"),
    ("mmengine-scalars.json", "accuracy", 1, (1, 59.1), (1, 59.1), "max"),
    ("hugging-face-4.log", "eval_loss", 1, (None, 2.04), (None, 2.04), "min"),
    ("mxnet.log", "Validation-accuracy", 1, (None, 0.952927), (None, 0.952927), "max"),
]


def chunked(data, sizes):
    """Return the lines of `data`, fed in chunks of these sizes."""
    splitter, lines, start = LineSplitter(), [], 0
    while start < len(data):
        size = sizes()
        lines.append(splitter.feed(data[start : start + size]))
        start += size
    rest = splitter.flush()
    return [*lines, [rest] if rest else []]


def read(file, sizes=lambda: 65536, name="auto", **options):
    reader = make_reader(name, FormatOptions(**options))
    samples = [one for lines in chunked((SAMPLES / file).read_bytes(), sizes) for one in reader.read(lines)]
    return reader, samples + reader.finish()


def place(sample):
    return pytest.approx((sample.step, sample.epoch, sample.value), nan_ok=True)


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda one: one[0])
def test_sample(expected):
    """Format, count, first and last sample, totals, metric and goal are those of the file."""
    file, name, count, first, last, total, epochs, metric, goal = expected
    reader, samples = read(file)
    assert (reader.chosen, len(samples), reader.unclassifiable) == (name, count, None)
    assert first == place(samples[0])
    assert last == place(samples[-1])
    assert {one.name for one in samples} == {metric}
    assert (samples[-1].total_steps, samples[-1].total_epochs, reader.goal) == (total, epochs, goal)
    assert reader.evidence[0].format == name or reader.evidence[0].samples


@pytest.mark.parametrize("file", [one[0] for one in EXPECTED])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_chunks_do_not_matter(file, seed):
    """The samples are the same in whatever chunks the file is read."""
    generator = random.Random(seed)
    whole, pieces = read(file), read(file, lambda: generator.choice((1, 7, 100, 4096)))
    assert repr(pieces[1]) == repr(whole[1])
    assert pieces[0].chosen == whole[0].chosen


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda one: one[0])
def test_named_format_reads_the_same(expected):
    """A sidecar that takes up the name of the format reads what the detection read, or more at the head."""
    _, found = read(expected[0])
    _, named = read(expected[0], name=expected[1])
    assert repr(named[-len(found) :]) == repr(found)


@pytest.mark.parametrize(("file", "reason"), UNCLASSIFIABLE)
def test_unclassifiable(file, reason):
    """Losses that work against each other are refused with the reason."""
    reader, samples = read(file)
    assert samples == []
    assert reason in reader.unclassifiable


@pytest.mark.parametrize("expected", NAMED, ids=lambda one: one[0])
def test_named_metric(expected):
    """A metric that was named is followed, of validation and in refused logs too."""
    file, metric, count, first, last, goal = expected
    reader, samples = read(file, metric=metric)
    assert len(samples) == count
    assert (samples[0].step, samples[0].value) == first
    assert (samples[-1].step, samples[-1].value) == last
    assert (reader.goal, reader.unclassifiable) == (goal, None)


def test_goal_can_be_said():
    """A goal that was given counts, whatever the names say."""
    assert read("catboost.log", goal="max")[0].goal == "max"
    assert read("keras2.log", goal="max")[0].goal == "max"


def test_each_format_has_a_sample():
    """No format without a file that shows it, and no file without an expectation."""
    shown = {one[1] for one in EXPECTED} | {one[0].removesuffix(".log") for one in UNCLASSIFIABLE}
    assert set(FORMATS) - shown == {"regular-expression"}
    files = {path.name for path in SAMPLES.iterdir()}
    assert files == {one[0] for one in EXPECTED} | {one[0] for one in UNCLASSIFIABLE}
