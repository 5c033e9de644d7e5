"""A pod as KubeVirt's virt-controller makes it for a virtual machine with a GPU (KubeVirt 1.9,
pkg/virt-controller/services): what decides whether a device of ours arrives in it and can be used by its user.

The program is not KubeVirt's: it prints the devices and the variables that virt-launcher would look for, and stays. Left
out is what nodes of the local cluster have none of: KubeVirt's own devices (kvm, tun, vhost-net) and ephemeral storage.
"""

_USER = 107  # qemu's
_SHARE, _PRIVATE = "/var/run/kubevirt", "/var/run/kubevirt-private"
_DISKS, _HOTPLUG = "container-disks", "hotplug-disks"
# As they were given: a shell passes on no variable whose name has a hyphen.
_SCRIPT = ("find /dev/vfio ! -type d; tr '\\0' '\\n' < /proc/1/environ | grep PCI_RESOURCE_; touch /tmp/shown; "
           "exec sleep infinity")


def _mount(name, path, **more):
    return {"name": name, "mountPath": path, **more}


def pod(name, resource, node):
    """`resource` as a virtual machine names it: the request of its compute container."""
    machine = name.removeprefix("virt-launcher-")
    memory = "64Mi"  # of the guest, and more for QEMU; nothing of either runs
    compute = {
        "name": "compute", "image": "docker.io/pitcrew/pitcrew:v26.7.0", "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c"], "args": [_SCRIPT],
        "env": [{"name": "XDG_CACHE_HOME", "value": _PRIVATE}, {"name": "XDG_CONFIG_HOME", "value": _PRIVATE},
                {"name": "XDG_RUNTIME_DIR", "value": "/var/run"},
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "securityContext": {"runAsUser": _USER, "runAsGroup": _USER, "runAsNonRoot": True,
                            "allowPrivilegeEscalation": False,
                            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}},
        "resources": {"requests": {"cpu": "10m", "memory": memory, resource: "1"},
                      "limits": {resource: "1"}},
        "volumeMounts": [_mount("private", _PRIVATE), _mount("public", _SHARE),
                         _mount("ephemeral-disks", f"{_SHARE}-ephemeral-disks"),
                         _mount(_DISKS, f"{_SHARE}/{_DISKS}", mountPropagation="HostToContainer"),
                         _mount("libvirt-runtime", "/var/run/libvirt"), _mount("sockets", f"{_SHARE}/sockets"),
                         _mount(_HOTPLUG, f"{_SHARE}/{_HOTPLUG}", mountPropagation="HostToContainer")],
        "startupProbe": {"exec": {"command": ["/bin/test", "-e", "/tmp/shown"]}, "periodSeconds": 1,
                         "failureThreshold": 300},
        "terminationMessagePolicy": "FallbackToLogsOnError"}
    volumes = [mount["name"] for mount in compute["volumeMounts"]] + ["virt-bin-share-dir"]
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"kubevirt.io": "virt-launcher", "vm.kubevirt.io/name": machine,
                                                  "kubevirt.io/nodeName": node},
                         "annotations": {"kubevirt.io/domain": machine,
                                         "kubectl.kubernetes.io/default-container": "compute"}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "hostname": machine,
                     "automountServiceAccountToken": False, "enableServiceLinks": False,
                     "securityContext": {"runAsUser": _USER, "runAsGroup": _USER, "runAsNonRoot": True,
                                         "fsGroup": _USER},
                     "readinessGates": [{"conditionType": "kubevirt.io/virtual-machine-unpaused"}],
                     "nodeSelector": {"kubernetes.io/hostname": node}, "containers": [compute],
                     "volumes": [{"name": volume, "emptyDir": {}} for volume in volumes]}}
