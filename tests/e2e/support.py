"""What the end-to-end tests share: running the tool under a state folder of their own, and looking for traces."""

import atexit
import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests"))

# Before the tool's modules look: a person's own clusters are elsewhere.
STATE = pathlib.Path(tempfile.mkdtemp(prefix="pitcrew-e2e-"))
os.environ["PITCREW_STATE"] = str(STATE)
atexit.register(shutil.rmtree, STATE, ignore_errors=True)

from cluster import api, chart, enter, images, linux  # noqa: E402  pylint: disable=wrong-import-position
from cluster.state import State  # noqa: E402  pylint: disable=wrong-import-position
from processes import eventually  # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
OPERATOR_PODS = f"/api/v1/namespaces/{chart.NAMESPACE}/pods"
SECONDS = 300  # for what takes a few on an idle machine


def cluster_name():
    """A name that no other run on this machine has."""
    return "e" + secrets.token_hex(3)


BUILD = pathlib.Path(os.environ.get("PITCREW_BUILD", ROOT / "build/release"))


def command(*arguments):
    return [sys.executable, "-m", "cluster", *map(str, arguments)]


def run(*arguments, timeout=600):
    """Runs the tool; its output, standard error included, is in `stdout`."""
    return subprocess.run(command(*arguments), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=timeout, check=False)


def up(file, *arguments, timeout=600):
    return run("up", "--build", BUILD, *arguments, file, timeout=timeout)


