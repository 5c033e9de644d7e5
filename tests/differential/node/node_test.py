"""The comparison of node components sees what it is there to see, and its cases are the same every time."""

import copy
import json
import pathlib
import random
import struct
import sys
import tempfile
import tomllib
import unittest

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import cases  # noqa: E402
import cdi  # noqa: E402
import configurations  # noqa: E402
import engines  # noqa: E402
import hook  # noqa: E402
import label_history  # noqa: E402
import meaning  # noqa: E402
import mig  # noqa: E402
import run  # noqa: E402
import runtime  # noqa: E402
import runtime_cases  # noqa: E402
import sandbox  # noqa: E402
import sandbox_cases  # noqa: E402
import vgpu_manager  # noqa: E402
from simulated_node import mig_minors  # noqa: E402

GPU = "GPU-5c3a9e32-7f0e-5d6d-8b57-5a4f0e3c2f11"
OTHER = "GPU-6d4bae43-8a1f-5e7e-9c68-6b5a1f4d3a22"


def allocation(**members):
    return {"envs": {}, "annotations": {}, "cdi_devices": [], "mounts": [], "devices": []} | members


def answered():
    """One side's answers with something of everything."""
    container = allocation(
        envs={"NVIDIA_VISIBLE_DEVICES": f"{GPU},{OTHER}"}, cdi_devices=["a/b=c"],
        annotations={"cdi.k8s.io/nvidia-device-plugin_5c3a9e32-7f0e-5d6d-8b57-5a4f0e3c2f11": "a/b=c"},
        mounts=[{"container": "/a", "host": "/b", "read_only": False}],
        devices=[{"container": "/dev/nvidia0", "host": "/dev/nvidia0", "permissions": "rw"}])
    return {"plugin": {
        "ended": None, "registered": {"nvidia.com/gpu": {"endpoint": "nvidia-gpu.sock", "version": "v1beta1"}},
        "lists": {"nvidia.com/gpu": [{"id": GPU, "healthy": True, "numa": 0}, {"id": OTHER, "healthy": True}]},
        "incidents": [{"nvidia.com/gpu": {GPU: False, OTHER: True}}],
        "cdi": {"gpu.json": {"kind": "a/b", "devices": {GPU: ["/dev/nvidia0"]}}},
        "answers": {"nvidia.com/gpu": [
            {"question": {"allocate": [[GPU, OTHER]]}, "answer": [container]},
            {"question": {"prefer": {"available": [GPU, OTHER], "must_include": [], "size": 1}}, "answer": [GPU]},
            {"question": {"allocate": [["x"]]}, "error": "no such device"}]}},
        "labels": [{"ended": 0, "labels": {"nvidia.com/gpu.count": "2"}}]}


def changes(value):
    """Copies of a value with one leaf of what was answered changed."""
    def leaves(part, path):
        if isinstance(part, (dict, list)):
            for key in part if isinstance(part, dict) else range(len(part)):
                if key != "question":
                    yield from leaves(part[key], [*path, key])
        else:
            yield path
    for path in list(leaves(value, [])):
        changed = copy.deepcopy(value)
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = not place[path[-1]] if isinstance(place[path[-1]], bool) else "changed"
        yield path, changed


CASE = {"name": "0", "tags": [], "plugin": {"flags": [], "env": {}, "config": None}, "discovery": {}}


class Compare(unittest.TestCase):
    def found(self, ours, theirs, accepted=(), case=None):
        return [where for where, _, _ in run.differences(CASE | (case or {}), ours, theirs, list(accepted), set())]

    def test_every_changed_answer_is_seen(self):
        self.assertEqual(self.found(answered(), answered()), [])
        for path, changed in changes(answered()):
            if path[-1] == "error":  # each side has its own words
                continue
            with self.subTest(path):
                self.assertNotEqual(self.found(answered(), changed), [])

    def test_what_is_missing_is_seen(self):
        less = answered()
        less["plugin"]["answers"]["nvidia.com/gpu"].pop()
        self.assertNotEqual(self.found(answered(), less), [])
        less = answered()
        less["plugin"]["registered"] = {}
        self.assertNotEqual(self.found(answered(), less), [])

    def test_an_answer_and_a_refusal_differ(self):
        refused = answered()
        answer = refused["plugin"]["answers"]["nvidia.com/gpu"][0]
        del answer["answer"]
        answer["error"] = "no"
        self.assertNotEqual(self.found(answered(), refused), [])

    def test_a_rule_is_for_cases_with_its_tags(self):
        theirs = answered()
        theirs["labels"][0]["labels"]["nvidia.com/gpu.count"] = "3"
        rule = {"where": "labels labels.nvidia.com/gpu.count", "tags": ["lost"]}
        self.assertNotEqual(self.found(answered(), theirs, [rule]), [])
        self.assertEqual(self.found(answered(), theirs, [rule], {"tags": ["lost", "mig"]}), [])

    def test_one_of_several_draws_has_to_agree(self):
        theirs = answered()
        theirs["labels"].insert(0, {"ended": 0, "labels": {"nvidia.com/gpu.count": "3"}})
        self.assertEqual(self.found(answered(), theirs), [])
        theirs["labels"].pop()
        self.assertNotEqual(self.found(answered(), theirs), [])


