"""The manager of specon: receives reports, decides, moves converged jobs, proves that they resumed."""
