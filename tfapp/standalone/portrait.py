"""A program for any Python from 3.6 on that describes its interpreter, as JSON on standard output.
With the argument `brief` it leaves out everything that requires imports."""

import importlib
import json
import os
import platform
import sys
import sysconfig


def portrait(brief):
    """`prefix`, `stdlib`, `extensions`: folders of the base installation. `executable`: its
    interpreter. `modules`: the extension modules that can be loaded. `mapped`: the shared libraries
    that are then in memory. `site`: the folders for packages."""
    name = "python{}.{}".format(*sys.version_info)
    inside = os.path.join(sys.base_exec_prefix, "bin", name)
    own = getattr(sys, "_base_executable", sys.executable)
    told = {
        "implementation": sys.implementation.name,
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "version": platform.python_version(),
        "prefix": sys.base_prefix,
        "executable": os.path.realpath(inside if os.path.exists(inside) else own),
    }
    if not brief:
        import site

        # As it is, not as it was meant to be when it was built.
        base = {"installed_base": sys.base_prefix, "base": sys.base_prefix}
        stdlib = sysconfig.get_path("stdlib", vars=base)
        extensions = os.path.join(stdlib, "lib-dynload")
        told["stdlib"], told["extensions"] = stdlib, extensions
        told["path"] = sys.path[1:] if sys.path[0] == os.path.dirname(__file__) else sys.path
        told["modules"] = list(_loaded(extensions))
        told["site"] = site.getsitepackages()
        told["mapped"] = list(_mapped())
    return told


def _loaded(folder):
    names = {file.partition(".")[0] for file in os.listdir(folder) if ".so" in file}
    for name in sorted(names):
        try:
            importlib.import_module(name)
            yield name
        except Exception:  # a library of the machine is missing, or the module is for tests
            pass


def _mapped():
    with open("/proc/self/maps") as maps:
        files = {line.split(None, 5)[5].strip() for line in maps if "/" in line}
    return sorted(file for file in files if ".so" in os.path.basename(file))


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    print(json.dumps(portrait("brief" in sys.argv[1:])))
