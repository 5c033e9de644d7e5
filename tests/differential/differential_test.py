"""The comparison sees what it is there to see, and its policies are the same every time."""

import copy
import pathlib
import re
import sys
import unittest

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

import compare  # noqa: E402
import coverage  # noqa: E402
import normalise  # noqa: E402
import policies  # noqa: E402
import shrink  # noqa: E402
import upgrade_compare  # noqa: E402

SCHEMA = {"required": ["driver"], "properties": {
    "driver": {"type": "object", "properties": {
        "enabled": {"type": "boolean"}, "usePrecompiled": {"type": "boolean"},
        "repository": {"type": "string"}, "image": {"type": "string"}, "version": {"type": "string"}}},
    "gds": {"type": "object", "properties": {"enabled": {"type": "boolean"}}}}}


# What may change in an object without the comparison seeing it: each operator's own words.
UNSEEN = [
    r"(initC|c)ontainers\[\d+\]\.args\[\d+\]", r"(initC|c)ontainers\[\d+\]\.lifecycle\.preStop\.exec\.command\[\d+\]",
    r"(initC|c)ontainers\[\d+\]\.\w+Probe\.exec\.command\[\d+\]",
    r"data\..*\.sh", r"annotations\.kubernetes\.io/description", r"groups\[\d+\]\.name",
    r"rules\[\d+\]\.annotations\.(summary|description)", r"labels\.nvidia\.com/gpu-operator\.state",
    r"ownerReferences\[\d+\]\.uid",
    # The resources that upstream takes from another block of the policy.
    r"^nvidia-vgpu-manager-daemonset-.* .*containers\[1\]\.resources\."]


def cluster_policy_schema():
    crd = ROOT / "deploy/chart/gpu-operator/crds/nvidia.com_clusterpolicies.yaml"
    schema = yaml.safe_load(crd.read_text())["spec"]["versions"][0]["schema"]
    return schema["openAPIV3Schema"]["properties"]["spec"]


def leaves(value, path=""):
    """Every (path, container, key) of a value that holds no further values."""
    for key, member in value.items() if isinstance(value, dict) else enumerate(value):
        where = f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}" if path else key
        if isinstance(member, (dict, list)) and member:
            yield from leaves(member, where)
        else:
            yield where, value, key


def rendered_objects():
    """What the operator renders in its golden cases, the biggest case of each operand."""
    for operand in sorted((ROOT / "src/desired/tests/data").iterdir()):
        file = max(operand.glob("*/expected.yaml"), key=lambda path: path.stat().st_size)
        for item in yaml.load_all(file.read_text(), yaml.CSafeLoader):
            if "kind" in item:
                yield item


def daemonset(**pod):
    return {"kind": "DaemonSet", "metadata": {"name": "x"}, "spec": {"template": {"spec": pod}}}


class Policies(unittest.TestCase):
    def make(self, seed, count=20):
        generator = policies.Generator(SCHEMA, seed)
        return [generator.policy() for _ in range(count)]

    def test_the_same_seed_gives_the_same_policies(self):
        self.assertEqual(self.make("1/a"), self.make("1/a"))
        self.assertNotEqual(self.make("1/a"), self.make("2/a"))

    def test_required_blocks_are_there(self):
        self.assertTrue(all("driver" in policy["spec"] for policy in self.make("1")))

    def test_no_policy_that_upstream_refuses(self):
        for policy in self.make("1", 200):
            spec = policy["spec"]
            if spec["driver"].get("usePrecompiled"):
                self.assertNotIn("enabled", spec.get("gds", {}))
                self.assertTrue(spec["driver"]["repository"])