class Meaning(unittest.TestCase):
    def test_order_matters_where_upstream_keeps_it(self):
        def meant(ids, by_index):
            return meaning.container(allocation(envs={"NVIDIA_VISIBLE_DEVICES": ids}), by_index)
        self.assertNotEqual(meant("a,b", False), meant("b,a", False))
        self.assertEqual(meant("0,1", True), meant("1,0", True))

    def test_greedy_choices_are_equal_when_they_load_gpus_equally(self):
        ids = [f"{gpu}::{replica}" for gpu in "abc" for replica in range(2)]
        question = {"available": ids, "must_include": [], "size": 2}

        def meant(*chosen):
            return meaning.reply({"question": {"prefer": question}, "answer": list(chosen)}, ids, False)
        self.assertEqual(meant("a::0", "b::1"), meant("c::1", "a::1"))
        self.assertNotEqual(meant("a::0", "b::1"), meant("a::0", "a::1"))

    def test_whole_gpus_are_themselves(self):
        question = {"available": [GPU, OTHER], "must_include": [], "size": 1}

        def meant(chosen):
            return meaning.reply({"question": {"prefer": question}, "answer": [chosen]}, [GPU, OTHER], False)
        self.assertNotEqual(meant(GPU), meant(OTHER))


class Cases(unittest.TestCase):
    def test_the_same_seed_gives_the_same_cases(self):
        self.assertEqual(cases.cases(1, 20), cases.cases(1, 20))
        self.assertNotEqual(cases.cases(1, 20), cases.cases(2, 20))

    def test_more_cases_begin_with_the_same(self):
        self.assertEqual(cases.cases(1, 5), cases.cases(1, 20)[:5])

    def test_they_reach_every_model_option_and_kind_of_node(self):
        made = cases.cases("coverage", 400)
        text = json.dumps(made)
        for model in cases.PROFILES:
            self.assertIn(f'"{model}"', text)
        for name, (flag, variable) in cases.OPTIONS.items():
            self.assertIn(f"--{flag}=", text)
            self.assertIn(f'"{variable}":', text)
            self.assertTrue(any(f" {name}:" in (case["plugin"]["config"] or "") for case in made), name)
        tags = {tag for case in made for tag in case["tags"]}
        self.assertLessEqual({"compute-instances", "empty-mig", "incident", "lost", "mig", "name", "no-driver",
                              "several-models", "sharing"}, tags)

    def test_mig_names(self):
        names = {name for name, _, whole in cases.mig_names("A100-40") if whole}
        self.assertEqual(names, {"1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"})
        self.assertIn("1c.3g.20gb", {name for name, _, whole in cases.mig_names("A100-40") if not whole})

    def test_what_fits_on_a_gpu(self):
        self.assertTrue(cases.fits("A100-40", ["4g.20gb", "3g.20gb"]))
        self.assertFalse(cases.fits("A100-40", ["4g.20gb", "4g.20gb"]))
        self.assertFalse(cases.fits("A100-40", ["1g.5gb"] * 8))
        self.assertTrue(cases.fits("A100-40", ["1g.5gb"] * 7))

    def test_minors_are_those_of_the_kernel_driver(self):
        lines = list(mig_minors([0, 1]))
        self.assertEqual(lines[:4], ["config 1", "monitor 2", "gpu0/gi0/access 3", "gpu0/gi0/ci0/access 4"])
        self.assertIn("gpu1/gi0/access 138", lines)


