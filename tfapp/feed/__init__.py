"""Feeds rows from Spark to the programs of an application, on any engine, each row exactly once.

A Spark task (`task.sender`) asks the driver's ledger (`driver.ledger`) which program gets its next
rows, and sends them to the feed port that this program's instance exports (`program.receiver`). The
program sees the rows after the ledger has committed them. Each of the three folders is named for
the process in which its code runs; what lies beside them runs in all three.
"""
