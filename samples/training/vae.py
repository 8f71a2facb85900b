"""Variational autoencoder (Kingma and Welling, 2014); loss: reconstruction and KL divergence."""

from signals import REQUESTS  # first of all: it installs the signal handlers

# isort: split
import digits
import loop
import torch
from arguments import Defaults
from torch import Generator, Tensor, nn
from torch.nn import functional
from training import Trainable

DEFAULTS = Defaults(steps=400, batch_size=512, hidden=768, learning_rate=1e-3)
LATENT = 16


class VariationalAutoencoder(Trainable):
    """Two-layer encoder to a normal distribution, two-layer decoder to one Bernoulli per pixel."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(digits.PIXELS, hidden), nn.ReLU(), nn.Linear(hidden, 2 * LATENT)
        )
        self.decoder = nn.Sequential(nn.Linear(LATENT, hidden), nn.ReLU(), nn.Linear(hidden, digits.PIXELS))

    def loss(self, images: Tensor, labels: Tensor, generator: Generator) -> Tensor:
        """Negative evidence lower bound, in nats per image."""
        del labels  # it learns without them
        pixels = images.flatten(1)
        mean, log_variance = self.encoder(pixels).chunk(2, dim=1)
        noise = torch.randn(mean.shape, generator=generator)
        decoded = self.decoder(mean + noise * (log_variance / 2).exp())
        reconstruction = functional.binary_cross_entropy_with_logits(decoded, pixels, reduction="sum")
        divergence: Tensor = (log_variance.exp() + mean.square() - 1 - log_variance).sum() / 2
        return (reconstruction + divergence) / len(images)


if __name__ == "__main__":
    loop.main("vae", VariationalAutoencoder, DEFAULTS, REQUESTS)
