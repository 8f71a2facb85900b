"""Hugging Face's Trainer on a small GPT-2 over made-up text. It knows nothing of specon."""

import argparse
import hashlib

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class Text(torch.utils.data.Dataset):
    """Sequences in which each token follows from the one before, most of the time."""

    def __init__(self, count: int = 512, length: int = 24) -> None:
        generator = torch.Generator().manual_seed(0)
        tokens = torch.randint(0, 48, (count, length), generator=generator)
        noise = torch.rand((count, length), generator=generator) < 0.1
        for at in range(1, length):
            tokens[:, at] = torch.where(noise[:, at], tokens[:, at], (tokens[:, at - 1] * 5 + 7) % 48)
        self.tokens = tokens

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


parser = argparse.ArgumentParser()
parser.add_argument("--out", default="out")
parser.add_argument("--steps", type=int, default=400)
options = parser.parse_args()

torch.set_num_threads(1)
set_seed(1)
model = GPT2LMHeadModel(
    GPT2Config(vocab_size=48, n_positions=24, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
)
trainer = Trainer(
    model=model,
    train_dataset=Text(),
    args=TrainingArguments(
        output_dir=options.out,
        max_steps=options.steps,
        per_device_train_batch_size=8,
        learning_rate=1e-3,
        logging_steps=10,
        save_steps=1000,
        full_determinism=True,
        report_to="none",
        disable_tqdm=True,
    ),
)
trainer.train()
weights = b"".join(value.cpu().numpy().tobytes() for value in model.state_dict().values())
print("weights", hashlib.sha256(weights).hexdigest()[:16], flush=True)
