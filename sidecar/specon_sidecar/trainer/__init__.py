"""The trainer's process: found in the pod, observed and signalled."""
