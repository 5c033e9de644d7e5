#!/usr/bin/env python3
"""`make push`, against a real registry on loopback: what arrives is what was built, for both architectures."""

import base64
import hashlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

import yaml

import support
from apiserver import find_program
import unittest_main

IMAGE = support.ROOT / "deploy/image"
BUILD = IMAGE / "build.py"
PUSH = IMAGE / "push.py"
RECIPE = """
image: docker.io/pitcrew/pitcrew
tag: v26.7.0
config: {Entrypoint: [/bin/sh]}
texts: {/etc/hello: "hello ${triplet}\\n"}
"""
ARCHITECTURES = ("amd64", "arm64")
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_port(port, process, log):
    """Connects until the program listens; ends with its own words when it has ended."""
    while process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                return
        except ConnectionRefusedError:
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                pass
    raise AssertionError(f"{process.args[0]} ended:\n{pathlib.Path(log).read_text(encoding='utf-8')}")


class Registry:
    def __init__(self, folder, extra=None):
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        config = {"version": 0.1, "log": {"level": "warn"}, "http": {"addr": self.host},
                  "storage": {"filesystem": {"rootdirectory": f"{folder}/registry"}}, **(extra or {})}
        (folder / "registry.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        with open(folder / "registry.log", "wb") as log:
            self.process = subprocess.Popen([find_program("docker-registry"), "serve", f"{folder}/registry.yaml"],
                                            stdout=log, stderr=log)
        await_port(self.port, self.process, folder / "registry.log")

    def end(self):
        self.process.terminate()
        self.process.wait()

    def get(self, path, accept):
        """The body and the media type."""
        connection = http.client.HTTPConnection(self.host, timeout=240)
        try:
            connection.request("GET", path, headers={"Accept": accept})
            answer = connection.getresponse()
            return answer.read(), answer.getheader("Content-Type")
        finally:
            connection.close()


class Push(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.built = tempfile.TemporaryDirectory(prefix="pitcrew-push-")
        cls.addClassCleanup(cls.built.cleanup)
        recipe = pathlib.Path(cls.built.name, "pitcrew.yaml")
        recipe.write_text(RECIPE, encoding="utf-8")
        cls.archives = {}
        for name in ARCHITECTURES:
            subprocess.run([sys.executable, BUILD, "--build", cls.built.name, "--into", f"{cls.built.name}/{name}",
                            "--architecture", name, recipe], check=True, capture_output=True)
            cls.archives[name] = pathlib.Path(cls.built.name, name, "pitcrew.tar")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pitcrew-push-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.values = self.folder / "values.yaml"

    def registry(self, extra=None):
        registry = Registry(self.folder, extra)
        self.addCleanup(registry.end)
        return registry

    def push(self, to, *architectures, arguments=("--insecure",), **environment):
        return subprocess.run([sys.executable, PUSH, "--to", to, "--values", self.values, *arguments,
                               *(self.archives[name] for name in architectures)], capture_output=True, text=True,
                              check=False, env={**os.environ, "REGISTRY_AUTH_FILE": f"{self.folder}/none.json",
                                                **environment})

    def test_both_architectures_are_one_tag(self):
        registry = self.registry()
        result = self.push(f"{registry.host}/some/team", *ARCHITECTURES)
        self.assertEqual(result.returncode, 0, result.stderr)
        index, kind = registry.get("/v2/some/team/pitcrew/manifests/v26.7.0", INDEX)
        self.assertEqual(kind, INDEX)
        digest = f"sha256:{hashlib.sha256(index).hexdigest()}"
        self.assertIn(f"pushed {registry.host}/some/team/pitcrew:v26.7.0@{digest} (amd64, arm64)", result.stdout)
        manifests = json.loads(index)["manifests"]
        self.assertEqual([one["platform"] for one in manifests],
                         [{"architecture": name, "os": "linux"} for name in ARCHITECTURES])
        # What lies there is what the archives hold, byte for byte: the image's identity on a node is its configuration.
        for one, name in zip(manifests, ARCHITECTURES):
            manifest, _ = registry.get(f"/v2/some/team/pitcrew/manifests/{one['digest']}", MANIFEST)
            config = json.loads(manifest)["config"]["digest"].removeprefix("sha256:")
            listed = subprocess.run(["tar", "--list", "--file", self.archives[name]], capture_output=True, text=True,
                                    check=True).stdout.splitlines()
            self.assertIn(f"{config}.json", listed)
            for layer in json.loads(manifest)["layers"]:
                self.assertIn(f"{layer['digest'].removeprefix('sha256:')}.tar.gz", listed)

    def test_one_architecture_is_a_plain_manifest_and_the_same_twice(self):
        registry = self.registry()
        first = self.push(f"{registry.host}/team", "arm64")
        second = self.push(f"{registry.host}/team", "arm64")
        self.assertEqual((first.returncode, second.returncode), (0, 0), first.stderr + second.stderr)
        self.assertEqual(first.stdout, second.stdout)
        manifest, kind = registry.get("/v2/team/pitcrew/manifests/v26.7.0", f"{MANIFEST}, {INDEX}")
        self.assertEqual(kind, MANIFEST)
        self.assertIn(f"@sha256:{hashlib.sha256(manifest).hexdigest()} (arm64)", first.stdout)

    def test_credentials_come_from_the_file_that_skopeo_reads(self):
        # "right", with bcrypt: the only kind that the registry takes.
        (self.folder / "htpasswd").write_text(
            "someone:$2b$05$abcdefghijklmnopqrstuu8xaCxxL82bnl.UY74PMksDxIJShppPC\n", encoding="utf-8")
        registry = self.registry({"auth": {"htpasswd": {"realm": "test", "path": f"{self.folder}/htpasswd"}}})
        refused = self.push(f"{registry.host}/team", "amd64")
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"skopeo login {registry.host}", refused.stderr)
        self.assertIn("REGISTRY_AUTH_FILE", refused.stderr)
        self.assertFalse(self.values.exists())
        auth = self.folder / "auth.json"
        for password, code in (("wrong", 1), ("right", 0)):
            word = base64.b64encode(f"someone:{password}".encode()).decode()
            auth.write_text(json.dumps({"auths": {registry.host: {"auth": word}}}), encoding="utf-8")
            result = self.push(f"{registry.host}/team", "amd64", REGISTRY_AUTH_FILE=str(auth))
            self.assertEqual(result.returncode, code, result.stderr)

    def test_plain_http_is_only_spoken_when_it_is_meant(self):
        registry = self.registry()
        result = self.push(f"{registry.host}/team", "amd64", arguments=())
        self.assertEqual(result.returncode, 1)
        self.assertIn("speaks plain HTTP", result.stderr)
        self.assertIn("INSECURE=1", result.stderr)

    def test_nobody_listens(self):
        result = self.push(f"127.0.0.1:{free_port()}/team", "amd64")
        self.assertEqual(result.returncode, 1)
        self.assertIn("reachable from here?", result.stderr)

    def test_what_cannot_be_pushed_is_said_before_anything_is_sent(self):
        for to, words in (("https://registry.example.com/team", "without https://"), ("team", "REGISTRY/PATH"),
                          ("registry.example.com", "REGISTRY/PATH"), ("registry.example.com/Team", "lower case")):
            result = self.push(to, "amd64")
            self.assertEqual(result.returncode, 2, to)
            self.assertIn(words, result.stderr)
        result = self.push("registry.example.com/team", "amd64", "amd64")
        self.assertEqual(result.returncode, 1)
        self.assertIn("are both docker.io/pitcrew/pitcrew:v26.7.0 for amd64", result.stderr)
        broken = self.folder / "broken.tar"
        broken.write_bytes(b"no archive")
        result = self.push("registry.example.com/team", arguments=("--insecure", broken))
        self.assertEqual(result.returncode, 1)
        self.assertIn("is not an image archive", result.stderr)

    def test_the_values_make_the_chart_use_it(self):
        registry = self.registry()
        to = f"{registry.host}/team"
        result = self.push(to, "amd64", arguments=("--insecure", "--pull-secret", "pull"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"-f {os.path.relpath(self.values)}", result.stdout)
        objects = support.render("--values", self.values)
        text = yaml.safe_dump_all(objects.values())
        self.assertNotIn("docker.io/pitcrew", text)
        self.assertIn(f"image: {to}/pitcrew:v26.7.0", text)
        ours = 0
        for name, item in objects.items():
            pod = item.get("spec", {}).get("template", {}).get("spec")
            if pod and any(container["image"].startswith(to) for container in pod["containers"]):
                self.assertEqual(pod.get("imagePullSecrets"), [{"name": "pull"}], name)
                ours += 1
        self.assertGreaterEqual(ours, 3)  # the operator, NFD's worker and master
        spec = objects["ClusterPolicy/cluster-policy"]["spec"]
        self.assertEqual((spec["devicePlugin"]["repository"], spec["devicePlugin"]["imagePullSecrets"]), (to, ["pull"]))

    @unittest.skipUnless(os.geteuid() == 0, "containerd mounts, which needs root")
    def test_a_nodes_containerd_pulls_each_architecture(self):
        registry = self.registry()
        result = self.push(f"{registry.host}/team", *ARCHITECTURES)
        self.assertEqual(result.returncode, 0, result.stderr)
        socket_path = self.folder / "containerd.sock"
        (self.folder / "containerd.toml").write_text(
            f'version = 3\nroot = "{self.folder}/root"\nstate = "{self.folder}/state"\n'
            'disabled_plugins = ["io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"]\n'
            f'[grpc]\naddress = "{socket_path}"\n[ttrpc]\naddress = "{socket_path}.ttrpc"\n', encoding="utf-8")
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(notify.close)
        notify.bind(f"{self.folder}/notify")
        notify.settimeout(120)
        with open(self.folder / "containerd.log", "wb") as log:
            process = subprocess.Popen([find_program("containerd"), "--config", f"{self.folder}/containerd.toml"],
                                       stdout=log, stderr=log,
                                       env={**os.environ, "NOTIFY_SOCKET": f"{self.folder}/notify"})
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        while b"READY=1" not in notify.recv(4096):
            pass
        ctr = [find_program("ctr"), "--address", str(socket_path)]
        image = f"{registry.host}/team/pitcrew:v26.7.0"
        for name in ARCHITECTURES:
            pulled = subprocess.run([*ctr, "images", "pull", "--plain-http", "--platform", f"linux/{name}", image],
                                    capture_output=True, text=True, check=False)
            self.assertEqual(pulled.returncode, 0, pulled.stderr)
            exported = self.folder / f"{name}.tar"
            subprocess.run([*ctr, "images", "export", "--platform", f"linux/{name}", str(exported), image], check=True,
                           capture_output=True)
            pushed = subprocess.run(["tar", "--list", "--file", self.archives[name]], capture_output=True, text=True,
                                    check=True).stdout.splitlines()
            blobs = subprocess.run(["tar", "--list", "--file", exported], capture_output=True, text=True,
                                   check=True).stdout
            for member in pushed:
                if member != "manifest.json":
                    self.assertIn(f"blobs/sha256/{member.split('.')[0]}\n", blobs)


if __name__ == "__main__":
    unittest_main.main()
