"""The parts of the documentation that are written by the code: `python -m specon_tools.documentation`."""