class Normalise(unittest.TestCase):
    def same(self, a, b):
        return not list(normalise.differences(normalise.normalise(a), normalise.normalise(b)))

    def test_layout_of_a_file_does_not_matter_and_its_meaning_does(self):
        def config_map(text):
            return {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"config.yaml": text}}
        self.assertTrue(self.same(config_map("a: {b: 1}"), config_map("a:\n  b: 1\n")))
        self.assertFalse(self.same(config_map("a: {b: 1}"), config_map("a: {b: '1'}")))

    def test_words_of_a_script_do_not_matter_and_programs_do(self):
        def container(argument):
            return daemonset(containers=[{"name": "c", "command": ["sh", "-c"], "args": [argument]}])
        self.assertTrue(self.same(container("until true; do sleep 1; done"), container("while false; do :; done")))
        self.assertFalse(self.same(container("nvidia-validator"), container("driver-manager")))

    def test_mounts_of_one_volume_are_told_apart_by_their_places(self):
        two = [{"name": "files", "mountPath": "/a"}, {"name": "files", "mountPath": "/b"}]
        other = {"name": "modules", "mountPath": "/m"}

        def found(ours, theirs):
            return [path for path, _, _ in normalise.differences({"m": ours}, {"m": theirs})]
        self.assertEqual(found(two, copy.deepcopy(two)), [])
        self.assertEqual(found([*two, other], two), ["m[modules]"])
        self.assertEqual(found(two, two[:1]), ["m[files /b]"])
        self.assertEqual(found(two, [two[0], {**two[1], "subPath": "x"}]), ["m[files /b].subPath"])
        self.assertEqual(found(two, two[::-1]), ["m (order)"])
        # What nothing tells apart is one value.
        self.assertEqual(found([{"name": "a", "value": 1}, {"name": "a", "value": 2}], [{"name": "a", "value": 1}]), ["m"])

    def test_order_of_variables_does_not_matter_and_of_containers_does(self):
        a, b = {"name": "A", "value": "1"}, {"name": "B", "value": "2"}
        self.assertTrue(self.same(daemonset(containers=[{"name": "c", "env": [a, b]}]),
                                  daemonset(containers=[{"name": "c", "env": [b, a]}])))
        self.assertFalse(self.same(daemonset(containers=[{"name": "c"}, {"name": "d"}]),
                                   daemonset(containers=[{"name": "d"}, {"name": "c"}])))

    def test_texts_for_people_do_not_matter_and_expressions_do(self):
        def rule(expression, summary):
            return {"kind": "PrometheusRule", "metadata": {"name": "x"}, "spec": {"groups": [
                {"name": summary, "rules": [{"alert": "A", "expr": expression,
                                             "annotations": {"summary": summary}}]}]}}
        self.assertTrue(self.same(rule("a == 1\nAND\nb == 2\n", "one"), rule("a == 1 AND b == 2", "two")))
        self.assertFalse(self.same(rule("a == 1", "one"), rule("a == 2", "one")))


class Mutations(unittest.TestCase):
    """No change of what the operator renders goes unseen, whatever is accepted."""

    def test_every_changed_value_is_seen(self):
        rules = [rule for rule in yaml.safe_load((HERE / "accepted.yaml").read_text()) if "clusters" not in rule]
        for item in rendered_objects():
            with self.subTest(f"{item['kind']} {item['metadata']['name']}"):
                unseen = [path for path in self.unseen(item, rules)
                          if not any(re.search(pattern, f"{item['metadata']['name']} {path}") for pattern in UNSEEN)]
                self.assertEqual(unseen, [])

    def unseen(self, item, rules):
        name = f"{item['kind']}/{item['metadata']['name']}"
        original = {name: normalise.normalise(item)}
        changed = copy.deepcopy(item)
        # A ConfigMap's file is text to the object: one change of it is enough.
        for path, container, key in list(leaves(changed)):
            if path in ("apiVersion", "kind", "metadata.name"):
                continue
            before = container[key]
            container[key] = "" if before == "changed" else 4711 if isinstance(before, (int, bool)) else "changed"
            if not list(compare.differences({name: normalise.normalise(changed)}, original, rules)):
                yield path
            container[key] = before

    def test_a_variable_of_ours_that_changes_is_seen(self):
        rules = yaml.safe_load((HERE / "accepted.yaml").read_text())
        ours = [item for item in rendered_objects() if item["metadata"]["name"] == "gpu-feature-discovery"
                and item["kind"] == "DaemonSet"][0]
        theirs = copy.deepcopy(ours)
        env = theirs["spec"]["template"]["spec"]["containers"][0]["env"]
        env[:] = [variable for variable in env if not variable["name"].startswith("NVIDIA_")]
        name = "DaemonSet/gpu-feature-discovery"

        def differences():
            both = [{name: normalise.normalise(side)} for side in (ours, theirs)]
            return list(compare.differences(*both, rules))
        self.assertEqual(differences(), [])
        for variable in ours["spec"]["template"]["spec"]["containers"][0]["env"]:
            before = dict(variable)
            variable["value"] = "changed"
            self.assertTrue(differences(), before)
            variable.clear()
            variable.update(before)


