"""The part of tfapp in the process of a user's program: Python functions, experiments and modules.

Travels with the program and is loaded by its own Python, of which only 3.9 or newer is known: no
module here needs anything but the standard library until a program that needs TensorFlow runs.
"""
