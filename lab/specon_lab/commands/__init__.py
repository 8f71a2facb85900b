"""The commands of the lab: `specon simulate`, `specon reproduce`, `specon what-if`."""
