"""The life of a bare cluster: up, up again, interrupted at any moment, down; nothing is ever left behind."""

import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

import support  # first: it sets the state folder
from cluster import api, processes
from cluster.state import State

NAME = support.cluster_name()
FILE = f"""name: {NAME}
nodes:
  - {{name: one, labels: {{example.com/rack: r1}}, taints: [{{key: example.com/kept, effect: NoSchedule}}]}}
  - name: two
"""
# The `up` is killed as soon as it has begun the step after the one named.
MOMENTS = ["record", "control plane: namespaces", "control plane: kube-apiserver", "nodes: control groups",
           "nodes: namespaces", "nodes: containerd", "nodes: images"]


class Lifecycle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.file = pathlib.Path(folder.name) / "cluster.yaml"
        cls.file.write_text(FILE, encoding="utf-8")
        cls.addClassCleanup(support.run, "down", NAME)

    def assert_nothing_left(self, before):
        self.assertEqual(support.Machine(NAME).differences(before), {})

    def test_up_twice_and_down(self):
        before = support.Machine(NAME)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup; the services must not inherit it
        first = support.up(self.file, "--bare")
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self.assertEqual(first.returncode, 0, first.stdout)
        state = State(NAME)
        self.assertIn(f"export KUBECONFIG={state.kubeconfig}", first.stdout)
        client = api.Api(state.kubeconfig)
        nodes = {node["metadata"]["name"]: node for node in client.get("/api/v1/nodes")["items"]}
        self.assertEqual(set(nodes), {"one", "two"})
        for node in nodes.values():
            self.assertTrue(api.has_condition(node, "Ready"))
            self.assertTrue(node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.35."))
            self.assertTrue(node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://2."))
        self.assertEqual(nodes["one"]["metadata"]["labels"]["example.com/rack"], "r1")
        self.assertIn({"key": "example.com/kept", "effect": "NoSchedule"}, nodes["one"]["spec"]["taints"])

        running = {process.pid for process in processes.of_cluster(NAME)}
        second = support.up(self.file, "--bare")
        self.assertEqual(second.returncode, 0, second.stdout)
        self.assertIn("it is up already", second.stdout)
        self.assertEqual({process.pid for process in processes.of_cluster(NAME)}, running)

        status = support.run("status", NAME)
        self.assertEqual(status.returncode, 0, status.stdout)
        for word in ("one", "two", "kubelet", "containerd", "kube-apiserver"):
            self.assertIn(word, status.stdout)

        other = self.file.with_name("other.yaml")
        other.write_text(FILE + "  - name: three\n", encoding="utf-8")
        refused = support.up(other, "--bare")
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn("another description", refused.stdout)
        self.assertEqual({process.pid for process in processes.of_cluster(NAME)}, running)

        self.another_state_folder_is_refused()
        self.assertEqual({process.pid for process in processes.of_cluster(NAME)}, running)
        self.runtime_comes_back()
        down = support.run("down", NAME)
        self.assertEqual(down.returncode, 0, down.stdout)
        self.assert_nothing_left(before)
        again = support.run("down", NAME)
        self.assertEqual(again.returncode, 0, again.stdout)
        self.assertIn("There is no cluster", again.stdout)

    def another_state_folder_is_refused(self):
        """A cluster of the same name that belongs to somebody else is not touched."""
        with tempfile.TemporaryDirectory() as folder:
            for words in (["up", "--bare", "--build", support.BUILD, self.file], ["down", NAME]):
                result = subprocess.run(support.command(*words), cwd=support.ROOT, capture_output=True, text=True,
                                        env={**os.environ, "PITCREW_STATE": folder}, check=False)
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertIn(str(support.STATE), result.stderr)

    def runtime_comes_back(self):
        """As under systemd: a container runtime that is told to end (the container toolkit sends SIGHUP) is started
        again."""
        def containerd():
            return next(p.pid for p in processes.of_cluster(NAME) if p.role == "two" and p.command == "containerd")
        old = containerd()
        handle = os.pidfd_open(old)
        os.kill(old, signal.SIGHUP)  # which `up` ignored when it started this
        log = State(NAME).log("two-init")
        with open(log, encoding="utf-8") as stream, subprocess.Popen(
                ["tail", "--follow", "--lines=+1", str(log)], stdout=subprocess.PIPE, text=True) as tail:
            del stream
            starts = 0
            for line in tail.stdout:
                starts += "ready {'service': 'containerd'}" in line
                if starts == 2:
                    break
            tail.terminate()
        os.close(handle)
        self.assertNotEqual(containerd(), old)

    def test_interrupted_up_leaves_nothing_after_down(self):
        before = support.Machine(NAME)
        for moment in MOMENTS:
            with self.subTest(moment):
                self.interrupt_after(moment)
                down = support.run("down", NAME)
                self.assertEqual(down.returncode, 0, down.stdout)
                self.assert_nothing_left(before)

    def interrupt_after(self, step):
        with subprocess.Popen(support.command("up", "--build", support.BUILD, "--bare", self.file), cwd=support.ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as up:
            lines = []
            for line in up.stdout:
                lines.append(line)
                if line.strip().startswith(step + " "):
                    up.kill()
                    break
            else:
                self.fail(f"`{step}` never came:\n" + "".join(lines))
            up.stdout.close()

    def test_up_after_an_interruption_starts_anew(self):
        before = support.Machine(NAME)
        self.interrupt_after("nodes: containerd")
        again = support.up(self.file, "--bare")
        self.assertEqual(again.returncode, 0, again.stdout)
        self.assertIn("interrupted", again.stdout)
        # A second cluster beside it, then only that one goes.
        other = self.file.with_name("beside.yaml")
        side = support.cluster_name()
        other.write_text(f"name: {side}\nnodes: [{{name: one}}]\n", encoding="utf-8")
        self.addCleanup(support.run, "down", side)
        beside = support.up(other, "--bare")
        self.assertEqual(beside.returncode, 0, beside.stdout)
        self.assertEqual(support.run("down", side).returncode, 0)
        nodes = api.Api(State(NAME).kubeconfig).get("/api/v1/nodes")["items"]
        self.assertEqual(len(nodes), 2)
        self.assertEqual(support.run("down", NAME).returncode, 0)
        self.assert_nothing_left(before)

    def test_a_failed_step_says_which_why_and_where_its_log_is(self):
        before = support.Machine(NAME)
        folder = pathlib.Path(self.file.parent) / "programs"
        folder.mkdir()
        # An etcd that tells a fitting version and then does not start.
        etcd = folder / "etcd"
        etcd.write_text("#!/bin/sh\n[ \"$1\" = --version ] && { echo 'etcd Version: 3.6.99'; exit; }\n"
                        "echo 'no room on the disk' >&2; exit 1\n", encoding="utf-8")
        etcd.chmod(0o755)
        os.environ["PITCREW_PROGRAMS"] = str(folder)
        self.addCleanup(os.environ.pop, "PITCREW_PROGRAMS")
        failed = support.up(self.file, "--bare")
        self.assertEqual(failed.returncode, 1, failed.stdout)
        self.assertRegex(failed.stdout, r"control plane: etcd +failed")
        self.assertIn("no room on the disk", failed.stdout)
        self.assertIn(str(State(NAME).log("control-plane-etcd")), failed.stdout)
        self.assertEqual(support.run("down", NAME).returncode, 0)
        self.assert_nothing_left(before)


if __name__ == "__main__":
    unittest.main()
