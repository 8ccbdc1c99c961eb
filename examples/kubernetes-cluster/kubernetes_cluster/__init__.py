"""The parts of the Kubernetes cluster that `cluster.py` starts."""
