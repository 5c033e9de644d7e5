"""Schemas of the values of the charts (clusterpolicy-api.md section 7) and their documentation.

What a value hands on to the ClusterPolicy has the ClusterPolicy's own schema and description.
"""

import copy
import json

import cluster_policy
import fragments
from model import (array, bare, boolean, int_or_string, integer, mapping, obj, string, string_map,
                   strings, without)

PULL_POLICIES = ["Always", "IfNotPresent", "Never"]
NO_EFFECT = "Accepted and without effect, so that older values files still work."


# Enumerated values that the ClusterPolicy always gets; others may be empty, which leaves them out.
_ALWAYS_RENDERED = ("defaultMode", "kernelModuleType")


def free(about):
    """An object of Kubernetes' own, which the API server checks."""
    return {"type": "object", "description": about, "x-free": True}


def free_list(about):
    return array(about, {"type": "object", "x-free": True})


def version(about):
    # A version like 580 or 570.10 that was not quoted arrives as a number.
    return {"type": ["string", "number"], "description": about}


def pod_resources(about):
    """Resources of a container of the chart itself, where a quantity may be any number."""
    quantity = {"type": ["string", "number"], "description": "Quantity."}
    return obj(about, {
        "limits": mapping("The most that the container may use, by resource name.", quantity),
        "requests": mapping("What the scheduler sets aside, by resource name.", quantity),
        "claims": free_list("Claims for dynamic resources."),
    })


def no_effect():
    return {"description": NO_EFFECT, "deprecated": True}


def pull_policy(about="When to pull the image."):
    return string(about, enum=PULL_POLICIES)


def _from_policy(schema):
    """The schema of a ClusterPolicy block as it holds for values."""
    schema = copy.deepcopy(schema)
    properties = schema["properties"]
    if "version" in properties:
        properties["version"] = version(properties["version"]["description"])
        # Empty means left out here, which the ClusterPolicy says by leaving it out.
        properties["image"].pop("pattern", None)
        # As to the operator, any other text is IfNotPresent; NOTES.txt says so.
        properties["imagePullPolicy"] = string(
            "When to pull: Always, IfNotPresent or Never; any other text counts as IfNotPresent.")
    for name, value in properties.items():
        if value.get("type") == "object" and "properties" in value:
            properties[name] = _from_policy(value)
        if "enum" in value and name not in _ALWAYS_RENDERED and "" not in value["enum"]:
            value["enum"].append("")
        value.pop("default", None)
        # What an absent field means to the operator is not what an absent value means to the chart.
        value["description"] = value["description"].split(" Left out it means")[0]
    return schema


def _policy_block(name, *left_out, **more):
    schema = _from_policy(cluster_policy.spec()["properties"][name])
    schema = without(schema, *left_out)
    schema["properties"].update(more)
    return schema


def _config(schema, data):
    schema["properties"]["config"]["properties"].update({
        "create": boolean("Create the ConfigMap, named `name`, from `data`."),
        "data": data,
    })
    return schema


def _operator():
    return obj("The operator's own Deployment, and what the ClusterPolicy says about the operator.", {
        "repository": string("Registry and path of the operator's image."),
        "image": string("Image name, or a whole reference when repository and version are empty."),
        "version": version("Tag or digest; empty for the chart's appVersion."),
        "imagePullPolicy": pull_policy(),
        "imagePullSecrets": strings("Names of Secrets to pull the image with."),
        "env": free_list("Further environment variables of the operator."),
        "labels": string_map("Further labels of the chart's objects."),
        "annotations": string_map("Annotations of the operator's pod."),
        "priorityClassName": string("Priority class of the operator's pod."),
        "nodeSelector": string_map("Nodes that the operator's pod may run on."),
        "tolerations": fragments.tolerations("Tolerations of the operator's pod."),
        "affinity": free("Affinity of the operator's pod."),
        "resources": pod_resources("Compute resources of the operator."),
        "logging": obj("Log of the operator.", {
            "timeEncoding": string("Form of the time.", enum=[
                "epoch", "millis", "nanos", "iso8601", "rfc3339", "rfc3339nano", ""]),
            "level": {"type": ["string", "integer"], "pattern": "^(debug|info|error|panic|[1-9][0-9]*)?$",
                      "minimum": 1, "description":
                      "debug, info, error, panic, or a number greater than 0 for more detail."},
            "develMode": boolean("Log for developers: text, debug level."),
        }),
        "runtimeClass": string("Name and handler of the RuntimeClass for GPU pods."),
        "use_ocp_driver_toolkit": {
            "enum": [True, False, "never"], "description":
            "OpenShift only: build the driver in the Driver Toolkit image. false leaves the choice "
            "to the operator, never rules it out."},
        "metrics": obj("Metrics of the operator.", {
            "serviceMonitor": fragments.service_monitor("Changes to the operator's ServiceMonitor."),
        }),
        "cleanupCRD": boolean("Remove the CRDs on an uninstall, with every object of their kinds."),
        "upgradeCRD": boolean("Bring the CRDs up to date: by a hook before each upgrade, which Helm "
                              "itself leaves undone, and by the operator at its start."),
        "defaultGPUMode": no_effect(),
        "defaultRuntime": no_effect(),
        "initContainer": no_effect(),
    })


