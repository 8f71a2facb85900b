"""XGBoost over made-up numbers. It knows nothing of specon."""

import argparse
import hashlib

import numpy as np
import xgboost

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=400)
options = parser.parse_args()

inputs = np.random.default_rng(0).normal(size=(2000, 16))
data = xgboost.DMatrix(inputs, np.sin(inputs.sum(axis=1)))
parameters = {"max_depth": 4, "eta": 0.05, "nthread": 1, "objective": "reg:squarederror"}
model = xgboost.train(
    parameters, data, num_boost_round=options.rounds, evals=[(data, "train")], verbose_eval=50
)
print("rounds", model.num_boosted_rounds())
print("weights", hashlib.sha256(model.predict(data).tobytes()).hexdigest()[:16], flush=True)
