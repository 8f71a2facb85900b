"""The manager of specon: receives reports, decides, moves converged jobs, proves that they resumed."""

__version__ = "0.2.0"
