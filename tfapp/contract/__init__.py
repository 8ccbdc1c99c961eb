"""What crosses into a container: file names, environment names, store keys, JSON shapes.

Standard library only: this package travels with every application. Whatever the compiler writes
and the runner or the coordinator reads, and whatever the coordinator publishes and a client
reads, is declared here and nowhere else. One module per idea: a process loads those it needs.
"""
