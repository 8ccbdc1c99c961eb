"""Tests on a real Spark cluster: the one that users start for themselves."""
