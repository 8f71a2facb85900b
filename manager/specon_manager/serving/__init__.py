"""What wires the product: a local session, a manager of a cluster and its term of leadership."""