class Mig(unittest.TestCase):
    def test_every_model_has_layouts_of_the_default_configuration_and_some_that_it_has_not(self):
        for model, profile in cases.PROFILES.items():
            if "mig" in profile:
                own, foreign = mig.layouts(model)
                self.assertGreater(len(own), 5, model)
                self.assertFalse(set(own) & set(foreign))
                self.assertEqual(len(foreign), mig.FOREIGN)

    def test_both_sides_take_the_same_steps(self):
        ours, theirs = (mig.walk_of("A30", side) for side in mig.SIDES)
        self.assertEqual(sorted(ours.names), sorted(theirs.names))
        self.assertEqual(len(set(ours.names)), len(ours.names))

    def test_what_a_change_of_a_label_went_through(self):
        state, deploy = "nvidia.com/mig.config.state", label_history.DEPLOY + "dcgm"
        history = [{deploy: "true"}, {state: "pending", deploy: "true"}, {state: "pending", deploy: "paused"},
                   {state: "pending", deploy: "true"}, {state: "success", deploy: "true"}]
        self.assertEqual(label_history.told(history, state), {
            "states": ["pending", "success"], "operands": {"dcgm": ["true", "paused", "true"]}})


class VgpuManager(unittest.TestCase):
    def side(self, **changed):
        return {"states": ["pending", "success"], "operands": {"validator": ["true", "paused", "true"]}, "ended": None,
                "before": {"gpu": {}}, "after": {"gpu": {"T4-8Q": 2}}, **changed}

    def found(self, ours, theirs):
        return list(vgpu_manager.differences(ours, theirs))

    def test_the_same_is_no_difference(self):
        self.assertEqual(self.found(self.side(), self.side()), [])

    def test_every_other_end_is_seen(self):
        for changed in ({"states": ["failed"]}, {"after": {"gpu": {"T4-8Q": 1}}}, {"states": ["success"]},
                        {"operands": {"validator": ["true"]}}):
            self.assertEqual(len(self.found(self.side(**changed), self.side())), 1, changed)
        self.assertEqual(len(self.found(self.side(ended=1), self.side())), 1)

    def test_after_other_vgpus_only_the_end_counts(self):
        self.assertEqual(self.found(self.side(before={"gpu": {"T4-8Q": 2}}, states=["success"]), self.side()), [])

    def test_a_failed_change_leaves_ours_as_it_was(self):
        theirs = self.side(states=["pending", "failed"], after={"gpu": {"T4-8Q": 1}})
        self.assertEqual(self.found(self.side(states=["failed"], after={"gpu": {}}), theirs), [])
        self.assertEqual(len(self.found(self.side(states=["failed"]), theirs)), 1)

    def test_who_is_left_paused(self):
        self.assertEqual(vgpu_manager.paused_after(self.side()), [])
        self.assertEqual(vgpu_manager.paused_after(self.side(operands={"validator": ["true", "paused"]})), ["validator"])


