#!/usr/bin/env python3
"""Builds the engines of built_test.py from their Go modules, each once, into $PITCREW_CACHE."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from cluster import progress, programs  # noqa: E402  pylint: disable=wrong-import-position
from cluster.errors import ClusterError  # noqa: E402  pylint: disable=wrong-import-position

CONTAINERD = ["v1.7.35", "v2.0.14", "v2.1.9", "v2.3.4", "v2.4.2"]
CRIO = ["v1.34.0"]


def containerd(version):
    """Under a name of its own: the cluster's containerd, and tests that look for one, must not find these."""
    module = "github.com/containerd/containerd" + ("" if version.startswith("v1") else "/v2")
    return programs.Component(
        "engine-containerd", version,
        {name: f"{module}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")}, fits="",
        tags="no_aufs,no_btrfs,no_devmapper,no_zfs", link_flags=f"-X {module}/version.Version={version}",
        module=str(HERE / "modules" / f"containerd-{version[1:].rpartition('.')[0]}"))


def crio(version):
    """Without cgo: no seccomp, and storage on overlay or plain folders alone."""
    return programs.Component(
        "engine-crio", version, {"crio": "github.com/cri-o/cri-o/cmd/crio", "copyimg": "github.com/cri-o/cri-o/test/copyimg"},
        fits="",
        tags="containers_image_openpgp,containers_image_ostree_stub,exclude_graphdriver_btrfs",
        module=str(HERE / "modules" / f"crio-{version[1:].rpartition('.')[0]}"))


def main():
    failed = False
    for component in [*map(containerd, CONTAINERD), *map(crio, CRIO)]:
        if programs.built_folder(component).is_dir():
            continue
        try:
            with progress.step(f"{component.name} {component.version}") as step:
                programs.build(component, step)
        except ClusterError as problem:  # the others can be tried nevertheless
            print(f"engines: {problem}", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
