"""Logs in to pages that are protected by Kerberos (SPNEGO), by curl. Machines of a cluster have
curl; the libraries of Python do not support SPNEGO, or need a compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping

from tfapp.engines.yarn.kerberos import CACHE, find_keytab, ticket_file

_COOKIE = re.compile(r"^set-cookie: *(hadoop\.auth=[^;\r\n]+)", re.IGNORECASE | re.MULTILINE)
_STATUS = re.compile(r"^HTTP/\S+ (.+?)\r?$", re.MULTILINE)


def log_in(url: str, environ: Mapping[str, str], limit: float, proxy: str = "") -> str:
    """The cookie of a login, which is valid for hours. `limit`: seconds. `proxy`: the URL of a
    proxy for `url`. OSError with the reason in words."""
    with tempfile.TemporaryDirectory(prefix="tfapp-") as folder:
        cache = ticket_file(environ)
        keytab = find_keytab(environ)
        if keytab is not None:
            cache = os.path.join(folder, "ticket")
            own = {**environ, CACHE: f"FILE:{cache}"}
            _run(own, limit, "kinit", "-k", "-t", keytab[0], keytab[1])
        words = ("-sS", "--negotiate", "--user", ":", "--max-time", f"{limit:g}")
        way = ("--proxy", proxy, "--noproxy", "") if proxy else ("--noproxy", "*")
        output = ("--output", os.devnull, "--dump-header", "-")
        said = _run({**environ, CACHE: f"FILE:{cache}"}, limit, "curl", *words, *way, *output, url)
    cookies = [found for found in _COOKIE.findall(said) if not found.endswith("=")]
    if not cookies:
        raise OSError((_STATUS.findall(said) or ["it gave no reason"])[-1])
    return cookies[-1]


def _run(environ: Mapping[str, str], limit: float, program: str, *words: str) -> str:
    found = shutil.which(program, path=environ.get("PATH"))
    if found is None:
        raise OSError(f"the program {program} is not on PATH")
    try:
        done = subprocess.run(
            [found, *words],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit + 1,
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"{program} took longer than {limit:g} s") from None
    if done.returncode:
        complaint = done.stderr.strip().splitlines()[-1:] or ["it gave no reason"]
        raise OSError(complaint[0])
    return done.stdout
