"""Logs of TensorFlow 1, Caffe, scikit-learn and HugeCTR."""

from typing import Final

from specon_sidecar.formats.family import NUM, Family

CLASSIC: Final = (
    Family(
        name="tensorflow-1",
        writers="TensorFlow 1: Estimator and slim",
        needles=(b"loss = ", b"step"),
        line=r"^\s*(?:loss = " + NUM + r", step = (?P<step>\d+)|global step (?P<i>\d+): loss = )",
        also=r"^\s*Saving dict for global step (?P<eval_step>\d+): ",
    ),
    Family(
        name="caffe",
        writers="Caffe",
        needles=(b"solver.cpp:", b"Iteration ", b"loss = "),
        line=r"^\s*Iteration (?P<step>\d+)(?: \(.{1,60}\))?, loss = (?P<value>" + NUM + r")",
    ),
    Family(
        name="scikit-learn",
        writers="scikit-learn's MLP and SGD estimators, verbose=1",
        needles=(b"Iteration ", b"loss = "),
        line=r"^\s*Iteration (?P<step>\d+), loss = (?P<value>" + NUM + r")",
    ),
    Family(
        name="scikit-learn-iterations",
        writers="scikit-learn's KMeans and t-SNE, verbose",
        needles=(b"Iteration ",),
        line=r"^\s*(?:\[t-SNE\] )?Iteration (?P<step>\d+)(?:, (?=inertia)|: (?=error))"
        r"(?P<name>inertia|error)(?: =)? (?P<value>" + NUM + r")",
        metrics=("inertia", "error"),
    ),
    Family(
        name="optimizer-iterations",
        writers="R's nnet and optim, LIBLINEAR (its f is the loss)",
        needles=(b"iter ",),
        line=r"^\s*iter +(?P<step>\d+) (?:value|(?:act .{1,60}? )?f) (?P<value>" + NUM + r")(?:$| \|g\|)",
    ),
    Family(
        name="tflearn",
        writers="TFLearn",
        needles=(b"Training Step: ", b"total loss: "),
        line=r"^Training Step: (?P<step>\d+) +\| total loss: (?P<value>" + NUM + r")",
    ),
    Family(
        name="hugectr",
        writers="HugeCTR",
        needles=(b"Iter: ", b"Loss: "),
        line=r"\bIter: (?P<step>\d+) Time\(.{1,40}\): \S+ Loss: (?P<value>" + NUM + r")",
    ),
    Family(
        name="deeplearning4j",
        writers="Deeplearning4j's ScoreIterationListener (its score is the loss)",
        needles=(b"Score at iteration ",),
        line=r"\bScore at iteration (?P<step>\d+) is (?P<value>" + NUM + r")",
    ),
)
