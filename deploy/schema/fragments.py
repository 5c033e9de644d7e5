"""Schema fragments that many fields share (clusterpolicy-api.md section 2.7)."""

from model import (array, bare, boolean, int_or_string, integer, mapping, obj, string, string_map,
                   strings)

# Deliberately as loose as upstream's: a full reference with a digest passes as well as a name.
IMAGE_PATTERN = r"[a-zA-Z0-9\-]+"

QUANTITY_PATTERN = (r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
                    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$")

DURATION_PATTERN = (r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?"
                    r"(([0-9]+)s)?(([0-9]+)ms)?)$")

RELABEL_ACTIONS = [spelling for action in (
    ("replace", "Replace"), ("keep", "Keep"), ("drop", "Drop"), ("hashmod", "HashMod"),
    ("labelmap", "LabelMap"), ("labeldrop", "LabelDrop"), ("labelkeep", "LabelKeep"),
    ("lowercase", "Lowercase"), ("uppercase", "Uppercase"), ("keepequal", "KeepEqual"),
    ("dropequal", "DropEqual")) for spelling in action]


def resources(about="Compute resources of the containers."):
    quantity = int_or_string("", pattern=QUANTITY_PATTERN)
    return obj(about, {
        "limits": mapping("The most that a container may use, by resource name.", bare(quantity)),
        "requests": mapping("What the scheduler sets aside, by resource name.", bare(quantity)),
    })


def env(about="Environment variables: each replaces the variable of its name or is added."):
    return array(about, bare(obj("", {
        "name!": string("Name of the variable."),
        "value": string("Value of the variable."),
    })))


def image(what, variable=None):
    """The three parts of an image reference (section 6), how to pull it, and with which Secrets."""
    fallback = ("" if not variable else
                f" When repository, image and version are all empty, {variable} of the operator's"
                " environment is used.")
    return {
        "repository": string(f"Registry and path of the image of the {what}."),
        "image": string(f"Image name of the {what}, or a whole reference when repository and "
                        f"version are empty.{fallback}", pattern=IMAGE_PATTERN),
        "version": string("Tag of the image, or its digest when it begins with sha256:."),
        "imagePullPolicy": string("When to pull: Always, Never or IfNotPresent (also for any other "
                                  "text)."),
        "imagePullSecrets": strings("Names of Secrets to pull the image with."),
    }


def host_network():
    return boolean("Run the pods in the node's network namespace (with DNS policy "
                   "ClusterFirstWithHostNet).")


def operand(what, variable, args_used=True):
    """The members that every operand has besides `enabled`."""
    return {
        **image(what, variable),
        "args": strings("Arguments of the main container, in place of the built-in ones."
                        if args_used else "Accepted and not used."),
        "env": env(),
    }


def driver_manager(what):
    return obj(f"Driver manager, the first init container of the {what}.", {
        **image("driver manager", "DRIVER_MANAGER_IMAGE"),
        "env": env(),
    })


def probe(kind):
    return obj(f"The {kind} probe of the driver container: members that are given replace the "
               "built-in ones.", {
        "failureThreshold": integer("Failures in a row after which the probe has failed.",
                                    bits=32, minimum=1),
        "initialDelaySeconds": integer("Seconds from the container's start to the first probe.",
                                       bits=32),
        "periodSeconds": integer("Seconds between two probes.", bits=32, minimum=1),
        "successThreshold": integer("Successes in a row after which the probe has passed.",
                                    bits=32, minimum=1),
        "timeoutSeconds": integer("Seconds after which an unanswered probe has failed.",
                                  bits=32, minimum=1),
    })


def service_monitor(about):
    relabeling = obj("", {
        "action": string("What the rule does.", default="replace", enum=RELABEL_ACTIONS),
        "modulus": integer("Modulus of the hash of the source labels.", bits=64, minimum=0),
        "regex": string("Expression that the joined source labels are matched with."),
        "replacement": string("Value to set when the expression matches."),
        "separator": string("Text between the joined source labels."),
        "sourceLabels": array("Labels whose values are joined.",
                              {"type": "string", "description": "Name of a label."}),
        "targetLabel": string("Label that receives the result."),
    })
    return obj(about, {
        "additionalLabels": string_map("Labels of the ServiceMonitor besides the built-in ones."),
        "enabled": boolean("Create the ServiceMonitor."),
        "honorLabels": boolean("Keep the target's own labels where they collide."),
        "interval": string("Time between two scrapes, such as 15s.", pattern=DURATION_PATTERN),
        "relabelings": array("Relabelling rules, in order.", bare(relabeling)),
        "scrapeTimeout": string("Time after which a scrape has failed, such as 10s.",
                                pattern=DURATION_PATTERN),
    })


def _profile(what):
    return obj(f"{what} profile.", {
        "localhostProfile": string("Name of a profile on the node, for type Localhost."),
        "type!": string("Localhost, RuntimeDefault or Unconfined."),
    })


def pod_security_context(about):
    return obj(about, {
        "appArmorProfile": _profile("AppArmor"),
        "fsGroup": integer("Group that owns the pod's volumes.", bits=64),
        "fsGroupChangePolicy": string("When the volumes' ownership is changed."),
        "runAsGroup": integer("Primary group of the processes.", bits=64),
        "runAsNonRoot": boolean("Refuse to start a container as root."),
        "runAsUser": integer("User of the processes.", bits=64),
        "seLinuxChangePolicy": string("How SELinux labels get onto the volumes."),
        "seLinuxOptions": obj("SELinux context.", {
            "level": string("Level."),
            "role": string("Role."),
            "type": string("Type."),
            "user": string("User."),
        }),
        "seccompProfile": _profile("Seccomp"),
        "supplementalGroups": array("Further groups of the processes.",
                                    {"type": "integer", "format": "int64"},
                                    **{"x-kubernetes-list-type": "atomic"}),
        "supplementalGroupsPolicy": string("How further groups are put together."),
        "sysctls": array("Kernel parameters of the pod.", bare(obj("", {
            "name!": string("Name of the parameter."),
            "value!": string("Its value."),
        })), **{"x-kubernetes-list-type": "atomic"}),
        "windowsOptions": obj("Settings of Windows pods.", {
            "gmsaCredentialSpec": string("Content of the gMSA credential specification."),
            "gmsaCredentialSpecName": string("Name of the gMSA credential specification."),
            "hostProcess": boolean("Run as a host process container."),
            "runAsUserName": string("User name of the entry point."),
        }),
    })


def tolerations(about):
    return array(about, bare(obj("", {
        "effect": string("Taint effect to tolerate; empty for all."),
        "key": string("Taint key to tolerate; empty for all."),
        "operator": string("Exists or Equal."),
        "tolerationSeconds": integer("Seconds for which a NoExecute taint is tolerated.", bits=64),
        "value": string("Taint value to tolerate, for operator Equal."),
    })))


def conditions():
    label_part = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    return array("Conditions of the object, one of each type.", bare(obj("", {
        "lastTransitionTime!": string("When the condition last changed its status.",
                                      format="date-time"),
        "message!": string("The reason for a person to read.", maxLength=32768),
        "observedGeneration": integer("Generation of the object that the condition speaks of.",
                                      bits=64, minimum=0),
        "reason!": string("The reason as one word for programs.", minLength=1, maxLength=1024,
                          pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        "status!": string("Whether the condition holds.", enum=["True", "False", "Unknown"]),
        "type!": string("Kind of the condition.", maxLength=316,
                        pattern=rf"^({label_part}(\.{label_part})*/)?"
                                r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"),
    })))
