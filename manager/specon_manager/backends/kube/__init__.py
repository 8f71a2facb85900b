"""A Kubernetes cluster, 1.30 or later: pods belong to their owners, are observed and moved one by one."""
