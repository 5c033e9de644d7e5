"""The image builder: same inputs, same bytes; libraries come along; what is missing is named."""

import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILDER = ROOT / "deploy/image/build.py"


def build(folder, recipe, into="images", *arguments):
    path = pathlib.Path(folder) / "trial.yaml"
    path.write_text(recipe, encoding="utf-8")
    return subprocess.run([sys.executable, str(BUILDER), "--build", folder, "--into", f"{folder}/{into}", *arguments,
                           str(path)], capture_output=True, text=True, check=False)


def members(archive):
    """The layer's members by name."""
    with tarfile.open(archive) as outer:
        manifest = json.load(outer.extractfile("manifest.json"))[0]
        with tarfile.open(fileobj=outer.extractfile(manifest["Layers"][0]), mode="r:gz") as layer:
            return manifest, {member.name: member for member in layer.getmembers()}


RECIPE = """
image: docker.io/pitcrew/trial
tag: v1
config: {Entrypoint: [/usr/bin/env]}
folders: {/tmp: "1777"}
texts: {/etc/passwd: "root:x:0:0:root:/root:/bin/sh\\n"}
files:
  - {from: /usr/bin/env, to: /bin/env, libraries: true, links: [/usr/bin/also]}
busybox: /usr/bin/busybox
"""


class ImageBuilder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_the_same_inputs_give_the_same_bytes(self):
        for into in ("first", "second"):
            result = build(self.folder, RECIPE, into)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("docker.io/pitcrew/trial:v1", result.stdout)
        first, second = (pathlib.Path(self.folder, into, "trial.tar").read_bytes() for into in ("first", "second"))
        self.assertEqual(first, second)

    def test_the_layer_is_a_merged_root_with_libraries_and_loader(self):
        self.assertEqual(build(self.folder, RECIPE).returncode, 0)
        manifest, layer = members(f"{self.folder}/images/trial.tar")
        self.assertEqual(manifest["RepoTags"], ["docker.io/pitcrew/trial:v1"])
        self.assertEqual(layer["bin"].linkname, "usr/bin")
        self.assertTrue(layer["usr/bin/env"].isfile())
        self.assertEqual(layer["usr/bin/also"].linkname, "/bin/env")
        self.assertTrue(any(name.endswith("/libc.so.6") and member.isfile() for name, member in layer.items()))
        self.assertTrue(any("/ld-linux" in name and member.isfile() for name, member in layer.items()))
        self.assertEqual(layer["tmp"].mode, 0o1777)
        self.assertTrue(all(name.rpartition("/")[0] in layer or "/" not in name for name in layer),
                        "a member without its folder")

    def test_a_program_of_ours_goes_before_an_applet(self):
        self.assertEqual(build(self.folder, RECIPE).returncode, 0)
        _, layer = members(f"{self.folder}/images/trial.tar")
        self.assertTrue(layer["usr/bin/env"].isfile())
        self.assertEqual(layer["usr/bin/sh"].linkname, "/usr/bin/busybox")

    def test_a_missing_file_is_named(self):
        result = build(self.folder, RECIPE.replace("/usr/bin/env, to", '"${build}/bin/absent", to'))
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{self.folder}/bin/absent is not there", result.stderr)

    def test_a_malformed_recipe_ends_with_2(self):
        for recipe, word in (("image: [\n", "trial.yaml:"), ("image: a\n", "`tag`"),
                             (RECIPE + "layers: 2\n", "layers"), (RECIPE.replace("v1", "${nothing}"), "${nothing}")):
            result = build(self.folder, recipe)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(word, result.stderr)


if __name__ == "__main__":
    unittest.main()
