"""What every engine is tried for. A test program makes classes of these for its engines."""

import contextlib
import os
import pathlib
import tempfile
import unittest

import engines
import host

ANNOTATIONS = "nvidia.cdi.k8s.io/"
GENERATED = "/etc/cdi/nvidia.yaml"
_SECOND_GPU = {"nvidiactl", "nvidia-uvm", "nvidia1"}


@contextlib.contextmanager
def images():
    with tempfile.TemporaryDirectory() as folder:
        yield host.build_images(pathlib.Path(folder))


def need_root():
    if os.geteuid() != 0:
        raise unittest.SkipTest("namespaces and mounts need root")


def leaves(tree, path=()):
    """{path: value} of what is set in nested tables."""
    if not isinstance(tree, dict):
        return {path: tree}
    return {at: value for name, below in tree.items() for at, value in leaves(below, (*path, name)).items()}


class EngineTest(unittest.TestCase):
    """Tests of one engine, in the order of their names: the toolkit comes while containers run and others are started, GPUs
    are used in every way, the engine is killed, the toolkit leaves. A class says how the engine is made."""

    BY_CDI = True  # the engine itself knows CDI
    BY_ANNOTATION = True
    TOOLKIT = {}
    LOW_LEVEL = None
    ENTERS_WITHOUT_RUNTIME = True
    KEPT = ()  # files of the toolkit that stay when it leaves, and its runtimes with them

    @classmethod
    def make(cls, archives):
        raise NotImplementedError

    @classmethod
    def setUpClass(cls):
        need_root()
        cls.engine = cls.make(cls.enterClassContext(images()))
        cls.addClassCleanup(cls.engine.close)
        cls.files_before = cls.files_now()
        cls.first = [cls.engine.run(f"before-{number}") for number in range(2)]
        load = engines.Load(cls.engine)
        load.await_more()
        cls.engine.configure(NVIDIA_CONTAINER_RUNTIME_MODES_CDI_ANNOTATION_PREFIXES=ANNOTATIONS, **cls.TOOLKIT)
        load.await_more()
        cls.under_load = load.end()
        cls.engine.host.run("/opt/image/usr/bin/nvidia-ctk", "cdi", "generate",
                            "--nvidia-cdi-hook-path=/usr/local/nvidia/toolkit/nvidia-cdi-hook", f"--output={GENERATED}")

    @classmethod
    def files_now(cls):
        return {path: cls.engine.host.read(path) for path in cls.engine.files()}

    def expect_gpus(self, container, *expected):
        """Device nodes and libraries are in the container, and a program uses a GPU with them."""
        status, told = self.engine.execute(container, "/bin/ls", "/dev")
        self.assertEqual(status, 0, told)
        self.assertEqual({name for name in told.split() if name.startswith("nvidia") and name[6:].isdigit()},
                         {f"nvidia{number}" for number in expected})
        status, told = self.engine.execute(container, "/usr/bin/vectorAdd")
        self.assertIn("Test PASSED", told)
        self.assertIn(f"GPU 0 of {len(expected)}", told)
        self.assertEqual(status, 0)
        if self.LOW_LEVEL:
            self.assertEqual(self.engine.low_level(container), self.LOW_LEVEL)

    def expect_running(self, containers):
        self.assertLessEqual(set(containers), self.engine.running())
        for container in containers:
            self.assertEqual(self.engine.execute(container, "/bin/echo", "here"), (0, "here\n"))

    def test_1_restart_by_the_toolkit_loses_no_container(self):
        """Those that ran, and those that were being started while the engine was restarted."""
        self.expect_running([*self.first, *self.under_load])

    def test_2_gpus_by_environment(self):
        """Through the shim."""
        self.expect_gpus(self.engine.run("all", runtime="nvidia", environment={"NVIDIA_VISIBLE_DEVICES": "all"}), 0, 1)
        self.expect_gpus(self.engine.run("one", runtime="nvidia", environment={"NVIDIA_VISIBLE_DEVICES": "1"}), 1)

    def test_2_none_by_environment(self):
        container = self.engine.run("none", runtime="nvidia", environment={"NVIDIA_VISIBLE_DEVICES": "void"})
        self.assertNotIn("nvidia", self.engine.execute(container, "/bin/ls", "/dev")[1])

    def test_2_gpus_by_cdi_names_in_the_environment(self):
        """Through the shim in its mode cdi."""
        self.expect_gpus(self.engine.run("cdi-environment", runtime="nvidia-cdi", environment={
            "NVIDIA_VISIBLE_DEVICES": "nvidia.com/gpu=1"}), 1)

    def test_2_gpus_by_annotation(self):
        """Through the shim, which the engine lets see these annotations."""
        if not self.BY_ANNOTATION:
            self.skipTest("its containers have no annotations")
        self.expect_gpus(self.engine.run("annotation", runtime="nvidia", annotations={
            f"{ANNOTATIONS}gpu": "nvidia.com/gpu=1"}), 1)

    def test_2_gpus_by_cdi(self):
        """By the engine itself, in a container of its default runtime, and in one of the shim's."""
        if not self.BY_CDI:
            self.skipTest("it knows no CDI")
        self.expect_gpus(self.engine.run("cdi", devices=["nvidia.com/gpu=0"]), 0)
        self.expect_gpus(self.engine.run("cdi-shim", runtime="nvidia", devices=["nvidia.com/gpu=1"]), 1)

    def test_2_a_device_that_is_not_there_is_an_error(self):
        with self.assertRaisesRegex(Exception, "nvidia.com/gpu=7"):
            self.engine.run("absent", runtime="nvidia-cdi", environment={"NVIDIA_VISIBLE_DEVICES": "nvidia.com/gpu=7"})

    def test_3_killed_engine_loses_no_container_with_gpus(self):
        """In the middle of starting others."""
        request = {"runtime": "nvidia", "environment": {"NVIDIA_VISIBLE_DEVICES": "all"}}
        before = [self.engine.run(f"killed-{number}", **request) for number in range(2)]
        load = engines.Load(self.engine, prefix="killed-load", **request)
        load.await_more()
        self.engine.host.kill_engine(self.engine.program)
        load.await_more()
        for container in [*before, *load.end()]:
            self.expect_gpus(container, 0, 1)

    def test_4_toolkit_that_leaves_restores_all(self):
        """Under load: the files are what they were, byte for byte, and so is what runs.

        Holds container-toolkit.md #40."""
        survivor = self.engine.run("survivor", runtime="nvidia", environment={"NVIDIA_VISIBLE_DEVICES": "all"})
        load = engines.Load(self.engine, prefix="leaving-load")
        load.await_more()
        self.engine.host.stop_toolkit()
        load.await_more()
        self.expect_running([*self.first, *load.end()])
        self.assertIn(survivor, self.engine.running())
        if self.ENTERS_WITHOUT_RUNTIME:
            self.expect_gpus(survivor, 0, 1)
        else:
            with self.assertRaisesRegex(Exception, 'no runtime for "nvidia" is configured'):
                self.engine.execute(survivor, "/bin/echo", "here")
        self.engine.remove(survivor)
        self.assertNotIn(survivor, self.engine.running())
        without = {path: content for path, content in self.files_now().items() if path not in self.KEPT}
        self.assertEqual(without, {path: self.files_before[path] for path in without})
        if self.KEPT:
            self.expect_gpus(self.engine.run("still", runtime="nvidia", environment={"NVIDIA_VISIBLE_DEVICES": "all"}), 0, 1)
            return
        with self.assertRaises(Exception):
            self.engine.run("gone", runtime="nvidia")


