"""How one begins: a job file or annotations, made from the files that are there."""