class Sandbox(unittest.TestCase):
    RESULT = {"ended": None, "registered": {"nvidia.com/A": {"endpoint": "kubevirt-A.sock", "version": "v1beta1"}},
              "lists": {"nvidia.com/A": [{"id": "0000:65:00.0", "healthy": True, "numa": 0}]},
              "answers": {"nvidia.com/A": [
                  {"question": {"allocate": [["0000:65:00.0"]]}, "answer": [allocation(
                      envs={"PCI_RESOURCE_NVIDIA_COM_A": "0000:65:00.0"},
                      devices=[{"container": "/dev/vfio/vfio", "host": "/dev/vfio/vfio", "permissions": "mrw"},
                               {"container": "/dev/vfio/1", "host": "/dev/vfio/1", "permissions": "mrw"}])]},
                  {"question": {"prefer": {}}, "answer": ["0000:65:00.0"]},
                  {"question": {"allocate": [["x"]]}, "error": "no such device"}]},
              "after": {"nvidia.com/A": {"0000:65:00.0": False}}}

    def found(self, theirs, accepted=(), tags=()):
        return sandbox.differences({"tags": list(tags)}, self.RESULT, theirs, list(accepted), set())

    def test_every_changed_answer_is_seen(self):
        self.assertEqual(self.found(copy.deepcopy(self.RESULT)), [])
        for path, changed in changes(self.RESULT):
            if path[-1] != "error":
                with self.subTest(path):
                    self.assertNotEqual(self.found(changed), [])
        turned = copy.deepcopy(self.RESULT)
        turned["answers"]["nvidia.com/A"][0]["answer"][0]["devices"].reverse()
        self.assertNotEqual(self.found(turned), [], "the order of device nodes is upstream's")

    def test_a_rule_is_for_cases_with_its_tags(self):
        theirs = copy.deepcopy(self.RESULT)
        theirs["lists"]["nvidia.com/A"][0]["numa"] = 1
        rule = {"where": "lists nvidia.com/*.numa", "tags": ["numa-unknown"]}
        self.assertNotEqual(self.found(theirs, [rule]), [])
        self.assertEqual(self.found(theirs, [rule], ["numa-unknown"]), [])

    def test_cases_are_the_same_every_time_and_have_everything(self):
        chosen = sandbox_cases.cases(1, 300)
        self.assertEqual(chosen[:5], sandbox_cases.cases(1, 5))
        self.assertNotEqual(chosen[:5], sandbox_cases.cases(2, 5))
        rules = yaml.safe_load((HERE / "sandbox_accepted.yaml").read_text())
        self.assertEqual({tag for rule in rules for tag in rule.get("tags", [])} - {tag for case in chosen
                                                                                   for tag in case["tags"]}, set())
        self.assertGreater(sum(not case["tags"] for case in chosen), 30)
        for case in chosen:
            addresses = [device["at"] for device in case["tree"]["pci"]]
            self.assertEqual(len(addresses), len(set(addresses)))


class Cdi(unittest.TestCase):
    @staticmethod
    def spec(hooks=(), node=None, names=("0",)):
        edits = {"deviceNodes": [node or {"path": "/dev/nvidia0", "major": 195}]}
        return {"kind": "nvidia.com/gpu", "devices": [{"name": name, "containerEdits": edits} for name in names],
                "containerEdits": {"hooks": list(hooks)}}

    def found(self, ours, theirs, words=(), status=(0, 0)):
        texts = [one if isinstance(one, str) else "---\n" + yaml.safe_dump(one) for one in (ours, theirs)]
        return cdi.differences({side: {"status": code, "stdout": text, "stderr": "why"}
                                for side, code, text in zip(("ours", "theirs"), status, texts)}, words)

    def test_equal_specifications_and_two_refusals_do_not_differ(self):
        self.assertEqual(self.found(self.spec(), self.spec()), [])
        self.assertEqual(self.found("", "other", status=(2, 1)), [])

    def test_whatever_is_not_accepted_is_a_difference(self):
        for other in (self.spec(names=("1",)), self.spec(names=("0", "all")), self.spec(hooks=[{"args": ["x"]}]),
                      self.spec(node={"path": "/dev/nvidia0", "major": 1})):
            self.assertTrue(self.found(self.spec(), other))
        self.assertIn("why", self.found(self.spec(), "", status=(0, 1)))
        self.assertTrue(self.found('{"devices": []}', '{"devices": []}{"devices": []}'))

    def test_what_is_accepted_is_so_only_where_it_is_said(self):
        bare = self.spec(node={"path": "/dev/nvidia0"})
        self.assertEqual(self.found(bare, self.spec(), ["--mode=gds"]), [])
        self.assertTrue(self.found(bare, self.spec(), ["--mode=nvml"]))
        self.assertEqual(self.found(self.spec(), self.spec(names=("0", "all")), ["--mode=imex"]), [])
        rooted, plain = ([{"args": ["--link", f"a::{root}/b"]}] for root in ("/driver-root", ""))
        self.assertEqual(self.found(self.spec(hooks=plain), self.spec(hooks=rooted)), [])
        self.assertEqual(self.found(self.spec(hooks=plain), self.spec(hooks=rooted + plain)), [])

    def test_what_the_release_mounts_otherwise_is_accepted_of_it_alone(self):
        texts = []
        for folder, others in (("/usr/share", ["/usr/bin/nvidia-xconfig", "/usr/lib/libnvidia-egl-xcb.so.1.0.1"]),
                               ("/usr/local/share", [])):
            paths = [f"{folder}/glvnd/egl_vendor.d/10_nvidia.json", *others]
            texts.append(yaml.safe_dump({"devices": [], "containerEdits": {
                "mounts": [{"containerPath": path} for path in ["/usr/lib/libcuda.so.1", *paths]]}}))
        found = {side: {"status": 0, "stdout": text, "stderr": ""} for side, text in zip(("ours", "theirs"), texts)}
        self.assertEqual(cdi.differences(found, [], released=True), [])
        self.assertTrue(cdi.differences(found, []))
        found["ours"]["stdout"] = texts[0].replace("libcuda.so.1", "libcuda.so.2")
        self.assertTrue(cdi.differences(found, [], released=True))


