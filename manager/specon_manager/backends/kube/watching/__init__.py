"""The objects of the cluster: pods, their owners, nodes and volumes, as the core is told of them."""
