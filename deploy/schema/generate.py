#!/usr/bin/env python3
"""Writes the CRDs of the chart, its values.schema.json, its list of the image's programs, its dashboards, and
docs/values.md.

  generate.py           write the files
  generate.py --check   write nothing; name the files that are out of date and exit 1
"""

import json
import pathlib
import sys

import yaml

import chart_values
import cluster_policy
import dashboards
import image_programs
import node_feature_discovery
import nvidia_driver
from model import obj

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = pathlib.Path("deploy/chart/gpu-operator")
NFD_CHART = CHART / "charts/node-feature-discovery"
HEADER = "# Written by deploy/schema/generate.py: change the schema there, not this file.\n"


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data):
        return True


def custom_resource_definition(source):
    names = {"kind": source["kind"], "listKind": source["kind"] + "List",
             "plural": source["plural"], "singular": source["kind"].lower()}
    if source.get("short_names"):
        names["shortNames"] = source["short_names"]
    schema = obj(source["about"], {
        "apiVersion": {"type": "string", "description": "Version of the object's schema."},
        "kind": {"type": "string", "description": "Kind of the object."},
        "metadata": {"type": "object"},
        **source["properties"],
    })
    version = {"name": source["version"], "served": True, "storage": True,
               "schema": {"openAPIV3Schema": schema}}
    if source.get("columns"):
        version["additionalPrinterColumns"] = source["columns"]
    if source["status_subresource"]:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{source['plural']}.{source['group']}"},
        "spec": {"group": source["group"], "names": names, "scope": source["scope"],
                 "versions": [version]},
    }


def crd_file(*sources):
    documents = [yaml.dump(custom_resource_definition(source), Dumper=_Dumper, width=100)
                 for source in sources]
    return HEADER + "---\n" + "---\n".join(documents)


def json_file(schema):
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def files():
    """Path below the repository's root to text, for every file that this script writes."""
    values = yaml.safe_load((ROOT / CHART / "values.yaml").read_text())
    nfd_values = yaml.safe_load((ROOT / NFD_CHART / "values.yaml").read_text())
    chart_schema = chart_values.gpu_operator()
    nfd_schema = chart_values.node_feature_discovery()
    return {
        CHART / "crds/nvidia.com_clusterpolicies.yaml": crd_file(cluster_policy.crd()),
        CHART / "crds/nvidia.com_nvidiadrivers.yaml": crd_file(nvidia_driver.crd()),
        NFD_CHART / "crds/nfd-api-crds.yaml": crd_file(*node_feature_discovery.crds()),
        CHART / "files/image-programs.yaml": image_programs.text(HEADER),
        CHART / "values.schema.json": json_file(chart_values.closed(chart_schema)),
        NFD_CHART / "values.schema.json": json_file(chart_values.closed(nfd_schema)),
        pathlib.Path("docs/values.md"): chart_values.document(chart_schema, values, nfd_schema,
                                                              nfd_values),
        **{CHART / "files/monitoring/dashboards" / name: text for name, text in dashboards.files().items()},
    }


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = 0
    for path, text in files().items():
        target = ROOT / path
        if target.exists() and target.read_text() == text:
            continue
        if arguments:
            print(f"{path} is out of date: run deploy/schema/generate.py")
            stale = 1
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            print(f"wrote {path}")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
