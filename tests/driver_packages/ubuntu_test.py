"""nvidia-driver on a root of Ubuntu 24.04: the real apt and dpkg, repositories with pockets as Ubuntu has them."""

import shutil

import cases
import deb_repositories
import systems

OLD = "6.8.0-44-generic"
NEW = "6.8.0-51-generic"
_SUITE = "noble"
# What the image gets; here they are there already, and the packages have nothing but their names.
_OF_THE_RECIPE = ("ca-certificates", "gcc", "libc6-dev", "make", "kmod", "pkg-config", "xz-utils")
_COMPILER = "#!/bin/sh\nexec /usr/bin/x86_64-linux-gnu-gcc-12 \"$@\"\n"


class UbuntuTest(cases.PackagesTest):
    @classmethod
    def make(cls):
        cls.pool = cls.repositories / "pool"
        work = cls.folder / "work"
        cache = systems.find_kernel().modules.parents[2]
        for release in (OLD, NEW):
            for package in deb_repositories.kernel(cache, work, release):
                package.build(cls.pool / release)
        content = work / "compiler"
        (content / "usr/bin").mkdir(parents=True)
        (content / "usr/bin/gcc-12").write_text(_COMPILER, encoding="ascii")
        (content / "usr/bin/gcc-12").chmod(0o755)
        deb_repositories.Package("gcc-12", "12.3.0-1", content).build(cls.pool / "compiler")
        for name in _OF_THE_RECIPE:
            deb_repositories.Package(name, "1", work / "nothing").build(cls.pool / "recipe")
        cls.first = systems.ubuntu(cls.folder / "first", cases.PROGRAM, cls.repositories)

    def setUp(self):
        super().setUp()
        self.archive = self.repositories / self._testMethodName
        self.system.write("/usr/share/keyrings/ubuntu-archive-keyring.asc", self.key.public())

    def publish(self, suite: str, *folders: str, key=None):
        """Folders of the pool, or those of packages that the case has put below its archive."""
        pool = self.archive / "pool" / suite
        pool.mkdir(parents=True, exist_ok=True)
        for folder in folders:
            for file in (self.pool / folder).iterdir():
                (pool / file.name).hardlink_to(file)
        deb_repositories.publish(self.archive, suite, pool, key or self.key)

    def configure(self, *suites: str, address: str = "", name: str = "ubuntu"):
        """As the file ubuntu.sources of the image."""
        address = address or f"file:/repositories/{self._testMethodName}"
        self.system.write(f"/etc/apt/sources.list.d/{name}.sources",
                          f"Types: deb\nURIs: {address}\nSuites: {' '.join(suites)}\n"
                          "Components: main\nSigned-By: /usr/share/keyrings/ubuntu-archive-keyring.asc\n")

    def test_headers_come_from_the_pockets_and_modules_are_only_unpacked(self):
        """And a second kernel's packages stand beside the first's."""
        self.publish(_SUITE, OLD)
        self.publish(f"{_SUITE}-security", NEW)
        self.configure(_SUITE, f"{_SUITE}-security")
        self.succeeds("build", "--kernel", OLD)
        self.assert_built_for(OLD)
        self.assert_own_modules_without_scripts(OLD)
        self.succeeds("update", "--kernel", NEW)
        self.assert_built_for(NEW)
        self.assert_built_for(OLD)
        self.assert_own_modules_without_scripts(NEW)
        installed = self.system.run("dpkg-query", "--show", "--showformat", "${Package} ").stdout.split()
        self.assertEqual(installed, ["libc6", "linux-headers-6.8.0-44", "linux-headers-6.8.0-44-generic", "linux-headers-6.8.0-51",
                                     "linux-headers-6.8.0-51-generic"])

    def test_an_image_is_made_as_its_recipe_says(self):
        self.publish(_SUITE, OLD, "recipe")
        self.configure(_SUITE)
        self.build_image("ubuntu24.04", OLD)
        self.assertFalse(list(self.system.root.glob("var/lib/apt/lists/*")), "apt's lists stay in the image")

    def test_the_compiler_is_the_one_that_the_kernel_was_made_with(self):
        """Ubuntu's hardware enablement kernels are made with a newer one than the image's, and have options that the older
        does not know."""
        for name in ("gcc", "gcc-12"):
            (self.system.root / "usr/bin" / name).unlink()
        older = "#!/bin/sh\necho \"gcc: error: unrecognized command-line option\" >&2\nexit 1\n"
        self.system.write("/usr/bin/gcc", older)
        (self.system.root / "usr/bin/gcc").chmod(0o755)
        self.publish(_SUITE, OLD, "compiler")
        self.configure(_SUITE)
        self.succeeds("build", "--kernel", OLD)
        self.assert_built_for(OLD)

    def test_missing_headers_name_the_repositories(self):
        self.publish(_SUITE, NEW)
        self.configure(_SUITE)
        said = self.headers_missing("build", "--kernel", OLD)
        self.assertIn(f"the headers of the kernel {OLD} cannot be had", said)
        self.assertIn(f"Unable to locate package linux-headers-{OLD}", said)
        self.assertIn(f"The repositories are file:/repositories/{self._testMethodName}/ {_SUITE}", said)

    def test_a_repository_that_is_away_does_not_stand_in_the_way(self):
        self.publish(_SUITE, OLD)
        self.configure(_SUITE)
        self.configure("stable", address="http://tools.example.com/ubuntu", name="tools")
        self.configure(_SUITE, address="file:/repositories/nowhere", name="disk")
        self.succeeds("build", "--kernel", OLD)
        self.assert_built_for(OLD)

    def test_repositories_that_cannot_be_reached_are_named(self):
        self.configure(_SUITE, address="http://mirror.example.com/ubuntu")
        said = self.headers_missing("build", "--kernel", OLD)
        self.assertIn("Failed to fetch http://mirror.example.com/ubuntu/dists/noble/InRelease", said)

    def test_before_an_upgrade_the_headers_are_looked_for(self):
        """In a container whose root file system cannot be written to."""
        self.publish(_SUITE, NEW)
        self.configure(_SUITE)
        self.assertEqual(self.preflight(NEW), "preflight: nothing is missing")
        said = self.preflight(OLD)
        self.assert_headers_missing(said, OLD, f"Unable to locate package linux-headers-{OLD}")
        self.configure("stable", address="http://tools.example.com/ubuntu", name="tools")
        self.assertEqual(self.preflight(NEW), "preflight: nothing is missing")
        said = self.preflight(OLD)
        self.assert_nobody_can_tell(said, f"linux-headers-{OLD}")
        self.assertIn("Failed to fetch http://tools.example.com/ubuntu/dists/stable/InRelease", said)

    def test_a_repository_that_another_key_has_signed(self):
        self.publish(_SUITE, OLD, key=self.stranger)
        self.configure(_SUITE)
        said = self.headers_missing("build", "--kernel", OLD)
        self.assertIn("NO_PUBKEY", said)
        self.assertIn(f"file:/repositories/{self._testMethodName} {_SUITE}", said)
        self.assertFalse(self.system.has(f"/usr/src/linux-headers-{OLD}"), "headers are there that nobody has signed")

    def test_the_package_tool_fails_midway(self):
        """The packages are unpacked by then."""
        for package in deb_repositories.kernel(systems.find_kernel().modules.parents[2], self.folder / "failing", OLD):
            if package.name == f"linux-headers-{OLD}":
                package.scripts = {"postinst": "#!/bin/sh\necho no room for it >&2\nexit 3\n"}
            package.build(self.archive / "pool" / _SUITE)
        self.publish(_SUITE)
        self.configure(_SUITE)
        said = self.headers_missing("build", "--kernel", OLD)
        self.assertIn("no room for it", said)
        self.assertIn(f"linux-headers-{OLD}", said)
        # Somebody repairs the package, and the same container is asked again.
        shutil.rmtree(self.archive)
        self.publish(_SUITE, OLD)
        self.succeeds("build", "--kernel", OLD)
        self.assert_built_for(OLD)


if __name__ == "__main__":
    cases.main()