def _driver():
    schema = _policy_block("driver", "useNvidiaDriverCRD", "useOpenKernelModules")
    properties = schema["properties"]
    policy = properties["upgradePolicy"]["properties"]
    policy["gpuPodDeletion"] = policy.pop("podDeletion")
    properties.update({
        "nvidiaDriverCRD": obj("Drivers described by NVIDIADriver objects.", {
            "enabled": boolean("Leave the driver to NVIDIADriver objects."),
            "deployDefaultCR": boolean("Create the NVIDIADriver `default` from these values."),
            "driverType": string("Type of the driver of `default`.",
                                 enum=["gpu", "vgpu", "vgpu-host-manager"]),
            "nodeSelector": string_map("Accepted and not used."),
        }),
        "rollingUpdate": no_effect(),
        "useOpenKernelModules": no_effect(),
    })
    return schema


def _dra_driver():
    def plugin(about):
        return obj(about, {
            "env": fragments.env(),
            "resources": fragments.resources(),
            "healthcheck": obj("Health service.", {
                "enabled": boolean("Serve it."),
                "port": integer("Port of it.", minimum=1, maximum=65535),
            }),
        })

    return obj("Driver for dynamic resource allocation; used with gpuCluster.deployCR only.", {
        "repository": string("Registry and path of the image."),
        "image": string("Image name."),
        "version": version("Tag or digest."),
        "imagePullPolicy": pull_policy(),
        "imagePullSecrets": strings("Names of Secrets to pull the image with."),
        "featureGates": mapping("Feature gates.", {"type": "boolean"}),
        "gpus": obj("GPUs.", {"kubeletPlugin": plugin("Container of the kubelet plugin.")}),
        "computeDomains": obj("Compute domains.", {
            "enabled": boolean("Offer compute domains."),
            "controller": obj("Controller.", {"env": fragments.env(),
                                              "resources": fragments.resources()}),
            "kubeletPlugin": plugin("Container of the kubelet plugin."),
        }),
    })


def _daemonsets():
    schema = _policy_block("daemonsets", "podSecurityContext", podSecurityContext=no_effect())
    schema["properties"]["rollingUpdate"] = obj(
        "Used unless updateStrategy is OnDelete; the driver's DaemonSets are left out.", {
            "maxUnavailable": {
                "type": ["string", "integer"], "pattern": "^[0-9]+%?$", "minimum": 0,
                "description": "Pods that may be missing during an update: a number or, with %, a "
                               "share."},
        })
    return schema


