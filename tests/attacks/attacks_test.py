"""Containers that try to get out through the hooks and the container runtime, and requests that try to take more.

Every attack is tried against the careless double first, which must fall for it, and then against Pitcrew's programs,
which must not. Needs root, and runc and crun for the containers that it starts; everything happens in a mount namespace
and a folder of its own.
"""

import argparse
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest

import races
import specs
import world
from trees import (ALL, ATTACKS, BY_CRUN, BY_RUNTIME, CRUN_ROOTLESS, CRUN_USER, DIRECT, LINKS, ROOTLESS, RUNC_ROOTLESS,
                   RUNC_USER)
from world import CONTAINER_ID, NOBODY, Programs, World

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import unittest_main  # noqa: E402  pylint: disable=wrong-import-position

USER_OF_CONTAINER = 100000
PROGRAMS = None
SWAP_ROUNDS = 200
DAC_OVERRIDE = 1 << 1
MOST_ROUNDS = 3000


# Where tools/setup.sh unpacks crun, beside a library of its own.
UNPACKED = pathlib.Path(os.environ.get("PITCREW_CACHE") or pathlib.Path(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "pitcrew").absolute() / "programs/engines-debian"


def low_level(w, way):
    """(program, environment) of the way's runtime; what is unpacked lies where an ordinary user cannot see it."""
    environment = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(w.folder / "state")}
    name = "crun" if way in BY_CRUN else "runc"
    if found := shutil.which(name):
        return found, environment
    if name == "runc" or not (UNPACKED / "crun").exists():
        raise AssertionError(f"there is no {name}: `tools/setup.sh test` gets it")
    libraries = w.toolkit / "of-crun"
    libraries.mkdir()
    shutil.copy(UNPACKED / "libyajl.so.2", libraries)
    return shutil.copy(UNPACKED / "crun", w.toolkit), environment | {"LD_LIBRARY_PATH": str(libraries)}


