"""What is tried with CRI-O beside that which is tried with every engine."""

import json
import unittest

import cases
import crio

_RUNTIMES = ("crio", "runtime", "runtimes")
_DEFAULT = ("crio", "runtime", "default_runtime")
_OURS = {"nvidia": "", "nvidia-cdi": ".cdi", "nvidia-legacy": ".legacy"}
_PROGRAM = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
_ALL = {"NVIDIA_VISIBLE_DEVICES": "all"}


def _is_ours(path):
    return path[:3] == _RUNTIMES and path[3] in _OURS


class CrioDumps(unittest.TestCase):
    """Compares what CRI-O says of itself."""

    def expect_kept(self, before, after, low_level, *changed):
        """Beside `changed` and our runtimes, which are made from that of this name."""
        told, expected = cases.leaves(after), cases.leaves(before)
        others = {path: value for path, value in told.items() if not _is_ours(path) and path not in changed}
        self.assertEqual(others, {path: value for path, value in expected.items() if path not in changed})
        model = before["crio"]["runtime"]["runtimes"][low_level]
        for name, suffix in _OURS.items():
            self.assertEqual(after["crio"]["runtime"]["runtimes"][name],
                             {**model, "runtime_type": "oci", "runtime_path": _PROGRAM + suffix})


class CrioTest(cases.EngineTest, CrioDumps):
    """A class says VERSION and LOW_LEVEL. CRI-O neither enters nor stops a container whose runtime it does not know any
    more: the runtimes stay."""

    VERSION = None
    KEPT = (crio.DROP_IN,)

    @classmethod
    def make(cls, archives):
        engine = crio.Crio(cls.VERSION, archives, cls.LOW_LEVEL)
        cls.told_before = engine.dump()
        return engine

    def test_1_it_is_restarted_once(self):
        """Holds runtimes-and-distributions.md #24."""
        self.assertEqual(self.engine.restarts, 1)
        self.assertLessEqual(set(_OURS), set(self.engine.cri.handlers()))
        self.expect_kept(self.told_before, self.engine.dump(), self.LOW_LEVEL)

    def test_1_another_start_of_the_toolkit_restarts_nothing(self):
        """As a DaemonSet's pod comes again after it was killed."""
        self.engine.host.kill_toolkit()
        self.engine.configure(NVIDIA_CONTAINER_RUNTIME_MODES_CDI_ANNOTATION_PREFIXES=cases.ANNOTATIONS)
        self.assertEqual(self.engine.restarts, 1)