def gpu_operator():
    layouts = string_map("Content of the ConfigMap: file name to text.")
    return obj("Values of the chart gpu-operator", {
        "images": obj("Where the images come from.", {
            "source": string(
                "Whose images stand behind the defaults: pitcrew, with NVIDIA's for operands that "
                "Pitcrew does not have (not-there-yet.md), or nvidia for NVIDIA's image of each "
                "operand. What the values set otherwise stays. The operator itself is Pitcrew in "
                "both cases. (Not in NVIDIA's chart.)", enum=["pitcrew", "nvidia"]),
        }),
        "nameOverride": string("Name in the label app.kubernetes.io/name."),
        "fullnameOverride": string("Accepted and not used."),
        "platform": obj("The Kubernetes distribution.", {
            "openshift": boolean("Create the SecurityContextConstraints of the operator's pod."),
        }),
        "nfd": obj("Node feature discovery.", {
            "enabled": boolean("Install the subchart node-feature-discovery."),
            "nodefeaturerules": boolean("Create the NodeFeatureRule that labels nodes with the "
                                        "kernel modules of GDRCopy, GPUDirect Storage and RDMA. "
                                        "Pitcrew's master evaluates no rules yet."),
        }),
        "psa": _policy_block("psa"),
        "resourceQuota": obj("Quota for pods of priority class system-node-critical, which some "
                             "clusters demand. (Not in NVIDIA's chart.)", {
            "enabled": boolean("Create the ResourceQuota."),
            "pods": integer("Pods that it admits.", minimum=1),
        }),
        "cdi": _policy_block("cdi", "default", default=no_effect()),
        # `kubevirt` is the chart's own: the ClusterPolicy's definition is upstream's.
        "sandboxWorkloads": _policy_block("sandboxWorkloads", kubevirt=obj("KubeVirt and HyperConverged.", {
            "manage": boolean("Keep permittedHostDevices of KubeVirt, or of HyperConverged where there is one, equal "
                              "to what the nodes offer to virtual machines; gives the operator the rights for it."),
        })),
        "hostPaths": _policy_block("hostPaths"),
        "daemonsets": _daemonsets(),
        "validator": _policy_block("validator"),
        "operator": _operator(),
        "mig": _policy_block("mig"),
        "driver": _driver(),
        "toolkit": _policy_block("toolkit", "args", args=no_effect()),
        "devicePlugin": _config(_policy_block("devicePlugin"), layouts),
        "dcgm": _policy_block("dcgm", "hostPort", hostPort=no_effect()),
        "dcgmExporter": _config(_policy_block("dcgmExporter"),
                                string("Content of dcgm-metrics.csv in the ConfigMap.")),
        "gfd": _policy_block("gfd"),
        "migManager": _config(_policy_block("migManager"), layouts),
        "nodeStatusExporter": _policy_block("nodeStatusExporter"),
        "gds": _policy_block("gds"),
        "gdrcopy": _policy_block("gdrcopy"),
        "vgpuManager": _policy_block("vgpuManager"),
        "vgpuDeviceManager": _policy_block("vgpuDeviceManager"),
        "vfioManager": _policy_block("vfioManager"),
        "kataManager": _policy_block("kataManager"),
        "sandboxDevicePlugin": _policy_block("sandboxDevicePlugin"),
        "kataSandboxDevicePlugin": _policy_block("kataSandboxDevicePlugin"),
        "ccManager": _policy_block("ccManager"),
        "clusterPolicy": obj("The ClusterPolicy.", {
            "deployCR": boolean("Create the ClusterPolicy `cluster-policy` from these values."),
        }),
        "gpuCluster": obj("The GPUCluster.", {
            "deployCR": boolean("Create the GPUCluster `gpu-cluster` from these values."),
        }),
        "draDriver": _dra_driver(),
        "monitoring": obj("What Prometheus is told about GPUs and the operator. (Not in NVIDIA's chart.)", {
            "alerts": obj("Alerts (docs/metrics.md).", {
                "enabled": boolean("Create the PrometheusRule `gpu-operator-alerts`; the cluster needs the "
                                   "Prometheus operator's definitions for it."),
                "additionalLabels": string_map("Further labels of it, by which a Prometheus chooses its rules."),
            }),
            "dashboards": obj("Dashboards for Grafana (docs/metrics.md).", {
                "enabled": boolean("Create a ConfigMap for each: fleet, node, pods, MIG, health."),
                "labels": string_map("Labels by which Grafana's sidecar finds them."),
                "annotations": string_map("Annotations of them, for example the folder that they are shown in."),
            }),
        }),
        "dashboard": obj("The fleet on a web page (docs/dashboard.md). (Not in NVIDIA's chart.)", {
            "enabled": boolean("Run it as a Deployment with a Service, for whoever may list nodes and pods."),
            "tlsSecretName": string("Secret of type kubernetes.io/tls with its certificate; without one it makes its "
                                    "own at the start, which browsers do not know."),
            "resources": pod_resources("Compute resources of its container."),
            "nodeSelector": string_map("Nodes that its pod may run on."),
            "tolerations": fragments.tolerations("Tolerations of its pod."),
        }),
        "extraObjects": array("Further objects of the release, each an object or a text; templates "
                              "in them are evaluated.", {"type": ["object", "string"],
                                                         "x-free": True}),
        "psp": no_effect(),
        "global": free("Values that Helm hands to every chart."),
        "node-feature-discovery": free("Values of the subchart: see its own table."),
    })