class VersionPairTest(unittest.TestCase):
    """Every version of containerd's configuration for one containerd: what the file said before, the engine says afterwards
    too, and beside it the runtimes. A class says VERSION (of the engine)."""

    VERSION = None

    @classmethod
    def setUpClass(cls):
        need_root()

    def try_pair(self, file_version, archives, default):
        engine = engines.Containerd(self.VERSION, file_version, archives)
        try:
            before, files = engine.dump(), {path: engine.host.read(path) for path in engine.files()}
            self.assertEqual("/etc/cni/own.d" in str(before), file_version not in self.VERSION.ignores)
            engine.configure(NVIDIA_RUNTIME_SET_AS_DEFAULT=str(default).lower())
            self.expect_kept(before, engine.dump(), default)
            if file_version not in self.VERSION.ignores:
                container = engine.run("gpu", runtime="" if default else "nvidia",
                                       environment={"NVIDIA_VISIBLE_DEVICES": "all"})
                self.assertIn("Test PASSED", engine.execute(container, "/usr/bin/vectorAdd")[1])
            engine.host.stop_toolkit()
            self.assertEqual(engine.dump(), before)
            self.assertEqual({path: engine.host.read(path) for path in files}, files)
        finally:
            engine.close()

    def expect_kept(self, before, after, default):
        table, _ = engines.cri_tables(min(after["version"], 3))
        runtimes = after["plugins"][table]["containerd"]["runtimes"]
        for name, suffix in (("nvidia", ""), ("nvidia-cdi", ".cdi"), ("nvidia-legacy", ".legacy")):
            self.assertEqual(runtimes[name]["options"]["BinaryName"],
                             f"/usr/local/nvidia/toolkit/nvidia-container-runtime{suffix}")
        containerd = ("plugins", table, "containerd")
        changed = {("imports",), ("plugins", table, "enable_cdi")}
        if default:
            changed.add((*containerd, "default_runtime_name"))
            self.assertEqual(after["plugins"][table]["containerd"]["default_runtime_name"], "nvidia")
        told, expected = leaves(after), leaves(before)
        self.assertEqual({path: told.get(path) for path in expected if path not in changed},
                         {path: value for path, value in expected.items() if path not in changed})

    def test_every_version_of_the_file(self):
        """Holds runtimes-and-distributions.md #2, #3, #4, #6."""
        with images() as archives:
            for file_version in range(1, self.VERSION.highest + 1):
                for default in (False, True):
                    with self.subTest(engine=self.VERSION.name, file=file_version, default=default):
                        self.try_pair(file_version, archives, default)