class CrioDefaultTest(CrioDumps):
    """Our runtime as CRI-O's default, with and without its hook. A class says VERSION."""

    VERSION = None

    def start(self, low_level="runc", **settings):
        cases.need_root()
        engine = crio.Crio(self.VERSION, self.enterContext(cases.images()), low_level)
        self.addCleanup(engine.close)
        before, files = engine.dump(), {path: engine.host.read(path) for path in engine.files()}
        engine.configure(NVIDIA_RUNTIME_SET_AS_DEFAULT="true", **settings)
        self.expect_kept(before, engine.dump(), low_level, _DEFAULT)
        self.assertEqual(engine.dump()["crio"]["runtime"]["default_runtime"], "nvidia")
        return engine, before, files

    def expect_gpus(self, engine, container, count):
        status, told = engine.execute(container, "/usr/bin/vectorAdd")
        self.assertIn(f"GPU 0 of {count}", told)
        self.assertEqual(status, 0)

    def expect_left(self, engine, before, files, container):
        """Nothing is the default any more, and what runs goes on to the end that it is given."""
        engine.host.stop_toolkit()
        self.expect_kept(before, engine.dump(), "runc")
        for path in set(files) - {crio.DROP_IN}:
            self.assertEqual(engine.host.read(path), files[path], path)
        self.assertNotIn(b"default_runtime", engine.host.read(crio.DROP_IN)[0])
        other = engine.run("after")
        self.assertNotIn("nvidia", engine.execute(other, "/bin/ls", "/dev")[1])
        self.expect_gpus(engine, container, 2)
        engine.remove(container)
        self.assertNotIn(container, engine.running())

    def test_default(self):
        engine, before, files = self.start()
        self.expect_gpus(engine, engine.run("all", environment=_ALL), 2)
        self.expect_gpus(engine, engine.run("one", environment={"NVIDIA_VISIBLE_DEVICES": "1"}), 1)
        none = engine.run("none", environment={"NVIDIA_VISIBLE_DEVICES": "void"})
        self.assertNotIn("nvidia", engine.execute(none, "/bin/ls", "/dev")[1])
        self.assertIsNone(engine.host.read(crio.HOOK))
        self.expect_left(engine, before, files, engine.run("survivor", runtime="nvidia", environment=_ALL))
        # Somebody deletes the programs too: CRI-O starts without the runtimes that name them.
        engine.host.run("rm", "-r", "/usr/local/nvidia/toolkit")
        engine.host.kill_engine(engine.program)
        self.assertEqual(set(engine.cri.handlers()) & set(_OURS), set())
        engine.run("without")

    def test_another_start_changes_nothing(self):
        """CRI-O tells no more that crun was its default."""
        engine, before, _ = self.start("crun")
        container = engine.run("all", environment=_ALL)
        self.assertEqual(engine.low_level(container), "crun")
        engine.host.kill_toolkit()
        engine.configure(NVIDIA_RUNTIME_SET_AS_DEFAULT="true")
        self.assertEqual(engine.restarts, 1)
        self.expect_kept(before, engine.dump(), "crun", _DEFAULT)
        self.expect_gpus(engine, container, 2)
        self.assertEqual(engine.low_level(engine.run("again", environment=_ALL)), "crun")
        # One that starts after its default has gone takes the engine's own again.
        engine.host.stop_toolkit()
        engine.configure()
        self.expect_kept(before, engine.dump(), "crun")
        self.expect_gpus(engine, container, 2)

    def test_hook(self):
        """What it would inject, the default runtime does; the hook refuses GPUs to containers of another one."""
        engine, before, files = self.start(CRIO_CONFIG_MODE="hook", CDI_ENABLED="false")
        hook = json.loads(engine.host.read(crio.HOOK)[0])
        self.assertEqual(hook["hook"]["path"], f"{_PROGRAM}-hook")
        self.expect_gpus(engine, engine.run("all", environment=_ALL), 2)
        self.expect_gpus(engine, engine.run("class", runtime="nvidia", environment=_ALL), 2)
        engine.run("other", runtime="runc")
        with self.assertRaisesRegex(Exception, "hook"):
            engine.run("refused", runtime="runc", environment=_ALL)
        self.expect_left(engine, before, files, engine.run("survivor", runtime="nvidia", environment=_ALL))
        self.assertIsNone(engine.host.read(crio.HOOK))
        engine.run("not-refused", runtime="runc", environment=_ALL)

    def test_a_later_file_of_somebody_else_wins(self):
        """The toolkit says so, and leaves what it found.

        Holds runtimes-and-distributions.md #21."""
        cases.need_root()
        engine = crio.Crio(self.VERSION, self.enterContext(cases.images()))
        self.addCleanup(engine.close)
        theirs = crio.runtimes("runc").partition("[crio.runtime.runtimes.runc]")[2]
        engine.host.write("/etc/crio/crio.conf.d/99-nvidia.toml", f"[crio.runtime.runtimes.nvidia]{theirs}")
        files = {path: engine.host.read(path) for path in engine.files()}
        with self.assertRaisesRegex(AssertionError, "whose name comes later"):
            engine.configure()
        self.assertEqual({path: engine.host.read(path) for path in files}, files)
        self.assertEqual(engine.restarts, 2)
        self.assertEqual(set(engine.cri.handlers()) & set(_OURS), {"nvidia"})
        engine.run("theirs", runtime="nvidia")

    def test_nri(self):
        """The plugin connects, and neither files nor CRI-O are touched. A pod of the served namespace gets the devices that it
        names from a CRI-O that heeds them."""
        cases.need_root()
        engine = crio.Crio(self.VERSION, self.enterContext(cases.images()))
        self.addCleanup(engine.close)
        files = {path: engine.host.read(path) for path in engine.files()}
        engine.host.start_toolkit(engine.toolkit_engine, None, engine.config_path, RUNTIME_SOCKET=None,
                                  ENABLE_NRI_PLUGIN="true", NRI_NAMESPACE="engines", NRI_SOCKET="/run/nri/nri.sock")
        engine.host.await_toolkit("Serving containers by NRI runtime=cri-o")
        none = engine.run("beside")
        self.assertNotIn("nvidia", engine.execute(none, "/bin/ls", "/dev")[1])
        named = engine.run("named", pod_annotations={f"{cases.ANNOTATIONS}pod": "management.nvidia.com/gpu=all"})
        if self.VERSION.heeds_nri_devices:
            self.expect_gpus(engine, named, 2)
        else:
            self.assertNotIn("nvidia", engine.execute(named, "/bin/ls", "/dev")[1])
        engine.host.stop_toolkit()
        self.assertEqual({path: engine.host.read(path) for path in files}, files)
        self.assertEqual(engine.restarts, 0)
