"""Lists the files of a folder, or writes them to standard output as a tar archive. Its source is
run in a container by `python3 -c TEXT list|tar FOLDER PATH`. Standard library only."""

import json
import os
import stat
import sys
import tarfile

ABSENT = 44  # exit code: there is nothing of this name


def found(folder, path):
    """Yields (path relative to `folder`, size) of the file `path`, or of all files below the folder
    `path`. Links to folders are not followed; deleted files are left out."""
    start = os.path.join(folder, path)
    walked = os.walk(start, onerror=complain) if os.path.isdir(start) else [("", (), [start])]
    for name in (os.path.join(top, name) for top, _, names in walked for name in names):
        try:
            about = os.stat(name)
        except FileNotFoundError:
            continue
        if stat.S_ISREG(about.st_mode):
            yield os.path.relpath(name, folder), about.st_size


def complain(error):
    if not isinstance(error, FileNotFoundError):
        raise error


def main(argv):
    mode, folder, path = argv
    try:
        if mode == "list":
            files = list(found(folder, path))
            if not files and not os.path.isdir(os.path.join(folder, path)):
                return ABSENT
            for file in files:
                print(json.dumps(file))
            return 0
        with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", dereference=True) as archive:
            for name, _ in found(folder, path):
                try:
                    archive.add(os.path.join(folder, name), name, recursive=False)
                except FileNotFoundError:
                    continue
        return 0
    except OSError as error:
        # tarfile has no file name where a file has become shorter meanwhile.
        print(f"{error.filename or folder}: {error.strerror or error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
