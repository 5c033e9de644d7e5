#!/bin/sh
# A node that has booted another kernel (Debian's other flavour, really) than its driver was compiled for
# (rebooted_image.py): it is named where nothing can be compiled, else compiled for it; after `nvidia-driver update`, which
# the hook of the kernel's packages runs, it is there already.
. /support/driver_container.sh
before=$(cat /images/before/release)
[ "$before" != "$kernel" ] || fail "the machine has the same kernel as before"
is_for() {
  vermagic=$(chroot $image /usr/sbin/modinfo --field vermagic "/lib/modules/$kernel/kernel/drivers/video/nvidia.ko")
  is "${vermagic%% *}" "$kernel" "the kernel that the module is for"
}

echo "== what was compiled before the reboot comes up at once"
image=/images/updated
mount --bind $image $image
mounts $image
begin nvidia-driver init
up
silent "compile the kernel modules"
is_for
works 580.95.05
down

echo "== the kernel of before has modules, the one that runs has none, and there is nothing to compile from"
image=/images/before
mount --bind $image $image
mounts $image
mkdir /run/away
mv $image/drivers/*.run /run/away/
refuses NoModulesForKernel nvidia-driver init
refused "the node's kernel is $kernel, and this image has modules for $before only"
: > $image/report
in_image nvidia-driver preflight --report /report > /run/log 2>&1 || fail "the preflight"
grep -q "^preflight: NoModulesForKernel: " $image/report || fail "the operator would read $(cat $image/report)"

echo "== with the run file they are compiled for it, and those of the kernel of before stay"
mv /run/away/*.run $image/drivers/
begin nvidia-driver init
up
said "compile the kernel modules"
is_for
works 580.95.05
[ -e "$image/usr/lib/modules/$before/kernel/drivers/video/nvidia.ko" ] || fail "the kernel of before has lost its modules"
down
echo "all is well"
