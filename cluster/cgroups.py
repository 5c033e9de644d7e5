"""Each node's own control groups: /pitcrew-CLUSTER/NODE under every controller.

Several kubelets share the machine's hierarchy; with a root of its own none takes another's pods for orphans.
"""

from __future__ import annotations

import os
import pathlib

from cluster.errors import ClusterError

_ROOT = pathlib.Path("/sys/fs/cgroup")
_PREFIX = "pitcrew-"


def _unified() -> bool:
    return (_ROOT / "cgroup.controllers").exists()


def _hierarchies() -> list[pathlib.Path]:
    """Where groups of a node can be. Beside the controllers of version 1 there may be an empty version 2, in
    which runtimes make their groups too."""
    if _unified():
        return [_ROOT]
    found = [entry for entry in sorted(_ROOT.iterdir()) if not entry.is_symlink() and (entry / "cgroup.procs").exists()]
    if not found:
        raise ClusterError(f"no control groups under {_ROOT}: neither version 2 nor controllers of version 1 "
                           "are mounted there")
    return found


def path(cluster: str, node: str) -> str:
    return f"/{_PREFIX}{cluster}/{node}"


def create(cluster: str, node: str):
    for hierarchy in _hierarchies():
        folder = hierarchy
        for name in (f"{_PREFIX}{cluster}", node):
            if _unified():
                controllers = (folder / "cgroup.controllers").read_text(encoding="ascii").split()
                (folder / "cgroup.subtree_control").write_text(" ".join(f"+{c}" for c in controllers), encoding="ascii")
            parent, folder = folder, folder / name
            folder.mkdir(exist_ok=True)
            if not _unified() and (folder / "cpuset.cpus").exists():
                for file in ("cpuset.cpus", "cpuset.mems"):  # a new group has none, and takes no process
                    (folder / file).write_text((parent / file).read_text(encoding="ascii"), encoding="ascii")


def existing(cluster: str) -> list[pathlib.Path]:
    return [hierarchy / f"{_PREFIX}{cluster}" for hierarchy in _hierarchies()
            if (hierarchy / f"{_PREFIX}{cluster}").is_dir()]


def clusters() -> set[str]:
    return {entry.name.removeprefix(_PREFIX) for hierarchy in _hierarchies() for entry in hierarchy.iterdir()
            if entry.name.startswith(_PREFIX) and entry.is_dir()}


def remove(cluster: str):
    """Removes the cluster's groups; their processes must have ended."""
    for top in existing(cluster):
        for folder, _, _ in os.walk(top, topdown=False):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ClusterError(f"the control group {folder} cannot be removed: {error.strerror}") from error