class Files(unittest.TestCase):
    def test_every_accepted_difference_has_a_reason(self):
        for file in ("accepted.yaml", "mig_accepted.yaml", "sandbox_accepted.yaml"):
            for rule in yaml.safe_load((HERE / file).read_text()):
                self.assertTrue({"where", "reason"} <= set(rule) <= {"where", "reason", "ours", "theirs", "tags"}, rule)

    def test_configurations_have_names_of_their_own(self):
        names = [case["name"] for case in configurations.cases()]
        self.assertEqual(len(names), len(set(names)))


class ContainerRuntime(unittest.TestCase):
    SPEC = {"process": {"env": ["A=1", "B=2"], "user": {"additionalGids": [44]}}, "annotations": {"a": "b"},
            "linux": {"devices": [{"path": "/dev/a", "major": 1}], "resources": {"devices": [{"access": "rw"}]}},
            "mounts": [{"destination": "/a", "source": "/s", "options": ["ro"]}], "hooks": {"prestart": [{"path": "/h"}]}}

    def test_every_change_is_seen(self):
        self.assertEqual(runtime.differences(runtime.in_one_form(self.SPEC), runtime.in_one_form(self.SPEC)), [])
        for path, changed in changes(self.SPEC):
            self.assertNotEqual(runtime.differences(runtime.in_one_form(changed), runtime.in_one_form(self.SPEC)), [],
                                path)
        self.assertNotEqual(runtime.differences(None, runtime.in_one_form(self.SPEC)), [])

    def test_what_means_the_same_is_the_same(self):
        same = copy.deepcopy(self.SPEC) | {"hostname": ""}
        same["process"]["env"] = ["B=1", "A=1", "B=2"]
        same["linux"]["devices"][0]["minor"] = 0
        self.assertEqual(runtime.differences(runtime.in_one_form(same), runtime.in_one_form(self.SPEC)), [])

    def test_only_none_may_fail_there_and_start_here(self):
        found = [("the low-level runtime is called", True, False)]
        self.assertTrue(runtime.is_accepted(found, 'msg="unresolvable CDI devices a/b=none"'))
        self.assertFalse(runtime.is_accepted(found, 'msg="unresolvable CDI devices a/b=none, a/b=1"'))
        self.assertFalse(runtime.is_accepted(found, "another error"))
        self.assertFalse(runtime.is_accepted([("the low-level runtime is called", False, True)],
                                             'msg="unresolvable CDI devices a/b=none"'))

    def test_a_seed_gives_the_same_cases(self):
        def made(seed):
            rng = random.Random(seed)
            configuration = runtime_cases.configuration(rng, [pathlib.Path("/a")], "/low")
            return [configuration, [runtime_cases.bundle(rng, configuration) for _ in range(20)]]
        self.assertEqual(made("1 2"), made("1 2"))
        self.assertNotEqual(made("1 2"), made("1 3"))