class Coverage(unittest.TestCase):
    def test_policies_reach_every_field_and_value_of_the_schema(self):
        schema = cluster_policy_schema()
        specs = []
        for density in (0.25, 0.6):
            generator = policies.Generator(schema, "coverage", density=density, mistakes=0.1)
            specs += [generator.policy()["spec"] for _ in range(200)]
        self.assertEqual(list(coverage.report(schema, specs, policies.EXCLUDED)), [])

    def test_what_is_missing_is_told(self):
        schema = {"properties": {"a": {"type": "boolean"}, "b": {"enum": ["x", "y"]}, "c": {"type": "array"}}}
        self.assertEqual(list(coverage.report(schema, [{"a": True}, {"b": "x", "c": [1]}])),
                         ["a is always True", "b is never 'y'", "c is never empty"])


class Compare(unittest.TestCase):
    def places(self, ours, theirs, rules=(), **options):
        accepted = [{"where": rule} for rule in rules]
        return [where for where, _, _ in compare.differences(ours, theirs, accepted, **options)]

    def test_missing_objects(self):
        self.assertEqual(self.places({"Role/a": {}}, {"Role/b": {}}), ["Role/a", "Role/b"])
        self.assertEqual(self.places({"Role/a": {}}, {"Role/b": {}}, both_only=True), [])

    def test_places(self):
        ours, theirs = {"DaemonSet/x": {"a": [{"name": "n", "value": 1}]}}, {"DaemonSet/x": {"a": [{"name": "n"}]}}
        self.assertEqual(self.places(ours, theirs), ["DaemonSet/x a[n].value"])
        self.assertEqual(self.places(ours, theirs, ["DaemonSet/x a[n]*"]), [])
        self.assertEqual(self.places(ours, theirs, ["DaemonSet/y *"]), ["DaemonSet/x a[n].value"])

    def test_a_map_that_one_side_lacks_is_told_key_by_key(self):
        self.assertEqual(self.places({"Role/a": {"labels": {"x": "1"}}}, {"Role/a": {}}), ["Role/a labels.x"])

    def test_a_rule_with_values_is_about_no_others(self):
        rule = {"where": "Role/a x", "ours": 1, "theirs": None}
        self.assertEqual(list(compare.differences({"Role/a": {"x": 1}}, {"Role/a": {}}, [rule])), [])
        self.assertTrue(list(compare.differences({"Role/a": {"x": 2}}, {"Role/a": {}}, [rule])))
        self.assertTrue(list(compare.differences({"Role/a": {"x": 1}}, {"Role/a": {"x": 3}}, [rule])))

    def test_a_rule_need_not_write_what_the_api_server_fills_in(self):
        field = {"name": "N", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}}
        rule = {"where": "x", "ours": {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}, "name": "N"}}
        self.assertTrue(compare.matches(rule, "x", field, None))
        self.assertFalse(compare.matches(rule, "x", {**field, "name": "M"}, None))
        roles = {"where": "x", "ours": [{"verbs": ["get", "list"], "resources": ["a"]}, {"resources": ["b"], "verbs": ["use"]}]}
        self.assertTrue(compare.matches(roles, "x", [{"resources": ["b"], "verbs": ["use"]},
                                                     {"resources": ["a"], "verbs": ["get", "list"]}], None))
        self.assertFalse(compare.matches(roles, "x", [{"resources": ["a"], "verbs": ["get", "list"]}], None))

    def test_the_rules_that_were_needed_are_known(self):
        used = set()
        rules = [{"where": "Role/*"}, {"where": "no"}]
        list(compare.differences({"Role/a": {"x": 1}}, {"Role/a": {}}, rules, used=used))
        self.assertEqual(used, {"Role/*"})

    def test_outcomes(self):
        self.assertEqual(compare.outcome_difference(("failed", "a"), ("failed", "b"), []), [])
        self.assertEqual(len(compare.outcome_difference(("ready", ""), ("failed", "b"), [])), 1)


