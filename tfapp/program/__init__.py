"""The part of tfapp inside the process of a user's program: Python functions, experiments and
modules.

It is shipped with the program and loaded by the program's Python, which may be any version from 3.9
on. Only the standard library is imported until a program that needs TensorFlow runs.
"""