def run_by_runtime(w, hooks, way):
    """Creates the container through our runtime, with a CDI specification whose hooks are `hooks`."""
    program, environment_of_runtime = low_level(w, way)
    rootless = way in (RUNC_ROOTLESS, CRUN_ROOTLESS)
    specification = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu",
                     "devices": [{"name": "all", "containerEdits": {"env": ["A=B"]}}],
                     "containerEdits": {"hooks": [{"hookName": w.phase, "path": hook[0],
                                                   "args": ["nvidia-cdi-hook", *hook[1:]]} for hook in hooks]}}
    (w.folder / "cdi").mkdir()
    (w.folder / "cdi/nvidia.json").write_text(json.dumps(specification))
    (w.toolkit / ".config/nvidia-container-runtime").mkdir(parents=True)
    (w.toolkit / ".config/nvidia-container-runtime/config.toml").write_text(
        f'[nvidia-container-runtime]\nmode = "cdi"\nruntimes = ["{program}"]\n'
        f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["{w.folder}/cdi"]\n')
    environment = ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all"]
    environment += [f"{name}={value}" for name, value in w.environment.items()]
    namespaces = [{"type": kind} for kind in ("mount", "pid", "ipc", "uts", "network")]
    linux = {"namespaces": namespaces}
    if not rootless:
        linux["cgroupsPath"] = f"/{CONTAINER_ID}"
    if w.owner:
        namespaces.append({"type": "user"})
        for member in ("uidMappings", "gidMappings"):
            linux[member] = [{"containerID": 0, "hostID": w.owner, "size": 1 if rootless else 65536}]
    mounts = [{"destination": "/proc", "type": "proc", "source": "proc"},
              {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}]
    mounts += [{"destination": inside, "type": "bind", "source": str(source), "options": ["rbind", "rprivate", "rw"]}
               for source, inside in w.volumes]
    w.write_config(process={"args": ["/bin/true"], "cwd": "/", "env": environment, "user": {"uid": 0, "gid": 0}},
                   mounts=mounts, linux=linux)
    (w.folder / "state").mkdir()
    user = {}
    if rootless:
        for path in (w.bundle, w.bundle / "config.json", w.folder / "state"):
            os.chown(path, NOBODY, NOBODY)
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    flags = ["--root", str(w.folder / "state")]
    if way == CRUN_ROOTLESS:
        flags.append("--cgroup-manager=disabled")
    try:
        done = subprocess.run([str(w.toolkit / "nvidia-container-runtime"), *flags, "create", "--bundle",
                               str(w.bundle), CONTAINER_ID], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, timeout=3 * w.patience, cwd="/",
                              env=environment_of_runtime, **user)
        w.log += done.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        w.problems.append("it did not end")
    subprocess.run([program, *flags, "delete", "--force", CONTAINER_ID], capture_output=True, cwd="/",
                   env=environment_of_runtime, **user)


def owner_of(way):
    return {ROOTLESS: NOBODY, RUNC_ROOTLESS: NOBODY, CRUN_ROOTLESS: NOBODY, RUNC_USER: USER_OF_CONTAINER,
            CRUN_USER: USER_OF_CONTAINER}.get(way, 0)


def before_start_of(way):
    return world.become_rootless if way == ROOTLESS else None


def run_hooks(w, command, hooks, way):
    if way in BY_RUNTIME:
        run_by_runtime(w, [[*command, *hook] for hook in hooks], way)
        return
    w.mount_volumes()
    try:
        for hook in hooks:
            w.run_directly([*command, *hook], before_start_of(way))
    finally:
        w.unmount_volumes()


class Attacks(unittest.TestCase):
    """What each attack of trees.py does. The tests are made below, one for each attack and way."""

    def setUp(self):
        self.worlds = []

    def tearDown(self):
        for w in self.worlds:
            for descriptor in w.descriptors:
                os.close(descriptor)
            w.close()

    def world(self, way=DIRECT):
        w = World(PROGRAMS, owner_of(way))
        self.worlds.append(w)
        return w

    def harm_of(self, prepare, way, side):
        w = self.world(way)
        hooks = prepare(w)
        w.settle()
        run_hooks(w, w.command(side), hooks, way)
        return w.harm(), w.log

    def try_attack(self, attack, way):
        harm, log = self.harm_of(attack, way, "naive")
        self.assertNotEqual(harm, [], f"the careless double did not fall for it, so this proves nothing\n{log}")
        harm, log = self.harm_of(attack, way, "ours")
        self.assertEqual(harm, [], log)

    def test_an_ordinary_container_gets_what_the_hooks_make(self):
        """Else attacks would fail for another reason."""
        for way in ALL:
            for side in ("naive", "ours"):
                with self.subTest(way=way, side=side):
                    w = self.world(way)
                    w.settle()
                    run_hooks(w, w.command(side), [LINKS, ["update-ldcache", "--folder", "/usr/lib/driver"]], way)
                    self.assertEqual(w.harm(), [])
                    self.assertTrue((w.root / "usr/lib/driver/mark").is_symlink(), w.log)
                    self.assertTrue((w.root / "etc/ld.so.cache").is_file(), w.log)

    def test_nothing_is_loaded_into_the_program(self):
        """CVE-2025-23266: there is no loader that could be told to."""
        def segments(program):
            bytes_ = program.read_bytes()
            at, = struct.unpack_from("<Q", bytes_, 32)
            size, count = struct.unpack_from("<HH", bytes_, 54)
            return {struct.unpack_from("<I", bytes_, at + index * size)[0] for index in range(count)}
        interpreter = 3  # PT_INTERP
        self.assertIn(interpreter, segments(PROGRAMS.naive))
        self.assertNotIn(interpreter, segments(PROGRAMS.ours))

    def test_a_request_that_is_met(self):
        """Else hostile requests would fail for another reason."""
        for side in ("naive", "ours"):
            with self.subTest(side=side):
                w = self.world()
                self.assertEqual(specs.run(w, lambda _: specs.asking("gpu"), side), [])
                self.assertIn("C=D", (w.bundle / "config.json").read_text(), w.log)
                w = self.world()
                self.assertEqual(specs.run(w, specs.asking_for_a_channel, side), [])
                devices = json.loads((w.bundle / "config.json").read_text())["linux"]["devices"]
                self.assertIn(specs.CHANNEL, [(device["major"], device["minor"]) for device in devices], w.log)

    def try_request(self, attack):
        self.assertNotEqual(specs.run(self.world(), attack, "naive"), [],
                            "the careless double did not fall for it, so this proves nothing")
        w = self.world()
        self.assertEqual(specs.run(w, attack, "ours"), [], w.log[:2000])

    def test_files_that_change_while_they_are_looked_at(self):
        """CVE-2024-0132, CVE-2024-0133, CVE-2025-23359"""
        swaps = [(prepare, way) for prepare in races.SWAPS for way in (DIRECT, ROOTLESS)]
        for prepare, way in [*swaps, (races.the_parameters, DIRECT)]:
            with self.subTest(swapped=prepare.__name__, way=way):
                w = self.world(way)
                rounds, harm = races.swap(w, prepare, w.command("naive", ["--check-first"]), MOST_ROUNDS,
                                          before_start_of(way))
                self.assertNotEqual(harm, [], f"the careless double got through {rounds} rounds")
                w = self.world(way)
                rounds, harm = races.swap(w, prepare, w.command("ours"), max(SWAP_ROUNDS, 3 * rounds),
                                          before_start_of(way))
                self.assertEqual(harm, [], f"round {rounds}: {w.log[-1000:]}")

    def test_a_hook_that_mounts_does_so_where_it_should(self):
        """Else attacks on it would fail for another reason."""
        for side in ("naive", "ours"):
            with self.subTest(side=side):
                w = self.world()
                w.has_proc, w.params = True, lambda driver: None
                w.settle()
                w.mount_volumes()
                done = w.run_directly([*w.command(side), "disable-device-node-modification"])
                self.assertEqual((w.root / "proc/driver/nvidia/params").read_text(), "ModifyDeviceFiles: 0\n", w.log)
                self.assertEqual(done.returncode, 0)
                w.unmount_volumes()
                self.assertEqual(w.harm(), [])

    def test_a_neighbour_does_not_look_through_the_hook_at_the_host(self):
        """A process of a PID namespace that several containers share, as CVE-2024-0135 needs one."""
        for way in (DIRECT, ROOTLESS):
            with self.subTest(way=way):
                w = self.world(way)
                with self.waiting(w, "naive", way) as hook:
                    self.assertTrue(races.tells_the_secret(w, hook), "the careless double hid it: this proves nothing")
                w = self.world(way)
                with self.waiting(w, "ours", way) as hook:
                    self.assertFalse(races.tells_the_secret(w, hook))
                self.assertTrue((w.root / "usr/lib/driver/mark").is_symlink(), hook.error)

    def test_a_neighbour_does_not_change_a_program_of_the_host(self):
        """CVE-2024-0135: the program of the hook itself, and another that the hook can see."""
        for way in (DIRECT, ROOTLESS):
            for which in (races.the_hooks_own_program, races.a_program_of_the_host):
                with self.subTest(way=way, program=which.__name__):
                    w = self.world(way)
                    with self.waiting(w, "naive", way) as hook:
                        neighbour = races.Neighbour(hook, which(w, hook))
                    self.assertTrue(neighbour.changes_it(), "the careless double hid it: this proves nothing")
                    w = self.world(way)
                    with self.waiting(w, "ours", way) as hook:
                        neighbour = races.Neighbour(hook, which(w, hook))
                    self.assertFalse(neighbour.changes_it())
                    self.assertTrue((w.root / "usr/lib/driver/mark").is_symlink(), hook.error)

    def waiting(self, w, side, way):
        w.settle()
        if w.owner:
            for path in w.toolkit.iterdir():  # of an ordinary user, all is
                os.chown(path, w.owner, w.owner, follow_symlinks=False)
        return races.Waiting(w, w.command(side, ["--lower-capabilities"] if side == "naive" else ()),
                             before_start_of(way))

    def test_a_hook_has_few_privileges_when_it_meets_the_container(self):
        w = self.world()
        with races.Waiting(w, w.command("ours")) as hook:
            status = hook.status()
            for kind in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
                self.assertEqual(int(status[kind], 16) & ~DAC_OVERRIDE, 0, f"{kind} {status[kind]}")
            self.assertEqual(status["NoNewPrivs"], "1")
        w = self.world()
        with races.Waiting(w, w.command("naive")) as hook:
            self.assertNotEqual(int(hook.status()["CapEff"], 16) & ~DAC_OVERRIDE, 0)


def make(attack, way):
    def test(self):
        self.try_attack(attack, way)
    test.__doc__ = attack.advisories or None
    return test


for request in specs.ATTACKS:
    setattr(Attacks, f"test_{request.__name__}", lambda self, request=request: self.try_request(request))
for one in ATTACKS:
    for its_way in one.ways:
        setattr(Attacks, f"test_{one.__name__}_{its_way}", make(one, its_way))


def main():
    global PROGRAMS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True, help="nvidia-container-runtime")
    parser.add_argument("--naive", required=True, help="naive_hook, with libnaive_dependency.so beside it")
    parser.add_argument("--library", required=True, help="what attack_library.cc is made into")
    parser.add_argument("--program", required=True, help="what attack_program.cc is made into")
    arguments, rest = parser.parse_known_args()
    if os.geteuid() != 0:
        print("mounting and starting containers needs root", file=sys.stderr)
        return 77
    PROGRAMS = Programs(arguments.ours, arguments.naive, arguments.library, arguments.program)
    world.own_mount_namespace()
    # crun 1.8 refuses machines that have both versions of control groups; with the first alone it works.
    if os.path.ismount("/sys/fs/cgroup/unified"):
        world.unmount("/sys/fs/cgroup/unified")
    return unittest_main.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    sys.exit(main())
