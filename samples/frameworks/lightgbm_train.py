"""LightGBM over made-up numbers. It knows nothing of specon."""

import argparse
import hashlib

import lightgbm
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=400)
options = parser.parse_args()

inputs = np.random.default_rng(0).normal(size=(2000, 16))
data = lightgbm.Dataset(inputs, np.sin(inputs.sum(axis=1)))
parameters = {"objective": "regression", "learning_rate": 0.05, "num_threads": 1, "verbosity": -1}
model = lightgbm.train(
    parameters,
    data,
    num_boost_round=options.rounds,
    valid_sets=[data],
    callbacks=[lightgbm.log_evaluation(50)],
)
print("rounds", model.current_iteration())
print("weights", hashlib.sha256(model.predict(inputs).tobytes()).hexdigest()[:16], flush=True)
