"""The program of the master's pod: it runs tfapp.master with pods as its containers.

Standard library, gRPC and the parts of tfapp that travel: a user's image has no client of
Kubernetes.
"""
