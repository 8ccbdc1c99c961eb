"""Runs programs of docs/reading-data.md in this process: `page.py BASE NUMBER ...`, BASE in place
of s3://bucket. A program that tfapp starts has the file systems by itself; here, one call more."""

import re
import sys
from pathlib import Path

import tfapp.storage

PAGE = Path(__file__).parents[2] / "docs" / "reading-data.md"

if __name__ == "__main__":
    tfapp.storage.register()
    base, *numbers = sys.argv[1:]
    programs = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"))
    for number in numbers:
        code = programs[int(number)].replace("s3://bucket", base)
        exec(compile(code, f"program {number} of the page", "exec"), {"__name__": "__main__"})
