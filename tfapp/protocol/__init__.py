"""Calls to the application master, each with a deadline.

The protocol is Skein's, but the client is not: Skein's client blocks for ever if the master is
stopped or cut off. Here every call ends at its deadline, with an answer, a `RefusedError` or an
`UnreachableError`. Idempotent calls are repeated until then. A `Watch` reports when its stream
breaks; the caller then opens a new one, in this order: subscribe, read, consume.

This room is shipped to containers, which therefore need gRPC and protobuf. They are imported by the
first connection, not by the modules `connection` and `watch`.
"""
