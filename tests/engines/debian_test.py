"""Debian's engines: containerd 1.6 and Docker 20.10, with runc and crun; and the cluster's containerd."""

import json
import unittest

import cases
import engines
import unittest_main

_RUNTIMES = {"runtimes": {"other": {"path": "/usr/bin/crun"}}}


class Containerd16(cases.EngineTest):
    BY_CDI = False
    LOW_LEVEL = "runc"

    @classmethod
    def make(cls, archives):
        return engines.Containerd(engines.CONTAINERD_DEBIAN, 2, archives)


class Containerd16WithCrun(cases.EngineTest):
    BY_CDI = False
    LOW_LEVEL = "crun"

    @classmethod
    def make(cls, archives):
        return engines.Containerd(engines.CONTAINERD_DEBIAN, 2, archives, "crun")


class Docker(cases.EngineTest):
    BY_CDI = BY_ANNOTATION = False

    @classmethod
    def make(cls, archives):
        # Tabs and no newline at the end: as no program of ours would write it.
        return engines.Docker(json.dumps({
            "live-restore": True, "debug": False, "registry-mirrors": ["https://mirror.example"],
            "features": {"buildkit": True}, **_RUNTIMES}, indent="\t"), archives)

    def test_1_earlier_settings_are_kept(self):
        told = self.engine.information()
        self.assertEqual(told["RegistryConfig"]["Mirrors"], ["https://mirror.example/"])
        self.assertTrue(told["LiveRestoreEnabled"])
        self.assertLessEqual({"runc", "other", "nvidia", "nvidia-cdi", "nvidia-legacy"}, set(told["Runtimes"]))
        self.assertEqual(told["DefaultRuntime"], "runc")


class DefaultOverCrun(unittest.TestCase):
    """Our runtime in the place of crun as the default: containerd tells no more that it was crun."""

    def test_another_start_changes_nothing(self):
        cases.need_root()
        with cases.images() as archives:
            engine = engines.Containerd(engines.CONTAINERD_DEBIAN, 2, archives, "crun")
            self.addCleanup(engine.close)
            engine.configure(NVIDIA_RUNTIME_SET_AS_DEFAULT="true")
            container = engine.run("all", environment={"NVIDIA_VISIBLE_DEVICES": "all"})
            self.assertEqual(engine.low_level(container), "crun")
            files = {path: engine.host.read(path) for path in engine.files()}
            process = engine.host.engine_pid(engine.program)
            engine.host.kill_toolkit()
            engine.configure(NVIDIA_RUNTIME_SET_AS_DEFAULT="true")
            self.assertEqual(engine.host.engine_pid(engine.program), process)
            self.assertEqual({path: engine.host.read(path) for path in files}, files)
            self.assertIn("GPU 0 of 2", engine.execute(container, "/usr/bin/vectorAdd")[1])
            self.assertEqual(engine.low_level(engine.run("again")), "crun")


class WithoutCdi(unittest.TestCase):
    """cdi.enabled: false of the policy. The runtime asks for no CDI either, and finds its own specification all the same."""

    def test_gpus_by_environment(self):
        cases.need_root()
        with cases.images() as archives:
            engine = engines.Containerd(engines.CONTAINERD_DEBIAN, 2, archives)
            self.addCleanup(engine.close)
            engine.configure(CDI_ENABLED="false", RUNTIME_ENABLE_CDI="false", NVIDIA_RUNTIME_SET_AS_DEFAULT="true")
            for asked, count in (("all", 2), ("1", 1)):
                with self.subTest(asked):
                    container = engine.run(f"gpus-{asked}", environment={"NVIDIA_VISIBLE_DEVICES": asked})
                    self.assertIn(f"GPU 0 of {count}", engine.execute(container, "/usr/bin/vectorAdd")[1])
            container = engine.run("none", environment={"NVIDIA_VISIBLE_DEVICES": "void"})
            self.assertNotIn("nvidia", engine.execute(container, "/bin/ls", "/dev")[1])
            self.assertNotIn("management", engine.host.run("ls", "/var/run/cdi"))


class Containerd16Pairs(cases.VersionPairTest):
    VERSION = engines.CONTAINERD_DEBIAN


class Containerd22Pairs(cases.VersionPairTest):
    VERSION = engines.CONTAINERD_CLUSTER


if __name__ == "__main__":
    unittest_main.main()
