"""nvidia-driver on roots of the Red Hat family: the real dnf and rpm, repositories laid out as the distributions' own."""

import os
import shutil

import cases
import rpm_repositories
import systems

OLD = "5.14.0-427.37.1.el9_4.x86_64"
NEW = "5.14.0-503.11.1.el9_5.x86_64"
# What the image gets, besides what it has here already.
_OF_THE_RECIPE = ("ca-certificates", "kmod", "xz")
_APP_STREAM = ("kernel-devel", "kernel-headers")
_REPOSITORY = """\
[{name}]
name=Repository {name}
baseurl={url}
enabled={enabled}
gpgcheck=1
gpgkey=file:///etc/pki/rpm-gpg/key
"""


def _repository(name: str, url: str, enabled: int = 1) -> str:
    return _REPOSITORY.format(name=name, url=url, enabled=enabled)


class RedHatTest(cases.PackagesTest):
    """RHEL and Rocky Linux 9: the packages are made once, each case has its own choice of them in repositories."""

    @classmethod
    def make(cls):
        work = cls.folder / "work"
        work.mkdir()
        cls.pool = cls.repositories / "pool"
        cache = systems.find_kernel().modules.parents[2]
        cls.packages = {release: rpm_repositories.kernel(cache, work, release) for release in (OLD, NEW)}
        for release, packages in cls.packages.items():
            for package in packages:
                package.build(work, cls.pool / release, cls.key)
        of_the_image = [rpm_repositories.named_only(work, name) for name in rpm_repositories.OF_THE_IMAGE]
        for package in [rpm_repositories.shell(work), *of_the_image]:
            package.build(work, cls.pool / "image", cls.key)
        for name in (*rpm_repositories.NEEDED, *_OF_THE_RECIPE):
            rpm_repositories.named_only(work, name).build(work, cls.pool / "base", cls.key)
        cls.first = systems.red_hat(cls.folder / "first", cases.PROGRAM, cls.repositories)
        cls.first.write("/etc/pki/rpm-gpg/key", cls.key.public())
        rpm_repositories.index(cls.pool / "image")
        cls.first.write("/etc/yum.repos.d/image.repo", _repository("image", "file:///repositories/pool/image"))
        done = cls.first.run("dnf", "-y", "--releasever=9", "install", "bash", *rpm_repositories.OF_THE_IMAGE)
        if done.returncode != 0:
            raise RuntimeError(done.stdout)
        (cls.first.root / "etc/yum.repos.d/image.repo").unlink()

    def repository(self, name: str, *packages: str):
        """A repository of this case, with packages of the pool by "<folder>/<name>"."""
        folder = self.repositories / self._testMethodName / name
        folder.mkdir(parents=True)
        for package in packages:
            of, name = package.split("/")
            found = [file for file in (self.pool / of).glob(f"{name}-*.rpm") if file.name[len(name) + 1].isdigit()]
            self.assertEqual(len(found), 1, package)
            os.link(found[0], folder / found[0].name)
        rpm_repositories.index(folder)

    def kernel(self, release: str, *without: str) -> list[str]:
        names = ["kernel-core", "kernel-devel", "kernel-headers", "kernel-modules", "kernel-modules-core"]
        return [f"{release}/{name}" for name in names if name not in without]

    def url(self, rest: str) -> str:
        return f"file:///repositories/{self._testMethodName}/{rest}"

    def configure(self, *repositories: str):
        self.system.write("/etc/yum.repos.d/distribution.repo", "".join(repositories))

    def test_rocky_has_older_kernels_in_the_repositories_of_their_own_release(self):
        """And a second kernel's packages stand beside the first's."""
        self.system.write("/etc/os-release", 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.5"\n')
        self.repository("9/BaseOS", *self.kernel(NEW), *(f"base/{name}" for name in rpm_repositories.NEEDED))
        self.repository("9.4/BaseOS", *self.kernel(OLD), *(f"base/{name}" for name in rpm_repositories.NEEDED))
        # A variable of dnf's own, as Rocky's files have them.
        self.system.write("/etc/dnf/vars/contentdir", self._testMethodName + "\n")
        self.configure(_repository("baseos", "file:///repositories/$contentdir/$releasever/BaseOS"))
        self.succeeds("build", "--kernel", OLD)
        self.assert_built_for(OLD)
        self.assert_own_modules_without_scripts(OLD)
        self.assertEqual(os.readlink(self.system.root / "usr/lib/modules" / OLD / "build"), f"/usr/src/kernels/{OLD}")
        self.succeeds("update", "--kernel", NEW)
        self.assert_built_for(NEW)
        self.assert_built_for(OLD)
        installed = self.system.run("rpm", "--query", "kernel-devel", "kernel-headers").stdout.split()
        self.assertEqual(sorted(installed), [f"kernel-devel-{OLD}", f"kernel-devel-{NEW}", f"kernel-headers-{NEW}"])

    def test_an_image_is_made_as_its_recipe_says(self):
        self.system.write("/etc/os-release", 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n')
        self.repository("9/BaseOS", *self.kernel(OLD), *(f"base/{name}" for name in (*rpm_repositories.NEEDED, *_OF_THE_RECIPE)))
        # The base image says which release it is; there dnf reads it from a package.
        self.system.write("/etc/dnf/vars/releasever", "9\n")
        self.configure(_repository("baseos", self.url("$releasever/BaseOS")))
        self.build_image("rocky9", OLD)
        self.assertFalse(list(self.system.root.glob("var/cache/dnf/[!.]*")), "what dnf has downloaded stays in the image")

    def _red_hat(self, *more: str):
        """As a subscription writes redhat.repo: extended support is there, and switched off."""
        self.configure(*(_repository(f"rhel-9-for-x86_64-{part}-rpms", self.url(f"dist/$releasever/{part}"))
                         for part in ("baseos", "appstream")),
                       *(_repository(f"rhel-9-for-x86_64-{part}-eus-rpms", self.url(f"eus/$releasever/{part}"), 0)
                         for part in ("baseos", "appstream")), *more)

    def _red_hat_repositories(self, prefix: str, kernel: str, *without: str):
        packages = self.kernel(kernel, *without)
        self.repository(f"{prefix}/appstream", *(one for one in packages if one.split("/")[1] in _APP_STREAM))
        self.repository(f"{prefix}/baseos", *(one for one in packages if one.split("/")[1] not in _APP_STREAM),
                        *(f"base/{name}" for name in rpm_repositories.NEEDED))

    def test_extended_support_has_what_the_release_has_dropped(self):
        self._red_hat()
        self._red_hat_repositories("dist/9.4", NEW)
        self._red_hat_repositories("eus/9.4", OLD)
        self.succeeds("build", "--kernel", OLD)
        self.assert_built_for(OLD)

    def test_what_is_away_does_not_stand_in_the_way(self):
        """Extended support that is not paid for, another repository's server, and headers for programs that are gone."""
        self._red_hat(_repository("tools", "https://tools.example.com/9/"))
        self._red_hat_repositories("dist/9.4", OLD, "kernel-headers", "kernel-core")
        output = self.succeeds("build", "--kernel", OLD)
        self.assert_built_for(OLD)
        self.assertIn("A package tool has failed purpose=\"install the kernel's modules\"", output)

    def test_missing_headers_name_the_repositories(self):
        self._red_hat()
        self._red_hat_repositories("dist/9.4", NEW)
        said = self.headers_missing("build", "--kernel", OLD)
        self.assertIn(f"the headers of the kernel {OLD} cannot be had", said)
        self.assertIn(f"Unable to find a match: kernel-devel-{OLD}", said)
        self.assertIn("The repositories are rhel-9-for-x86_64-appstream-rpms, rhel-9-for-x86_64-baseos-rpms", said)
        self.assertIn("of release 9.4: ", said)
        self.assertIn("of release 9: ", said)

    def test_repositories_that_cannot_be_reached_are_named(self):
        self.configure(_repository("mirror", "https://mirror.example.com/9/"), _repository("disk", self.url("nowhere")))
        said = self.headers_missing("build", "--kernel", OLD)
        self.assertIn("Failed to download metadata for repo 'mirror'", said)
        self.assertIn("Failed to download metadata for repo 'disk'", said)
        self.assertIn("The repositories are disk, mirror", said)

    def test_without_a_subscription_there_is_no_repository(self):
        said = self.headers_missing("build", "--kernel", OLD)
        self.assertIn("There is no repository: Red Hat's come with the subscription of the node", said)

    def test_before_an_upgrade_the_headers_are_looked_for(self):
        """In a container whose root file system cannot be written to."""
        self.assert_headers_missing(self.preflight(OLD), OLD, "There is no repository: Red Hat's come with the subscription")
        # Both releases that are asked for.
        for release in ("9.4", "9"):
            self._red_hat_repositories(f"dist/{release}", OLD)
            self._red_hat_repositories(f"eus/{release}", OLD)
        self._red_hat()
        self.assertEqual(self.preflight(OLD), "preflight: nothing is missing")
        missing = OLD.replace("427.37.1", "427.99.1")
        self.assert_headers_missing(self.preflight(missing), missing, f"kernel-devel-{missing}")
        self._red_hat(_repository("tools", "https://tools.example.com/9/"))
        self.assertEqual(self.preflight(OLD), "preflight: nothing is missing")
        said = self.preflight(missing)
        self.assert_nobody_can_tell(said, f"kernel-devel-{missing}")
        self.assertIn("tools", said)

    def test_packages_that_another_key_has_signed(self):
        self._red_hat()
        self._red_hat_repositories("dist/9.4", OLD)
        folder = self.repositories / self._testMethodName / "dist/9.4/appstream"
        [devel] = folder.glob("kernel-devel-*")
        own = devel.with_suffix(".own")
        shutil.copyfile(devel, own)
        own.replace(devel)
        rpm_repositories.sign(devel, self.stranger)
        rpm_repositories.index(folder)
        said = self.headers_missing("build", "--kernel", OLD)
        self.assertIn("GPG check FAILED", said)
        self.assertIn(f"kernel-devel-{OLD}", said)
        self.assertFalse(self.system.has(f"/usr/src/kernels/{OLD}"), "headers are there that nobody has signed")

    def test_the_package_tool_fails_midway(self):
        """Other packages of the transaction are installed by then."""
        work = self.folder / "failing"
        work.mkdir()
        self._red_hat()
        self._red_hat_repositories("dist/9.4", OLD, "kernel-devel")
        folder = self.repositories / self._testMethodName / "dist/9.4/appstream"
        [devel] = [one for one in self.packages[OLD] if one.name == "kernel-devel"]
        devel.scripts = "%pre\necho no room for it >&2\nexit 3\n"
        devel.build(work, folder, self.key)
        rpm_repositories.index(folder)
        said = self.headers_missing("build", "--kernel", OLD)
        self.assertIn("Error in PREIN scriptlet in rpm package kernel-devel", said)
        # Somebody repairs the package, and the same container is asked again.
        devel.scripts = ""
        devel.build(work, folder, self.key)
        rpm_repositories.index(folder)
        self.succeeds("build", "--kernel", OLD)
        self.assert_built_for(OLD)


if __name__ == "__main__":
    cases.main()