def _nfd_probe(kind):
    def number(about, minimum=0):
        return {"type": ["integer", "null"], "minimum": minimum, "description": about}

    members = {
        "initialDelaySeconds": number("Seconds from the start to the first probe."),
        "timeoutSeconds": number("Seconds after which a probe has failed.", 1),
        "periodSeconds": number("Seconds between two probes.", 1),
        "failureThreshold": number("Failures in a row after which the probe has failed.", 1),
    }
    if kind == "readiness":
        members["successThreshold"] = number("Successes in a row after which it has passed.", 1)
    return obj(f"{kind.capitalize()} probe.", members)


def _nullable(schema):
    return {**schema, "type": [schema["type"], "null"]}


def _nfd_component(about, probes=("liveness", "readiness"), disruption_budget=False, **more):
    members = {
        "enable": boolean("Deploy it."),
        "extraArgs": strings("Further arguments."),
        "extraEnvs": free_list("Further environment variables."),
        "hostNetwork": boolean("Run in the node's network namespace."),
        "hostUsers": {"type": ["boolean", "null"],
                      "description": "Run in the node's user namespace."},
        "dnsPolicy": string("DNS policy of the pods."),
        "port": integer("Port of health and metrics.", minimum=1, maximum=65535),
        "podSecurityContext": free("Security context of the pods."),
        "securityContext": free("Security context of the container."),
        "initContainers": free_list("Init containers of the pods."),
        "serviceAccount": obj("ServiceAccount of the pods.", {
            "create": boolean("Create it."),
            "annotations": string_map("Its annotations."),
            "name": _nullable(string("Its name; empty for one made from the release's name.")),
        }),
        "rbac": obj("Rights of the ServiceAccount.", {"create": boolean("Create them.")}),
        "revisionHistoryLimit": {"type": ["integer", "null"],
                                 "description": "Old revisions to keep."},
        "resources": pod_resources("Compute resources of the container."),
        "nodeSelector": string_map("Nodes that the pods may run on."),
        "tolerations": fragments.tolerations("Tolerations of the pods."),
        "affinity": free("Affinity of the pods."),
        "annotations": string_map("Annotations of the pods."),
        "labels": string_map("Further labels of the pods."),
        "networkPolicy": obj("NetworkPolicy of the pods.", {
            "enabled": boolean("Create it."),
            "egress": free_list("Rules for what the pods may reach."),
            "ingress": free_list("Rules for what may reach the pods."),
        }),
    }
    for kind in probes:
        members[kind + "Probe"] = _nfd_probe(kind)
    if disruption_budget:
        members["podDisruptionBudget"] = obj("PodDisruptionBudget of the pods.", {
            "enable": boolean("Create it."),
            "minAvailable": {"type": ["integer", "string", "null"],
                             "description": "Pods that must stay."},
            "maxUnavailable": {"type": ["integer", "string", "null"],
                               "description": "Pods that may be missing."},
            "unhealthyPodEvictionPolicy": _nullable(string("What happens to unhealthy pods.")),
        })
    members.update(more)
    return obj(about, members)


