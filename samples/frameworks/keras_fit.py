"""Keras 3 on a small network over made-up numbers. It knows nothing of specon."""

import argparse
import hashlib
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
options = parser.parse_args()

keras.utils.set_random_seed(1)
inputs = np.random.default_rng(0).normal(size=(800, 16)).astype("float32")
targets = np.sin(inputs.sum(axis=1, keepdims=True))
model = keras.Sequential(
    [
        keras.Input((16,)),
        keras.layers.Dense(64, activation="tanh"),
        keras.layers.Dropout(0.1),
        keras.layers.Dense(1),
    ]
)
model.compile(optimizer="adam", loss="mse")
model.fit(inputs, targets, batch_size=8, epochs=options.epochs, verbose=2)
weights = b"".join(np.asarray(value).tobytes() for value in model.get_weights())
print("weights", hashlib.sha256(weights).hexdigest()[:16], flush=True)
