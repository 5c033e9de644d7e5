"""Images and simulated hardware: what the build has made, and how it gets onto the nodes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

from cluster import enter
from cluster.errors import ClusterError
from cluster.state import State

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Archive:
    """A docker-archive on the machine."""

    name: str  # as in pods: docker.io/pitcrew/pitcrew:v26.7.0
    path: pathlib.Path
    digest: str  # of the image's configuration, which names all of its contents


def archives(folder: pathlib.Path) -> list[Archive]:
    found = []
    for path in sorted(folder.glob("*.tar")):
        try:
            with tarfile.open(path) as archive:
                manifest = json.load(archive.extractfile("manifest.json"))[0]
                config = archive.extractfile(manifest["Config"]).read()
        except (tarfile.TarError, KeyError, ValueError, OSError) as error:
            raise ClusterError(f"{path} is not an image archive ({error}); `make image` writes it anew") from error
        found.append(Archive(manifest["RepoTags"][0], path, hashlib.sha256(config).hexdigest()))
    return found


def build_pause(folder: pathlib.Path) -> Archive:
    """The sandbox image, without which no pod starts; it needs nothing that is compiled."""
    recipe = ROOT / "deploy/image/recipes/pause.yaml"
    result = subprocess.run([str(ROOT / "deploy/image/build.py"), "--build", str(folder), "--into", str(folder),
                             str(recipe)], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ClusterError(f"building the sandbox image: {result.stderr.strip()}")
    return next(archive for archive in archives(folder) if archive.path.stem == "pause")


def import_into(state: State, nodes: list[str], wanted: list[Archive]):
    """Imports the archives on all nodes, side by side."""
    running = []
    for node in nodes:
        for archive in wanted:
            log = state.log(f"{node}-import")
            with open(archive.path, "rb") as stream, open(log, "ab") as output:
                running.append((node, archive, log, enter.start(
                    state, node, ["ctr", "--namespace=k8s.io", "images", "import", "-"],
                    stdin=stream, stdout=output, stderr=output)))
    for node, archive, log, process in running:
        if process.wait() != 0:
            raise ClusterError(f"importing {archive.name} on {node} failed", str(log))


class Simulation:
    """The simulated hardware's tool and libraries, from a build folder."""

    def __init__(self, source: pathlib.Path):
        self.source = source

    @staticmethod
    def find(build: pathlib.Path) -> Simulation | None:
        return Simulation(build) if os.access(build / "bin/pitcrew-simulate", os.X_OK) else None

    def check(self, text: str, path: pathlib.Path) -> str:
        """What is wrong with a GPU description, in the simulation's own words; empty when nothing is.

        The words name `path` as the file that the text is from."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "gpus.yaml"
            file.write_text(text, encoding="utf-8")
            result = subprocess.run([str(self.source / "bin/pitcrew-simulate"), "pci-tree", "--description", str(file),
                                     "--into", f"{folder}/tree"], capture_output=True, text=True, check=False)
        if result.returncode == 0:
            return ""
        words = result.stderr.strip().removeprefix("pitcrew-simulate: ").replace(str(file), str(path))
        return words or f"{path}: pitcrew-simulate ended with {result.returncode}"

    def install(self, target: pathlib.Path):
        """A copy of the cluster's own, so that a new build does not change what runs."""
        for folder, names in (("bin", ["pitcrew-simulate", "nvidia-smi", "nvidia-cuda-mps-control"]), ("lib", sorted(
                path.name for path in (self.source / "lib").glob("lib*.so*")) if (self.source / "lib").is_dir() else [])):
            (target / folder).mkdir(parents=True, exist_ok=True)
            for name in names:
                shutil.copy2(self.source / folder / name, target / folder / name, follow_symlinks=False)
