"""Feeds rows from Spark to the programs of an application, on any engine, each row exactly once.

A Spark task (`sender`) asks the driver's `ledger` which program gets its next rows, and sends them
to the feed port that this program's instance exports (`receiver`). The program sees the rows
(`dataset`) after the ledger has committed them. `driver` holds the ledger and submits Spark's jobs.
"""
