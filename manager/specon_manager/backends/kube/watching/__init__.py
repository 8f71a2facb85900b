"""What is there: pods, their owners, nodes and volumes, as the core is told of them."""
