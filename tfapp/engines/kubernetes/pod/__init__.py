"""The program of the master's pod: it runs tfapp.master with pods as containers.

Standard library, gRPC and the shipped parts of tfapp only: the image has no Kubernetes client.
"""
