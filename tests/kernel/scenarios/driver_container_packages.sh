#!/bin/sh
# What nvidia-driver has compiled with headers that dnf and apt had installed (package_images.py) on a real kernel: the
# modules load, the driver is shown to the node, and goes again. That the kernel is the distribution's is only what /proc
# says here.
set -e

fail() { echo "FAILED: $*"; tail -n 60 /run/log; exit 1; }

mount -t tmpfs tmpfs /run
mkdir -p /run/nvidia
mount -t tmpfs tmpfs /run/nvidia
mount --make-shared /run/nvidia
for minor in 0 1; do mknod /dev/nvidia$minor c 195 $minor; done
mknod /dev/nvidiactl c 195 255

for image in /images/red_hat /images/ubuntu; do
  kernel=$(cat $image/release)
  mount --bind $image $image
  mkdir -p $image/run/nvidia
  mount -t proc proc $image/proc
  mount --bind $image/release $image/proc/sys/kernel/osrelease
  mount --rbind /sys $image/sys
  mount --rbind /dev $image/dev
  mount --bind /run/nvidia $image/run/nvidia

  echo "== $image: what was compiled for $kernel is loaded"
  : > /run/log
  chroot $image /usr/bin/unshare --mount --propagation unchanged /usr/bin/env DRIVER_VERSION=580.95.05 nvidia-driver init \
    > /run/log 2>&1 &
  driver=$!
  until grep -q "The driver is up" /run/log; do
    read -r _ _ state _ < /proc/$driver/stat && [ "$state" != Z ] || fail "it ended before the driver was up"
    sleep 0.1
  done
  ! grep -q "kernel.s headers\|compile the kernel modules" /run/log || fail "it has installed or compiled again"
  is_for=$(chroot $image /usr/sbin/modinfo --field vermagic /lib/modules/$kernel/kernel/drivers/video/nvidia.ko)
  [ "${is_for%% *}" = "$(uname -r)" ] || fail "the module is for $is_for"
  [ "$(cat /sys/module/nvidia/version)" = 580.95.05 ] || fail "nvidia is not loaded"
  for module in nvidia_uvm nvidia_modeset; do [ -e /sys/module/$module ] || fail "$module is not loaded"; done
  [ "$(chroot /run/nvidia/driver /usr/bin/nvidia-smi)" = 580.95.05 ] || fail "the driver of the node"

  echo "== and goes again"
  kill -TERM $driver
  wait $driver || fail "the exit status"
  [ ! -e /sys/module/nvidia ] || fail "nvidia is still loaded"
done
echo "all is well"
