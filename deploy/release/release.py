#!/usr/bin/env python3
"""Makes the files of a release: images, chart, CRDs, kubectl plugin, lists of what is in the images, checksums.

    release.py --build build/release --build build/release-arm64 --into build/release-artifacts

Each build folder gives one architecture; its images are built already (`make image`). Equal inputs give equal bytes.
Exit status: 0 done, 1 failure, 2 usage.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "deploy/image")]

# pylint: disable=wrong-import-position
import yaml  # noqa: E402

import archives  # noqa: E402
import build  # noqa: E402
import debian  # noqa: E402
import inputs  # noqa: E402
import plugin  # noqa: E402
import spdx  # noqa: E402
import tarballs  # noqa: E402
from cluster.errors import ClusterError  # noqa: E402
from cluster.programs import Programs  # noqa: E402

_CHART = ROOT / "deploy/chart/gpu-operator"
_RECIPE = ROOT / "deploy/image/recipes/pitcrew.yaml"
# Where nobody has said where the files will lie: krew is then given the archive by hand.
_NOWHERE = "https://release.invalid"


class ReleaseError(Exception):
    """The inputs do not make a release."""


def created() -> datetime.datetime:
    """The time that is written into documents: of the last commit, so that it belongs to the contents."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    if not told:
        result = subprocess.run(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"], capture_output=True, text=True,
                                check=False)
        if result.returncode != 0:
            raise ReleaseError(f"git does not tell the time of the last commit ({result.stderr.strip()}); give it in "
                               "SOURCE_DATE_EPOCH, in seconds")
        told = result.stdout
    try:
        return datetime.datetime.fromtimestamp(int(told), datetime.timezone.utc)
    except (ValueError, OverflowError) as error:
        raise ReleaseError(f"SOURCE_DATE_EPOCH={told.strip()}: write seconds since 1970") from error


def _image(folder: pathlib.Path, version: str, into: pathlib.Path) -> archives.Archive:
    found = archives.read(folder / "images/pitcrew.tar")
    if found.tag != version:
        raise ReleaseError(f"{found.path} is {found.reference}, and the chart is for {version}; `make image` writes "
                           "the image anew")
    path = into / f"pitcrew-image-{version}-linux-{found.architecture}.tar"
    shutil.copyfile(found.path, path)
    return archives.read(path)


def _package_chart(version: str, into: pathlib.Path) -> pathlib.Path:
    programs = Programs()
    programs.find("helm")
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": home, "HELM_CACHE_HOME": home,
                       "HELM_CONFIG_HOME": home, "HELM_DATA_HOME": home}
        result = subprocess.run([programs.path("helm"), "package", str(_CHART), "--destination", str(into)],
                                capture_output=True, text=True, check=False, env=environment)
    if result.returncode != 0:
        raise ReleaseError(f"helm package: {result.stderr.strip()}")
    path = into / f"gpu-operator-{version}.tgz"
    tarballs.settle(path)
    return path


def _write_crds(into: pathlib.Path) -> pathlib.Path:
    """All definitions in one file, for those who keep them apart from the chart."""
    documents = []
    for folder in (_CHART / "crds", *sorted(_CHART.glob("charts/*/crds"))):
        for path in sorted(folder.glob("*.yaml")):
            documents += [part for part in yaml.safe_load_all(path.read_text(encoding="utf-8")) if part]
    path = into / "pitcrew-crds.yaml"
    path.write_text("# kubectl apply --server-side --force-conflicts -f pitcrew-crds.yaml\n"
                    + yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True), encoding="utf-8")
    return path


def _write_sums(into: pathlib.Path):
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
             for path in sorted(into.iterdir()) if path.name != "SHA256SUMS"]
    (into / "SHA256SUMS").write_text("".join(lines), encoding="ascii")


def make(folders: list[pathlib.Path], into: pathlib.Path, url: str, homepage: str | None):
    version = str(yaml.safe_load((_CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"])
    plugins = {}
    for folder in folders:
        image = _image(folder, version, into)
        if image.architecture in plugins:
            raise ReleaseError(f"{folder} is for {image.architecture} as well; give one folder for each architecture")
        spdx.write(into / f"pitcrew-image-{version}-linux-{image.architecture}.spdx.json", image,
                   build.load(_RECIPE, folder), folder, created())
        plugins[image.architecture] = plugin.write_archive(folder, version, into)
    (into / f"{plugin.NAME}.yaml").write_text(plugin.manifest(version, plugins, url, homepage), encoding="utf-8")
    _package_chart(version, into)
    _write_crds(into)
    _write_sums(into)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, action="append", required=True,
                        help="a build folder with its images; once for each architecture")
    parser.add_argument("--into", type=pathlib.Path, required=True, help="the folder; replaced as a whole")
    parser.add_argument("--url", default=_NOWHERE,
                        help="where the files will lie, for krew's manifest (without it krew is given the archive)")
    parser.add_argument("--homepage", help="the plugin's page, for krew's manifest")
    return parser.parse_args()


def main() -> int:
    arguments = _parse()
    into = arguments.into.absolute()
    into.parent.mkdir(parents=True, exist_ok=True)
    temporary = pathlib.Path(tempfile.mkdtemp(prefix=f".{into.name}.", dir=into.parent))
    try:
        temporary.chmod(0o755)
        make(arguments.build, temporary, arguments.url, arguments.homepage)
        shutil.rmtree(into, ignore_errors=True)
        temporary.rename(into)
    except (ReleaseError, ClusterError, archives.ArchiveError, build.RecipeError, build.BuildError,
            debian.DebianError, inputs.InputsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for path in sorted(into.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {os.path.relpath(path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
