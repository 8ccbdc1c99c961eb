"""Every call to an application's master, each with a deadline.

Skein's own client waits for ever on a master that is stopped or cut off. Here each call ends by
its deadline with an answer, a `RefusedError` or an `UnreachableError`, and a call that may be
repeated is repeated while the master cannot be connected to. A `Watch` says when it breaks; its
user then opens a new one, in this order: subscribe, read, then consume.

Travels into containers; Skein is imported by the first connection, not by these modules.
"""
