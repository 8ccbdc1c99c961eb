# What is shipped as files/tfapp-call/main.py: the program that a component runs for a function, an
# experiment or a module. Written so that older Pythons can read it as well.
import os
import sys

if __name__ == "__main__":
    if sys.version_info < (3, 9):  # noqa: UP036
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        sys.exit(f"tfapp: functions need Python 3.9 or newer, and this is {version}")
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:1] = [_here, os.path.dirname(_here)]
    # Nothing is submitted from here, not even where a tfapp is installed: it may be another one.
    sys.modules["tfapp.api"] = None  # type: ignore[assignment]
    from tfapp.program.main import main

    sys.exit(main(_here, os.environ))
