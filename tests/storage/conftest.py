import sys

# It imports a library that exists from Python 3.10 on.
collect_ignore = [] if sys.version_info >= (3, 10) else ["test_objects.py"]