class Upgrades(unittest.TestCase):
    WHOLE = ["", "upgrade-done", "upgrade-required", "cordon-required", "wait-for-jobs-required", "pod-deletion-required",
             "pod-restart-required", "validation-required", "uncordon-required", "upgrade-done"]
    RESTART = ["", "upgrade-done", "upgrade-required", "pod-restart-required", "validation-required", "uncordon-required",
               "upgrade-done"]

    @staticmethod
    def case(names=("a", "b"), **more):
        return {"change": "version", "edit": False, "kill": None, "upgradePolicy": {"maxParallelUpgrades": 0},
                "nodes": [{"name": name, "skip": False, "cordoned": False} for name in names]} | more

    @staticmethod
    def result(pods=(), **states):
        return {"nodes": {name: {"states": one, "cordoned": False, "annotations": []} for name, one in states.items()},
                "pods": sorted(pods)}

    def found(self, case, theirs, ours):
        found, known = upgrade_compare.differences(case, theirs, ours)
        return len(found), len(known)

    def test_what_a_node_goes_through_how_it_ends_and_what_is_left(self):
        same = self.result(("p",), a=self.WHOLE)
        self.assertEqual(self.found(self.case(), same, copy.deepcopy(same)), (0, 0))
        self.assertEqual(self.found(self.case(), same, self.result(("p",), a=self.RESTART)), (1, 0))
        self.assertEqual(self.found(self.case(), same, self.result((), a=self.WHOLE)), (1, 0))
        self.assertEqual(self.found(self.case(), same, self.result(("p",), a=self.WHOLE, b=[])), (1, 0))
        cordoned = copy.deepcopy(same)
        cordoned["nodes"]["a"]["cordoned"] = True
        self.assertEqual(self.found(self.case(), same, cordoned), (1, 0))
        self.assertEqual(self.found(self.case(), same | {"stopped": "late"}, same), (1, 0))

    def test_a_node_that_waits_when_the_version_is_set_back_is_spared_by_ours(self):
        spared = [*self.WHOLE[:3], "upgrade-done"]
        back = self.case(edit=True, back=True)
        theirs, ours = self.result(a=self.WHOLE), self.result(("user-a", "other-a"), a=spared)
        self.assertEqual(self.found(back, theirs, ours), (0, 1))
        self.assertEqual(self.found(self.case(edit=True), theirs, ours), (2, 0), "only where it was set back")
        self.assertEqual(self.found(back, ours, theirs), (2, 0), "only by ours")
        self.assertEqual(self.found(back, theirs, self.result(("user-b",), a=spared)), (1, 1), "another one's pod")
        self.assertEqual(self.found(back, self.result(a=self.WHOLE[:5]), ours), (1, 0), "it has to come to an end")
        cordoned = copy.deepcopy(ours)
        cordoned["nodes"]["a"]["cordoned"] = True
        self.assertEqual(self.found(back, theirs, cordoned), (1, 0))
        # Which of them had the place is chance, and to the other it may be a restart.
        limited = self.case(edit=True, back=True, upgradePolicy={"maxParallelUpgrades": 1})
        theirs = self.result(("user-a",), a=self.RESTART, b=self.WHOLE + self.WHOLE[2:])
        ours = self.result(("user-b",), a=self.WHOLE + self.WHOLE[2:], b=spared)
        self.assertEqual(self.found(limited, theirs, ours), (0, 1))
        self.assertEqual(self.found(limited, theirs, self.result(("user-b",), a=self.WHOLE[:4], b=spared)), (1, 1))
        self.assertEqual(self.found(limited, self.result(a=self.WHOLE, b=self.WHOLE),
                                    self.result(("user-a",), a=self.WHOLE, b=spared)), (1, 1), "a pod of none that is spared")

    def test_a_skipped_node_keeps_what_was_asked_for(self):
        asked = self.case(("a",), change="request")
        asked["nodes"][0]["skip"] = True
        theirs = self.result(a=self.WHOLE[:3])
        ours = copy.deepcopy(theirs)
        ours["nodes"]["a"]["annotations"] = ["nvidia.com/gpu-driver-upgrade-requested"]
        self.assertEqual(self.found(asked, theirs, ours), (0, 1))
        self.assertEqual(self.found(asked, ours, theirs), (1, 0))
        asked["nodes"][0]["skip"] = False
        self.assertEqual(self.found(asked, theirs, ours), (1, 0))

    def test_who_has_the_place_when_the_driver_changes_again_is_chance(self):
        twice = self.WHOLE + self.WHOLE[2:]
        one, other = self.result(a=self.WHOLE, b=twice), self.result(a=twice, b=self.WHOLE)
        limited = self.case(edit=True, upgradePolicy={"maxParallelUpgrades": 1})
        self.assertEqual(self.found(limited, one, other), (0, 0))
        self.assertEqual(self.found(limited, one, self.result(a=twice, b=twice)), (1, 0))
        cordoned = copy.deepcopy(other)
        cordoned["nodes"]["a"]["cordoned"] = True
        self.assertEqual(self.found(limited, one, cordoned), (1, 0))
        self.assertEqual(self.found(self.case(edit=True), one, other), (2, 0))
        self.assertEqual(self.found(self.case(upgradePolicy={"maxParallelUpgrades": 1}), one, other), (2, 0))
        # Whose turn is not by chance: those that are cordoned begin without a place, those that are skipped not at all.
        for fixed in ("skip", "cordoned"):
            limited["nodes"][0] |= {"skip": False, "cordoned": False, fixed: True}
            self.assertEqual(self.found(limited, one, other), (2, 0), fixed)

    def test_a_request_that_the_other_forgot_when_it_was_killed(self):
        asked = self.case(change="request", kill=0.76)
        theirs = self.result(("user-a", "other-a"), a=self.RESTART, b=self.WHOLE)
        ours = self.result((), a=self.WHOLE, b=self.WHOLE)
        self.assertEqual(self.found(asked, theirs, ours), (0, 1))
        self.assertEqual(self.found(asked, self.result(("user-b",), a=self.RESTART, b=self.WHOLE), ours), (1, 1))
        # On the whole way a pod may be in the way that a restart does not touch.
        failed = [*self.WHOLE[:6], "upgrade-failed", "uncordon-required", "upgrade-done"]
        self.assertEqual(self.found(asked, theirs, self.result(("user-a",), a=failed, b=self.WHOLE)), (0, 1))
        cordoned = copy.deepcopy(ours)
        cordoned["nodes"]["a"] |= {"cordoned": True, "states": [s for s in self.WHOLE if s != "uncordon-required"]}
        self.assertEqual(self.found(asked, theirs, cordoned), (2, 0))
        restarted = copy.deepcopy(theirs)
        restarted["nodes"]["a"] |= {"cordoned": True, "states": [s for s in self.RESTART if s != "uncordon-required"]}
        self.assertEqual(self.found(asked, restarted, cordoned), (0, 1))
        self.assertEqual(self.found(asked, ours, theirs), (2, 0))  # never ours
        self.assertEqual(self.found(asked | {"kill": None}, theirs, ours), (2, 0))
        self.assertEqual(self.found(asked | {"kill": "gate"}, theirs, ours), (2, 0))
        self.assertEqual(self.found(asked | {"change": "version"}, theirs, ours), (2, 0))


