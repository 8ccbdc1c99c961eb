"""The feed in the driver, which submits Spark's jobs: `feeder` runs them, `ledger` decides which
program gets which rows, `programs` has the connections to the programs, `tasks` answers Spark's
tasks."""
