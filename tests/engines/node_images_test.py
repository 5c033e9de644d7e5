"""Nodes of clouds, as their documents describe them: the files and folders of these nodes, not their images."""

import unittest

import cases
import engines
import host
import unittest_main

_CRI2 = "plugins.'io.containerd.grpc.v1.cri'"

# A root that cannot be written but for what the cloud itself has in /home/kubernetes.
_GKE = engines.Node(f"""version = 2
oom_score = 0
[{_CRI2}]
  sandbox_image = "{host.PAUSE}"
  restrict_oom_score_adj = true
[{_CRI2}.cni]
  bin_dir = "/home/kubernetes/bin"
  conf_dir = "/etc/cni/own.d"
[{_CRI2}.registry]
  config_path = "/etc/containerd/hosts.d"
[{_CRI2}.containerd]
  default_runtime_name = "runc"
[{_CRI2}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
""", binds={"/home/kubernetes/bin/loopback": "/usr/lib/cni/loopback"}, commands=(
    ["/usr/bin/mkdir", "-p", "/usr/local/nvidia"],
    ["/usr/bin/mount", "--bind", "/usr/local", "/usr/local"],
    ["/usr/bin/mount", "-o", "remount,bind,ro", "/usr/local"]))

# NVIDIA's runtime is in the image, the only one that the root file names, and the default; ours stands in for it.
def _eks(version):
    runtimes, images = (f"plugins.'{table}'" for table in engines.cri_tables(version))
    sandbox, cni = ((f"[{images}.pinned_images]\n  sandbox =", 'bin_dirs = ["/usr/lib/cni"]') if version == 3 else
                    (f"[{images}]\n  sandbox_image =", 'bin_dir = "/usr/lib/cni"'))
    return engines.Node(f"""version = {version}
oom_score = 0
{sandbox} "{host.PAUSE}"
{f"[{runtimes}]" if version == 3 else ""}
  restrict_oom_score_adj = true
[{images}.registry]
  config_path = "/etc/containerd/certs.d:/etc/docker/certs.d"
[{runtimes}.cni]
  {cni}
  conf_dir = "/etc/cni/own.d"
[{runtimes}.containerd]
  default_runtime_name = "nvidia"
[{runtimes}.containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
  base_runtime_spec = "/etc/containerd/base-runtime-spec.json"
  [{runtimes}.containerd.runtimes.nvidia.options]
    BinaryName = "/usr/bin/nvidia-container-runtime"
""", binds={f"/usr/bin/{name}": str(host.BUILD / "bin/nvidia-container-runtime")
            for name in ("nvidia-container-runtime", "nvidia-cdi-hook")}, commands=(
        ["/bin/sh", "-c", "/opt/engine/ctr oci spec | sed 's/: 1024/: 777/' > /etc/containerd/base-runtime-spec.json"],))


class NodeImages(unittest.TestCase):
    def test_gke(self):
        """Everything that was set stays so, and what cannot be written is not needed.

        Holds runtimes-and-distributions.md #38."""
        cases.need_root()
        engine = engines.Containerd(engines.CONTAINERD_CLUSTER, 2, self.enterContext(cases.images()), node=_GKE)
        self.addCleanup(engine.close)
        self.assertNotEqual(engine.host.try_run("touch", "/usr/local/nvidia/file")[0], 0)
        before = engine.dump()
        engine.configure(ROOT="/home/kubernetes/bin/nvidia")
        told, expected = cases.leaves(engine.dump()), cases.leaves(before)
        self.assertEqual(told[("plugins", "io.containerd.cri.v1.runtime", "cni", "bin_dirs")], ["/home/kubernetes/bin"])
        self.assertEqual(told[("plugins", "io.containerd.cri.v1.images", "registry", "config_path")],
                         "/etc/containerd/hosts.d")
        del expected[("imports",)]
        self.assertEqual({path: told.get(path) for path in expected}, expected)
        container = engine.run("gpus", runtime="nvidia", environment={"NVIDIA_VISIBLE_DEVICES": "all"})
        self.assertIn("Test PASSED", engine.execute(container, "/usr/bin/vectorAdd")[1])
        engine.host.stop_toolkit()
        self.assertEqual(engine.dump(), before)

    def test_eks(self):
        """The default is the one that was there, makes containers as before, and is there when the toolkit has left. Where
        the engine has CDI, it gives GPUs by that without the toolkit.

        Holds runtimes-and-distributions.md #36."""
        cases.need_root()
        archives = self.enterContext(cases.images())
        for version, file_version in ((engines.CONTAINERD_DEBIAN, 2), (engines.CONTAINERD_CLUSTER, 3)):
            with self.subTest(version.name):
                engine = engines.Containerd(version, file_version, archives, node=_eks(file_version))
                try:
                    self.try_eks(engine, file_version)
                finally:
                    engine.close()

    def try_eks(self, engine, file_version):
        before, files = engine.dump(), {path: engine.host.read(path) for path in engine.files()}
        if file_version == 3:
            engine.host.run("/opt/image/usr/bin/nvidia-ctk", "cdi", "generate",
                            "--nvidia-cdi-hook-path=/usr/bin/nvidia-cdi-hook", f"--output={cases.GENERATED}")
            self.expect_gpus(engine, "cdi", devices=["nvidia.com/gpu=all"])
        engine.configure()
        process = engine.host.engine_pid(engine.program)
        for start in range(2):
            told = engine.dump()["plugins"][engines.cri_tables(file_version)[0]]["containerd"]
            self.assertEqual(told["default_runtime_name"], "nvidia")
            self.expect_gpus(engine, f"default-{start}", environment={"NVIDIA_VISIBLE_DEVICES": "all"})
            engine.host.kill_toolkit()
            engine.configure()
            self.assertEqual(engine.host.engine_pid(engine.program), process)
        engine.host.stop_toolkit()
        self.assertEqual(engine.dump(), before)
        self.assertEqual({path: engine.host.read(path) for path in files}, files)

    def expect_gpus(self, engine, name, **container):
        """With the limit that the node's own specification has."""
        identifier = engine.run(name, **container)
        status, told = engine.execute(identifier, "/bin/sh", "-c", "ulimit -n; vectorAdd")
        self.assertEqual((status, told.split()[0]), (0, "777"))
        self.assertIn("Test PASSED", told)


if __name__ == "__main__":
    unittest_main.main()
