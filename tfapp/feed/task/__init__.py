"""The feed in Spark's tasks, on executors that have no tfapp: what is here is pickled with them."""
