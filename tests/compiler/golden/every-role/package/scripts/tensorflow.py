"""Stands for a real script: a golden test compiles it and never runs it."""
