"""Feeding rows from Spark to the programs of an application, on any engine, each row once.

A Spark task (`sender`) asks the driver's `ledger` to whom its next rows go, and sends them to the
feed port that this instance exports (`receiver`). There they become visible to the program
(`dataset`) once the ledger has entered them. `driver` holds the ledger and submits Spark's jobs.
"""