class BareClusterTest(unittest.TestCase):
    """A cluster of their own for all tests of a class, without the operator. A class says NAME and FILE (the cluster's
    description, YAML)."""
    NAME = FILE = None

    @classmethod
    def setUpClass(cls):
        cls.bring_up("--bare")

    @classmethod
    def write(cls, name, text):
        """A file that lasts as long as the class's tests."""
        path = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory())) / name
        path.write_text(text, encoding="utf-8")
        return path

    @classmethod
    def bring_up(cls, *arguments):
        cls.addClassCleanup(run, "down", cls.NAME)
        result = up(cls.write("cluster.yaml", cls.FILE), *arguments)
        print(result.stdout, flush=True)
        if result.returncode != 0:
            raise AssertionError(f"up ended with {result.returncode}")
        cls.state = State(cls.NAME)
        cls.client = api.Api(cls.state.kubeconfig)

    @classmethod
    def bring_driver(cls, version, nodes):
        """These nodes have the image of that version of the simulated driver."""
        folder = cls.write("marker", "").parent / version
        folder.mkdir()
        subprocess.run([sys.executable, str(images.ROOT / "deploy/image/build.py"), "--build", str(BUILD),
                        "--into", str(folder), "--set", f"driver_version={version}",
                        str(images.ROOT / "deploy/image/recipes/simulated-driver.yaml")],
                       check=True, stdout=subprocess.DEVNULL)
        images.import_into(cls.state, list(nodes), images.archives(folder))

    def on(self, node, *argv):
        """What a command on the node prints; it succeeds."""
        result = enter.run(self.state, node, list(argv), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout.strip()

    def label(self, node, name, value):
        self.client.request("PATCH", f"{NODES}/{node}", {"metadata": {"labels": {name: value}}},
                            content_type="application/merge-patch+json")

    def await_event(self, node, reason, text):
        for _, event in self.client.watch(EVENTS, SECONDS):
            if event["reason"] == reason and event["involvedObject"]["name"] == node and text in event["message"]:
                return
        self.fail(f"no Event {reason} with {text!r}")

    def create(self, *pods):
        """They are gone at the end of the test."""
        for pod in pods:
            self.client.create(PODS, pod)
        # Clean-ups run backwards: all are deleted before the first is waited for.
        for pod in pods:
            self.addCleanup(self.client.wait_gone, PODS, pod["metadata"]["name"], SECONDS)
        for pod in pods:
            self.addCleanup(self.client.delete, f"{PODS}/{pod['metadata']['name']}")

    def await_all_ready(self, names, again=None):
        """Waits until all these pods are. `again`: pods by their names, of which those that fail for a kubelet that
        restarts are made anew, as a controller does: until the plugin has registered with it, no device is there, and
        a container that it was starting as it ended has failed."""
        missing, again, refused = set(names), again or {}, set()
        for kind, pod in self.client.watch(PODS, SECONDS):
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            if name not in missing or uid in refused or kind == "DELETED":
                continue
            if name in again and fails_with_the_kubelet(pod):
                refused.add(uid)
                self.client.delete(f"{PODS}/{name}")
                self.client.wait_gone(PODS, name, SECONDS)
                self.client.create(PODS, again[name])
                continue
            self.assertNotIn(pod["status"].get("phase"), ("Failed", "Succeeded"), pod["status"])
            if api.has_condition(pod, "Ready"):
                missing.discard(name)
            if not missing:
                return
        self.fail(f"{sorted(missing)} are not ready: {self.client.get(f'{PODS}/{min(missing)}')['status']}")


def fails_with_the_kubelet(pod):
    states = [one["state"].get("terminated", {}) for one in pod["status"].get("containerStatuses", [])]
    return pod["status"].get("reason") == "UnexpectedAdmissionError" or any(
        state.get("reason") == "StartError" and "context canceled" in state.get("message", "") for state in states)


class ClusterTest(BareClusterTest):
    """The same with the operator, and the GPUs free. A class says VALUES too (Helm values, YAML)."""
    VALUES = None

    @classmethod
    def setUpClass(cls):
        cls.bring_up("--values", cls.write("values.yaml", cls.VALUES))
        # The samples of `up` hold GPUs.
        for name in ("one-gpu", "too-many-gpus"):
            cls.client.delete(f"{PODS}/{name}")
            cls.client.wait_gone(PODS, name, 180)

    def kill_device_plugin(self, node):
        """Returns when the next one runs."""
        pod = next(pod for pod in self.client.get(OPERATOR_PODS)["items"] if pod["spec"].get("nodeName") == node
                   and pod["metadata"]["labels"].get("app") == "nvidia-device-plugin-daemonset")

        def restarts(one):
            return next(status["restartCount"] if status.get("ready") else -1 for status in one["status"][
                "containerStatuses"] if status["name"] == "nvidia-device-plugin")
        before = restarts(pod)
        self.on(node, "kill", "-9", str(self.device_plugin(node)))
        self.assertIsNotNone(self.client.wait(OPERATOR_PODS, pod["metadata"]["name"], SECONDS,
                                              lambda one: restarts(one) > before))

    def kill_device_plugin_before(self, name, node, await_devices):
        """Between the allocation for this pod and its start. True where the pod then runs, false where the kubelet has
        refused it: the one other answer that is right, where no plugin could be asked."""
        # Scheduled, the kubelet has asked, or is just about to; both must end well.
        self.assertIsNotNone(self.client.wait(PODS, name, SECONDS, lambda one: api.has_condition(one, "PodScheduled")))
        self.kill_device_plugin(node)
        await_devices()
        final = self.client.wait(PODS, name, SECONDS, lambda one: (
            api.has_condition(one, "Ready") or one["status"].get("phase") == "Failed"))
        self.assertIsNotNone(final)
        if final["status"]["phase"] != "Failed":
            return True
        self.assertEqual(final["status"]["reason"], "UnexpectedAdmissionError", final["status"])
        return False

    def device_plugin(self, node):
        """Its process, as the node numbers it."""
        return int(self.on(node, "pgrep", "-xo", "nvidia-device-p"))


class Machine:
    """What of the machine a cluster could leave changed, as sets that can be compared."""

    def __init__(self, cluster):
        # Tests that run beside this one have mounts of their own in their temporary folders.
        self.mounts = {point for point in linux.mount_points() if not point.startswith(f"{tempfile.gettempdir()}/")
                       or point.startswith(str(STATE))}
        self.interfaces = {name for name in os.listdir("/sys/class/net")
                           if not name.startswith("pitcrew-") or name == f"pitcrew-{cluster}"}
        self.routes = {line for line in subprocess.run(["ip", "route"], capture_output=True, text=True,
                                                       check=True).stdout.splitlines() if "pitcrew-" not in line
                       or f"pitcrew-{cluster} " in line}
        name = f"pitcrew-{cluster}"
        groups = os.walk("/sys/fs/cgroup", onerror=_unless_gone)
        self.control_groups = {f"{folder}/{name}" for folder, names, _ in groups if name in names}
        self.processes = _processes_with(f"PITCREW_CLUSTER_PROCESS={cluster}".encode())
        self.named_namespaces = set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set()
        self.state = set(os.listdir(STATE)) if STATE.is_dir() else set()
        self.forwarding = pathlib.Path("/proc/sys/net/ipv4/ip_forward").read_text(encoding="ascii")

    def differences(self, other):
        return {name: (sorted(mine - theirs), sorted(theirs - mine)) if isinstance(mine, set) else (mine, theirs)
                for name, mine in vars(self).items() if mine != (theirs := getattr(other, name))}


def _unless_gone(problem):
    """Groups of other clusters and of programs beside this test come and go while the tree is walked: one that is gone
    is not this cluster's; one that cannot be read could be."""
    if not isinstance(problem, FileNotFoundError):
        raise problem


def _processes_with(marker):
    """Also those whose parents have ended: looked for by what they carry, and by the folder they work on."""
    found = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            environment = pathlib.Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            words = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes()
            state = pathlib.Path(f"/proc/{entry}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        ended = state.rpartition(")")[2].split()[0] in ("Z", "X")
        if not ended and (marker in environment or (str(STATE).encode() + b"/") in words):
            found.add(f"{entry} {words.replace(bytes(1), b' ').decode(errors='replace')[:80]}")
    return found
