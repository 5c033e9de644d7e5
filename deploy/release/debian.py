"""What Debian says of the packages that files come from: version, source, licence."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import subprocess

# Debian's short names of licences (copyright format 1.0) that SPDX calls otherwise; the others are the same but for
# upper and lower case, or have no name in SPDX's list.
_SPDX_NAMES = {
    "apache-2": "Apache-2.0", "apache-2.0": "Apache-2.0", "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause",
    "bsl-1.0": "BSL-1.0", "boost": "BSL-1.0", "curl": "curl", "expat": "MIT", "mit": "MIT", "isc": "ISC",
    "gpl-2": "GPL-2.0-only", "gpl-2+": "GPL-2.0-or-later", "gpl-2.0+": "GPL-2.0-or-later",
    "gpl-2.0": "GPL-2.0-only", "gpl-3": "GPL-3.0-only", "gpl-3+": "GPL-3.0-or-later",
    "lgpl-2": "LGPL-2.0-only", "lgpl-2+": "LGPL-2.0-or-later", "lgpl-2.1": "LGPL-2.1-only",
    "lgpl-2.1+": "LGPL-2.1-or-later", "lgpl-3": "LGPL-3.0-only", "lgpl-3+": "LGPL-3.0-or-later",
    "bsd-3-clause~google": "BSD-3-Clause", "bsd-3-google": "BSD-3-Clause", "x11": "X11",
    "openssl": "OpenSSL", "zlib": "Zlib", "openldap-2.8": "OLDAP-2.8", "cc0-1.0": "CC0-1.0", "cc0": "CC0-1.0",
    "mpl-2.0": "MPL-2.0", "bsd-4-clause": "BSD-4-Clause"}
_COMMON = re.compile(r"/usr/share/common-licenses/([A-Za-z]+-[0-9.]+[0-9]|[A-Za-z]+)")


class DebianError(Exception):
    """dpkg does not know the file."""


@dataclasses.dataclass(frozen=True)
class Package:
    name: str
    version: str
    architecture: str
    source: str
    source_version: str
    homepage: str
    licence: str | None  # an SPDX identifier or expression; None where none can be told
    licence_comment: str  # what Debian's copyright file says besides


def _dpkg_query(root: pathlib.Path, *arguments: str) -> str:
    result = subprocess.run(["dpkg-query", "--admindir", str(root / "var/lib/dpkg"), *arguments], capture_output=True,
                            text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    if result.returncode not in (0, 1):  # 1: some of what was asked for is not there
        raise DebianError(result.stderr.strip())
    return result.stdout


def _spellings(root: pathlib.Path, file: pathlib.Path) -> list[str]:
    """The paths under which dpkg may know a file: since /lib is a link to /usr/lib, packages ship it under either."""
    inside = "/" + str(file.relative_to(root))
    if inside.startswith(("/usr/lib", "/usr/bin/", "/usr/sbin/")):
        return [inside, inside.removeprefix("/usr")]
    return [inside, f"/usr{inside}"] if inside.startswith(("/lib", "/bin/", "/sbin/")) else [inside]


def owners(root: pathlib.Path, files: list[pathlib.Path]) -> dict[pathlib.Path, str]:
    """{file: package, as dpkg names it}; files that no package has are left out."""
    wanted = {spelling: file for file in files for spelling in _spellings(root, file)}
    if not wanted:
        return {}
    found: dict[pathlib.Path, str] = {}
    paths = sorted(wanted)
    for first in range(0, len(paths), 5000):
        for line in _dpkg_query(root, "--search", *paths[first:first + 5000]).splitlines():
            package, separator, path = line.rpartition(": ")
            if separator and path in wanted and not line.startswith("diversion "):
                found[wanted[path]] = package.split(", ")[0]
    return found


def _licence(root: pathlib.Path, name: str) -> tuple[str | None, str]:
    path = f"usr/share/doc/{name}/copyright"
    try:
        text = (root / path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None, "Debian's copyright file is not there"
    if not re.match(r"Format:\s*https?://www\.debian\.org/doc/packaging-manuals/copyright-format/1\.0", text.lstrip()):
        named = sorted(set(_COMMON.findall(text)))
        return None, f"/{path}, which is not machine readable, names: {', '.join(named) or 'no common licence'}"
    declared, others = "", set()
    for stanza in re.split(r"\n\s*\n", text):
        files = re.search(r"^Files:\s*(.+(?:\n[ \t]+.*)*)", stanza, re.MULTILINE)
        licence = re.search(r"^License:\s*(.+)$", stanza, re.MULTILINE)
        if not files or not licence:
            continue
        if files[1].split() == ["*"]:
            declared = licence[1].strip()
        elif files[1].split() != ["debian/*"]:
            others.add(licence[1].strip())
    comment = f"Debian's word for it in /{path}: {declared}" if declared else f"/{path} has no licence for all files"
    if others - {declared}:
        comment += f"; parts are under {', '.join(sorted(others - {declared}))}"
    return _expression(declared), comment


def _expression(words: str) -> str | None:
    """Debian's licence line as an SPDX expression; None when one of its names has no SPDX name here."""
    parts = re.split(r"\s+(and|or)\s+", words.replace(",", ""))
    if not words or any(_SPDX_NAMES.get(part.lower()) is None for part in parts[::2]):
        return None
    spdx = [_SPDX_NAMES[part.lower()] if index % 2 == 0 else part.upper() for index, part in enumerate(parts)]
    return " ".join(spdx) if len(set(spdx[1::2])) <= 1 else None


def describe(root: pathlib.Path, package: str) -> Package:
    form = "${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\t${Homepage}"
    name, version, architecture, source, source_version, homepage = _dpkg_query(
        root, "--show", "--showformat", form, package).split("\t")
    licence, comment = _licence(root, name)
    return Package(name, version, architecture, source, source_version, homepage, licence, comment)
