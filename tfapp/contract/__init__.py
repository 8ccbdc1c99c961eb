"""Names and shapes that cross into a container: files, environment, store keys, JSON.

Standard library only: this package travels with every application. Whatever the compiler writes
and the runner or the coordinator reads, and whatever the coordinator publishes and a client
reads, is declared here and nowhere else. A process loads the
modules that it needs: importing a class costs about 1 ms.
"""