class Hooks(unittest.TestCase):
    """What hook.py reads of a container."""

    def test_the_loader_takes_the_first_of_a_name(self):
        strings = b"liba.so\0/gone/liba.so\0/lib/liba.so\0"
        offsets = [(0, 8), (0, 22)]
        first = 48 + 24 * len(offsets)
        cache = b"glibc-ld.so.cache1.1" + struct.pack("<II", len(offsets), len(strings)) + bytes(20)
        cache += b"".join(struct.pack("<iIIIQ", 0x303, first + name, first + path, 0, 0) for name, path in offsets)
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for folder in ("etc", "usr/lib"):
                (root / folder).mkdir(parents=True)
            (root / "lib").symlink_to("/usr/lib")
            (root / "usr/lib/liba.so.1").touch()
            (root / "usr/lib/liba.so").symlink_to("../../../../usr/lib/liba.so.1")
            (root / "etc/ld.so.cache").write_bytes(cache + strings)
            self.assertEqual(hook.cache_entries(root / "etc/ld.so.cache"),
                             [("liba.so", "/gone/liba.so"), ("liba.so", "/lib/liba.so")])
            self.assertEqual(hook.inside(root, "/lib/liba.so"), "usr/lib/liba.so.1")
            self.assertEqual(hook.found_by_loader(root), {})
            (root / "gone").symlink_to("lib")
            self.assertEqual(hook.found_by_loader(root), {"liba.so": "usr/lib/liba.so.1"})

    def test_a_list_of_musls_counts_each_folder_once(self):
        self.assertEqual(hook.one_form_of_list("/a\n/lib\n/a\n/libx32\n/usr/local/lib\n"), ["/a", "/lib"])


class Engines(unittest.TestCase):
    """What engines.py makes and compares."""

    def test_configurations_are_read(self):
        for engine, make in engines.MAKERS.items():
            for seed in range(50):
                text = make(random.Random(seed))
                self.assertTrue(engines.is_read(engine, text), text)
                self.assertEqual(text, make(random.Random(seed)))
        self.assertLessEqual({"containerd", "crio", "docker"}, {engine for _, engine, _ in engines.corpus()})

    def test_toml(self):
        value = {"version": 2, "plugins": {"a.b": {"c": [True], "d": {"e": "f"}}}}
        self.assertEqual(tomllib.loads(engines.as_toml(value)), value)

    def test_what_is_documented_is_taken_away_and_nothing_else(self):
        def file(**runtime):
            return {"version": 3, "plugins": {engines.CRI[3][0]: runtime}}
        left = engines.without_accepted({"status": "done", "config": None, "drop-in": file(enable_cdi=True, x=1)},
                                        "containerd", "version = 3\n")
        self.assertEqual(left["drop-in"], file(x=1))
        off = {"status": "done", "config": None, "drop-in": file(enable_cdi=False)}
        self.assertEqual(engines.without_accepted(copy.deepcopy(off), "containerd", "version = 3\n"), off)
        both = engines.without_accepted({"status": "done", "config": {"imports": ["x"], "a": {"b": 1}},
                                         "drop-in": {"a": {"c": 2}}}, "containerd", "")
        self.assertEqual(both, {"status": "done", "both": {"version": 1, "a": {"b": 1, "c": 2}}})
        self.assertEqual(engines.differences({"a": {"b": 1}}, {"a": {"b": 2}}), [("/a/b", 1, 2)])

    def test_a_runtime_in_a_drop_in_is_written_whole(self):
        def file(default, **settings):
            return {"plugins": {"cri": {"containerd": {"runtimes": {"nvidia": settings}} | default}}}

        def left(before, after):
            side = {"status": "done", "config": file(before, a=1, b=2), "drop-in": file(after, a=3)}
            return engines.without_accepted(side, "containerd", "")["both"]
        nvidia, runc = ({"default_runtime_name": name} for name in ("nvidia", "runc"))
        self.assertEqual(left({}, {}), {"version": 1} | file({}, a=3))
        self.assertEqual(left(nvidia, {}), {"version": 1} | file({}, a=3))
        self.assertEqual(left(nvidia, nvidia), {"version": 1} | file(nvidia, a=3))
        self.assertEqual(left(runc, {}), {"version": 1} | file(runc, a=3))

    def test_crio_keeps_settings_where_no_other_default_is_told(self):
        def file(monitor):
            return {"crio": {"runtime": {"runtimes": {"nvidia": {"runtime_path": "/n", "monitor_path": monitor}}}}}
        def left(default):
            text = f'[crio.runtime]\n{default}\n[crio.runtime.runtimes.crun]\n'
            sides = ({"status": "done", "config": file(monitor), "drop-in": None} for monitor in "ab")
            return engines.differences(*(engines.without_accepted(side, "crio", text) for side in sides))
        for default in ("", 'default_runtime = "nvidia"', 'default_runtime = "runc"'):
            self.assertEqual(left(default), [])
        self.assertEqual(len(left('default_runtime = "crun"')), 1)


if __name__ == "__main__":
    unittest.main()