class Shrink(unittest.TestCase):
    def test_only_what_matters_stays(self):
        spec = {"driver": {"enabled": True, "env": [{"name": "A"}, {"name": "B", "value": "1"}]}, "gds": {"x": 1}}

        def fails(candidate):
            return any(variable.get("name") == "B" for variable in candidate["driver"].get("env", []))
        self.assertEqual(shrink.shrink(spec, ["driver"], fails, 1000), {"driver": {"env": [{"name": "B"}]}})

    def test_the_limit_holds(self):
        trials = []
        shrink.shrink({"a": {"b": 1, "c": 2}}, [], lambda spec: trials.append(spec), 2)
        self.assertEqual(len(trials), 2)


class Files(unittest.TestCase):
    def test_every_accepted_difference_has_a_reason(self):
        for rule in yaml.safe_load((HERE / "accepted.yaml").read_text()):
            self.assertTrue({"where", "reason"} <= set(rule) <= {"where", "reason", "ours", "theirs", "clusters"}, rule)

    def test_every_node_of_a_cluster_has_what_the_comparison_needs(self):
        for file in (HERE / "clusters").glob("*.yaml"):
            for node in yaml.safe_load(file.read_text())["nodes"]:
                self.assertTrue({"name", "runtime"} <= set(node), file)


if __name__ == "__main__":
    unittest.main()
