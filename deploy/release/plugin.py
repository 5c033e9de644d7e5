"""The kubectl plugin as people install it: an archive for each architecture, and krew's manifest of them.

The program is the multi-call binary with the libraries that it was linked with, so that it runs on any Linux of that
architecture, whatever its distribution.
"""

from __future__ import annotations

import hashlib
import pathlib

import yaml

import build
import bundle
import tarballs

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NAME = "pitcrew"
_PROGRAM = f"kubectl-{NAME}"
# A link to the launcher (krew makes one) leads to the folder of the real one. Hosts and DNS are built in.
_LAUNCHER = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")")/lib
"""


def archive_name(version: str, architecture: str) -> str:
    return f"{_PROGRAM}-{version}-linux-{architecture}.tar.gz"


def write_archive(folder: pathlib.Path, version: str, into: pathlib.Path) -> pathlib.Path:
    """From a build folder; returns the archive."""
    target = build.Target.of(folder.absolute(), None)
    parts, loader = bundle.files_of(folder / f"bin/{NAME}", target)
    files = {f"lib/{name}": (content, 0o755) for name, content in parts.items()}
    files[_PROGRAM] = ((_LAUNCHER + bundle.launcher("$here", loader, NAME, _PROGRAM)).encode(), 0o755)
    files["LICENSE"] = ((ROOT / "LICENSE").read_bytes(), 0o644)
    path = into / archive_name(version, target.architecture.name)
    tarballs.write(path, files)
    return path


def manifest(version: str, archives: dict[str, pathlib.Path], url: str, homepage: str | None) -> str:
    """krew's manifest. `archives` by architecture; `url` is the address of the folder in which they will lie."""
    platforms = [{"selector": {"matchLabels": {"os": "linux", "arch": architecture}},
                  "uri": f"{url.rstrip('/')}/{path.name}", "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                  "bin": _PROGRAM} for architecture, path in sorted(archives.items())]
    spec = {
        "version": version,
        "shortDescription": "Show how a cluster's GPUs are, and what is broken",
        "description": "For clusters whose GPUs are run by Pitcrew, a GPU Operator. `kubectl pitcrew status`\n"
                       "shows policy, operands and GPU nodes on one screen; `kubectl pitcrew doctor` names the first\n"
                       "broken link of each node or of one pod, the evidence and the fix; `kubectl pitcrew plan` shows\n"
                       "what the operator would change, before anything changes.\n",
        "platforms": platforms,
    }
    if homepage:
        spec["homepage"] = homepage
    return yaml.safe_dump({"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin",
                           "metadata": {"name": NAME}, "spec": spec}, sort_keys=False, width=120)
