"""KubeVirt's CustomResourceDefinitions, which tests install: made from texts of its Go module, once.

They lie in $PITCREW_CACHE/programs/kubevirt-VERSION/definitions.yaml. Go's checksum database vouches for the module
where Go is set up to ask it; the sum below does always.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import tempfile

from cluster import programs
from cluster.errors import ClusterError
from cluster.progress import Step

VERSION = "v1.8.4"  # of HyperConverged 1.18, the newest release of it
_MODULE = "kubevirt.io/kubevirt"
_SUM = "h1:TXpT+U1SBIlsNI62qOev2aNkYVnGgyZ21gvmakIARrg="
# Its own definition is in a manifest. Those that KubeVirt installs itself are made in its code, of these schemas.
_MANIFEST = "manifests/generated/kv-resource.yaml"
_SCHEMAS = "pkg/virt-operator/resource/generate/components/validations_generated.go"
_MADE_BY_CODE = ("VirtualMachine", "VirtualMachineInstance")

_DEFINITION = """\
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: {plural}.kubevirt.io
spec:
  group: kubevirt.io
  names: {{kind: {kind}, plural: {plural}, singular: {singular}}}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {{status: {{}}}}
    schema:
{schema}
"""


def _download(step: Step) -> pathlib.Path:
    step.note(f"reading KubeVirt {VERSION}'s definitions from its Go module, once")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "go.mod").write_text("module pitcrew/kubevirt\n", encoding="utf-8")
        result = subprocess.run([programs.find_go(), "mod", "download", "-json", f"{_MODULE}@{VERSION}"], cwd=folder,
                                env=programs.environment(), capture_output=True, text=True, check=False)
    told = json.loads(result.stdout or "{}")
    if result.returncode != 0:
        raise ClusterError(f"{_MODULE} {VERSION} cannot be downloaded: {told.get('Error') or result.stderr.strip()}")
    if told["Sum"] != _SUM:
        raise ClusterError(f"{_MODULE} {VERSION} has the checksum {told['Sum']}, not {_SUM}: somebody has changed it")
    return pathlib.Path(told["Dir"])


def _schema(texts: str, name: str) -> str:
    found = re.search(rf'^\t"{name}": `openAPIV3Schema:\n(.*?)^`,$', texts, re.MULTILINE | re.DOTALL)
    if not found:
        raise ClusterError(f"{_SCHEMAS} of {_MODULE} {VERSION} has no schema of {name}")
    lines = ["openAPIV3Schema:", *found[1].rstrip("\n").split("\n")]
    return "\n".join(" " * 6 + line for line in lines)


def make(module: pathlib.Path) -> str:
    """The definitions as a stream of YAML documents."""
    texts = (module / _SCHEMAS).read_text(encoding="utf-8")
    parts = [(module / _MANIFEST).read_text(encoding="utf-8")]
    for kind in _MADE_BY_CODE:
        singular = kind.lower()
        parts.append(_DEFINITION.format(kind=kind, plural=f"{singular}s", singular=singular,
                                        schema=_schema(texts, singular)))
    return "".join(parts)


def file() -> pathlib.Path:
    """Where they lie, once `ensure` has made them."""
    return programs.cache() / "programs" / f"kubevirt-{VERSION}" / "definitions.yaml"


def ensure(step: Step):
    target = file()
    if target.exists():
        return
    text = make(_download(step))
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(target)
