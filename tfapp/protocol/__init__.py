"""Every call to an application's master, each with a deadline.

The protocol is Skein's, the client is not: Skein's own waits for ever on a master that is stopped
or cut off. Here each call ends by its deadline with an answer, a `RefusedError` or an
`UnreachableError`, and a call that may be repeated is repeated until then. A `Watch` says when it
breaks; its user then opens a new one, in this order: subscribe, read, then consume.

Travels into containers, which need gRPC and protobuf for it. Both are imported by the first
connection, not by `connection` and `watch`.
"""