def node_feature_discovery():
    config = {"type": ["object", "null"], "x-free": True}
    deployment = {
        "replicaCount": integer("Pods of the Deployment.", minimum=0),
        "deploymentAnnotations": string_map("Annotations of the Deployment."),
    }
    return obj("Values of the subchart node-feature-discovery", {
        "enabled": boolean("Accepted and not used: see nfd.enabled."),
        "global": {**free("Values that Helm hands to every chart."), "properties": {
            "imagePullSecrets": free_list("Secrets to pull the image with, unless "
                                          "imagePullSecrets is given."),
        }},
        "image": obj("Image of worker, master and collector.", {
            "repository": string("Registry, path and name of the image."),
            "tag": _nullable(string("Tag; empty for the chart's appVersion.")),
            "pullPolicy": pull_policy(),
        }),
        "imagePullSecrets": free_list("Secrets to pull the image with."),
        "nameOverride": string("Name in place of the chart's, within the objects' names."),
        "fullnameOverride": string("Name of the objects, in place of one made from the release's."),
        "namespaceOverride": string("Namespace of the objects, in place of the release's."),
        "featureGates": mapping("Feature gates of worker and master.", {"type": "boolean"}),
        "enableNodeFeatureApi": no_effect(),
        "checksumValuesOnly": boolean("Restart pods only when their configuration's values change, "
                                      "not when its file does."),
        "priorityClassName": string("Priority class of the pods."),
        "postDeleteCleanup": boolean("Remove what the master wrote to the nodes on uninstall."),
        "master": _nfd_component(
            "The master: turns features into labels of the nodes.",
            probes=("startup", "liveness", "readiness"), disruption_budget=True, **deployment,
            config={**config, "description": "Configuration file of the master."},
            instance=_nullable(string("Name of this master among several.")),
            resyncPeriod=_nullable(string("Time between two passes over all nodes, such as 1h.")),
            denyLabelNs=strings("Label namespaces that are refused."),
            extraLabelNs=strings("Label namespaces that are allowed besides the built-in ones."),
            enableTaints=boolean("Let rules taint nodes. Without effect: no rules are evaluated."),
            nfdApiParallelism={"type": ["integer", "null"], "minimum": 1, "maximum": 100,
                               "description": "Nodes that are updated at a time."}),
        "worker": _nfd_component(
            "The worker: finds the features of its node.",
            config={**config, "description": "Configuration file of the worker."},
            daemonsetAnnotations=string_map("Annotations of the DaemonSet."),
            ownerRefs=array("What a NodeFeature belongs to.",
                            {"type": "string", "enum": ["node", "pod", "ds"]}),
            mountUsrSrc=boolean("Mount /usr/src of the node."),
            priorityClassName=_nullable(string("Priority class of the worker's pods.")),
            updateStrategy=free("How pods follow a change of the DaemonSet.")),
        "gc": _nfd_component(
            "The collector: removes the features of nodes that are gone.", disruption_budget=True,
            **deployment,
            interval=string("Time between two passes, such as 1h.")),
        "topologyUpdater": free("Not part of Pitcrew: `enable` must stay false."),
        "prometheus": obj("Metrics.", {
            "enable": boolean("Create the PodMonitor."),
            "scrapeInterval": string("Time between two scrapes."),
            "labels": string_map("Labels of the PodMonitor."),
        }),
    })


def closed(schema):
    """JSON Schema for Helm: in an object with named properties there are no others."""
    def walk(node):
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        node = {key: walk(value) for key, value in node.items()
                if not key.startswith("x-") and key != "format"}
        return node

    def close(node, is_free=False):
        if not isinstance(node, dict):
            return
        if "properties" in node and isinstance(node["properties"], dict):
            if "additionalProperties" not in node and not is_free:
                node["additionalProperties"] = False
            for value in node["properties"].values():
                close(value)
        for key in ("items", "additionalProperties"):
            close(node.get(key))

    result = walk(schema)
    close(result)
    result["properties"]["global"].pop("additionalProperties", None)
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": result.pop(
        "description"), **result}


def _show_type(schema):
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" if value else '`""`' for value in schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(name for name in kind if name != "null")
    if kind == "array":
        return f"list of {_show_type(schema['items'])}s"
    if kind == "object" and "additionalProperties" in schema:
        return f"map to {_show_type(schema['additionalProperties'])}"
    return kind


def _rows(schema, values, path):
    for name in sorted(schema["properties"]):
        member = schema["properties"][name]
        where = f"{path}.{name}" if path else name
        given = isinstance(values, dict) and name in values
        value = values[name] if given else None
        text = member.get("description", "")
        if "properties" in member and not (given and value in ({}, [])) and "x-free" not in member:
            yield f"| **`{where}`** | | | {text} |"
            yield from _rows(member, value, where)
        else:
            shown = _show_default(value) if given else ""
            yield f"| `{where}` | {_show_type(member)} | {shown} | {text} |"


def _show_default(value):
    if value is None:
        return ""
    text = json.dumps(value)
    return f"`{text}`" if len(text) <= 60 else "see values.yaml"


def document(schema, values, nfd_schema, nfd_values):
    head = "| Value | Type | Default | Meaning |\n|---|---|---|---|\n"
    return "\n".join([
        "# Values of the chart",
        "",
        "Written by deploy/schema/generate.py from the chart's schemas and values.yaml: change those,",
        "not this file. A value that is not listed here is refused, with its path.",
        "",
        "## gpu-operator",
        "",
        head + "\n".join(_rows(schema, values, "")),
        "",
        "## node-feature-discovery",
        "",
        "Below `node-feature-discovery` in the values of gpu-operator. The defaults are the subchart's",
        "own; gpu-operator's values.yaml changes some of them.",
        "",
        head + "\n".join(_rows(nfd_schema, nfd_values, "node-feature-discovery")),
        "",
    ])
