"""How one begins: a job file or annotations, made from what is there already."""
