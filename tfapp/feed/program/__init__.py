"""The feed in the process of a program."""
