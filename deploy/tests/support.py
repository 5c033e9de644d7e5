"""What the tests of the chart share: Helm, and rendered objects by name."""

import pathlib
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/chart/gpu-operator"
NFD_CHART = CHART / "charts/node-feature-discovery"
DATA = pathlib.Path(__file__).resolve().parent / "data"

sys.path.insert(0, str(ROOT / "tests"))
from apiserver import find_program  # noqa: E402  pylint: disable=wrong-import-position


class HelmError(Exception):
    """Helm refused; the text is what it said."""


def helm(*arguments):
    result = subprocess.run([find_program("helm"), *map(str, arguments)], capture_output=True,
                            text=True, check=False)
    if result.returncode:
        raise HelmError(result.stderr)
    return result.stdout


def settings(values):
    """Helm's arguments for values given as a dictionary of paths."""
    arguments = []
    for path, value in values.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        arguments += ["--set", f"{path}={text}"]
    return arguments


def render(*arguments, chart=CHART, values=None):
    """The release's objects, hooks included, by "Kind/name"."""
    text = helm("template", "gpu-operator", chart, "--namespace", "gpu-operator", "--kube-version",
                "1.35.0", *arguments, *settings(values or {}))
    objects = {}
    for document in yaml.safe_load_all(text):
        if not document:
            continue
        name = f"{document['kind']}/{document['metadata']['name']}"
        assert name not in objects, f"{name} is rendered twice"
        objects[name] = document
    return objects


def values():
    """The chart's own values."""
    return yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))


def policy(*arguments, **options):
    """The spec of the rendered ClusterPolicy."""
    return render(*arguments, **options)["ClusterPolicy/cluster-policy"]["spec"]


def crds():
    """The CRDs that the charts carry, by name."""
    definitions = {}
    for path in sorted([*(CHART / "crds").iterdir(), *(NFD_CHART / "crds").iterdir()]):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            definitions[document["metadata"]["name"]] = document
    return definitions
