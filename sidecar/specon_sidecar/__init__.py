"""The sidecar of specon: follows a training log and says whether the job still grows."""
