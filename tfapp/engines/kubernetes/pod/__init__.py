"""The program of the master's pod, which runs tfapp.master with pods as containers; and what
commands know of pods and of the API server in the same way.

Standard library, gRPC and the shipped parts of tfapp only: the image has no Kubernetes client.
"""
