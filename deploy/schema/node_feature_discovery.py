"""Schemas of nfd.k8s-sigs.io/v1alpha1 (node-feature-discovery.md section 3)."""

from model import array, bare, mapping, obj, string, string_map, strings

GROUP = "nfd.k8s-sigs.io"
VERSION = "v1alpha1"

OPERATORS = ["In", "NotIn", "InRegexp", "Exists", "DoesNotExist", "Gt", "Ge", "Lt", "Le", "GtLt",
             "GeLe", "IsTrue", "IsFalse"]


def expression(about):
    return obj(about, {
        "op!": string("How the feature is compared.", enum=OPERATORS),
        "type": string("How values are read: empty for numbers and text, or version."),
        "value": strings("Values to compare with."),
    })


def match_features():
    return array("Terms that must all match.", bare(obj("", {
        "feature!": string("Name of the feature, such as pci.device."),
        "matchExpressions": mapping("Expressions by name of the feature's element.",
                                    expression("Expression for the element's value.")),
        "matchName": expression("Expression for the names of the feature's elements."),
    })))


def rule(**members):
    return bare(obj("", {
        "name!": string("Name of the rule."),
        "matchAny": array("Alternatives of which one must match.", bare(obj("", {
            "matchFeatures!": match_features(),
        }))),
        "matchFeatures": match_features(),
        "vars": string_map("Values that later rules can refer to, when this rule matches."),
        "varsTemplate": string("Template that yields further values, one name=value a line."),
        **members,
    }))


def node_feature():
    def elements(about, schema):
        return mapping(about, obj("One feature.", {"elements!": schema}))

    instance = obj("", {"attributes!": string_map("Attributes of the instance.")})
    return {
        "group": GROUP, "version": VERSION, "kind": "NodeFeature", "plural": "nodefeatures",
        "scope": "Namespaced", "status_subresource": False,
        "about": "Features of one node, named by the label nfd.node.kubernetes.io/node-name.",
        "properties": {"spec!": obj("What was found on the node.", {
            "features": obj("Features that rules can match, by name.", {
                "attributes": elements("Features with values.",
                                       string_map("Values by name.")),
                "flags": elements("Features without values.",
                                  mapping("Names of the feature's elements.",
                                          {"type": "object",
                                           "description": "Always empty."})),
                "instances": elements("Features with several instances.",
                                      array("The instances.", bare(instance))),
            }),
            "labels": string_map("Labels that the node should carry."),
        })},
    }


def node_feature_rule():
    taint = obj("", {
        "effect!": string("NoSchedule, PreferNoSchedule or NoExecute."),
        "key!": string("Key of the taint."),
        "timeAdded": string("When the taint was added.", format="date-time"),
        "value": string("Value of the taint."),
    })
    return {
        "group": GROUP, "version": VERSION, "kind": "NodeFeatureRule",
        "plural": "nodefeaturerules", "short_names": ["nfr"],
        "scope": "Cluster", "status_subresource": False,
        "about": "Rules that turn features of nodes into labels, annotations, resources and taints.",
        "properties": {"spec!": obj("The rules.", {
            "rules!": array("Rules, in order of evaluation.", rule(
                annotations=string_map("Annotations of nodes that match."),
                extendedResources=string_map("Resources of nodes that match; @domain.feature.element "
                                             "takes a feature's value."),
                labels=string_map("Labels of nodes that match; @domain.feature.element takes a "
                                  "feature's value."),
                labelsTemplate=string("Template that yields further labels, one name=value a line."),
                taints=array("Taints of nodes that match.", bare(taint)))),
        })},
    }


def node_feature_group():
    return {
        "group": GROUP, "version": VERSION, "kind": "NodeFeatureGroup",
        "plural": "nodefeaturegroups", "short_names": ["nfg"],
        "scope": "Namespaced", "status_subresource": True,
        "about": "The nodes whose features match rules.",
        "properties": {
            "spec!": obj("The rules.", {
                "featureGroupRules!": array("Rules of which one must match.", rule()),
            }),
            "status": obj("The nodes that match.", {
                "nodes": array("Nodes in the group.", bare(obj("", {
                    "name!": string("Name of the node."),
                })), **{"x-kubernetes-list-map-keys": ["name"], "x-kubernetes-list-type": "map"}),
            }),
        },
    }


def crds():
    return [node_feature(), node_feature_group(), node_feature_rule()]
