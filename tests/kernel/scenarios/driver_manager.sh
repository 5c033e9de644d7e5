#!/bin/sh
# driver-manager before nvidia-driver, as a driver's pod runs them, on a real kernel: what is in the way (nouveau, programs
# and modules that hold the driver), the old driver that goes, and where the node stands when the new one fails. Modules
# and the API server are stand-ins (stand_in_driver, programs/node_server.cc); kernel, compiler and mounts are real.
set -e
image=/image
kernel=$(uname -r)
run=/run/nvidia

fail() { echo "FAILED: $*"; tail -n 40 /run/log; cat /run/manager /run/server /proc/modules; exit 1; }
is() { [ "$1" = "$2" ] || fail "$3 is '$1' and not '$2'"; }
loaded() { for module in "$@"; do [ -e "/sys/module/$module" ] || fail "$module is not loaded"; done; }
gone() { for module in "$@"; do [ ! -e "/sys/module/$module" ] || fail "$module is still loaded"; done; }
driver_modules="nvidia nvidia_uvm nvidia_modeset nvidia_drm"

# The pod's mounts, and the host's root as the driver manager sees it.
mount -t tmpfs tmpfs /run
mkdir -p $run /host
: > /run/manager; : > /run/log; : > /run/server
mount -t tmpfs tmpfs $run
mount --make-shared $run
mount --bind $image $image
mkdir -p $image$run $image/others
mount -t proc proc $image/proc
mount --rbind /sys $image/sys
mount --rbind /dev $image/dev
mount --bind $run $image$run
mount --rbind / /host
mknod /dev/nvidia0 c 195 0
mknod /dev/nvidiactl c 195 255

# The node in the cluster.
ip link set lo up
cat > /run/kubeconfig <<'CONFIG'
{"apiVersion": "v1", "kind": "Config", "current-context": "c",
 "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:8080"}}],
 "users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
CONFIG
cat > /run/node <<'NODE'
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u", "resourceVersion": "1",
 "labels": {"nvidia.com/gpu.deploy.device-plugin":"true"}}, "spec": {}}
NODE
node_server 8080 /run/node /run/events > /run/server 2>&1 &
until grep -q serving /run/server; do sleep 0.1; done
# Operands run, or wait for the driver; nobody keeps pods off.
node_is_as_before() {
  grep -q '"nvidia.com/gpu.deploy.device-plugin":"true"' /run/node || { cat /run/node; fail "the operand is paused"; }
  ! grep -q unschedulable /run/node || { cat /run/node; fail "the node is cordoned"; }
}

# What the pod sets; options of one call stand before it, as VARIABLE=value.
version=580.95.05 digest=111
manage() {
  status=0
  env KUBECONFIG=/run/kubeconfig NODE_NAME=n DRIVER_CONFIG_DIGEST=$digest ENABLE_AUTO_DRAIN=false "$@" \
    driver-manager uninstall_driver > /run/manager 2>&1 || status=$?
  node_is_as_before
}
prepares() { manage "$@"; is "$status" 0 "the driver manager's exit status"; }
stops_at() {
  reason=$1; shift
  manage "$@"
  is "$status" 1 "the driver manager's exit status"
  grep -q "\"reason\":\"$reason\"\|reason=$reason" /run/manager || fail "not said: $reason"
  grep -q "$reason" /run/events || fail "no Event: $reason"
}
told() { grep -q "$1" /run/manager || fail "not told: $1"; }

in_image() {
  chroot $image /usr/bin/unshare --mount --propagation unchanged /usr/bin/env DRIVER_VERSION=$version \
    DRIVER_CONFIG_DIGEST=$digest nvidia-driver init
}
# A process that has ended and is not waited for yet is still there, as a zombie.
runs() { read -r _ _ state _ < /proc/$driver/stat && [ "$state" != Z ]; }
container_comes_up() {
  : > /run/log  # the one before has said that it is up, and the next one empties this only once it runs
  in_image > /run/log 2>&1 &
  driver=$!
  until grep -q "The driver is up" /run/log; do runs || fail "the driver container ended"; sleep 0.1; done
  is "$(chroot $run/driver /usr/bin/nvidia-smi)" $version "the driver of the node"
  is "$(cat $run/nvidia-driver.state)" $digest "the digest"
}
# As a pod goes that does not end in time: with all that it has started.
container_is_killed() {
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/root" 2> /dev/null)" != $image ] || kill -KILL "${process#/proc/}" 2> /dev/null || true
  done
  wait $driver 2> /dev/null || true
}
use() {
  sleep 1000 < "$1" & user=$!
  until [ "$(readlink /proc/$user/fd/0)" = "$1" ]; do sleep 0.1; done
}
lets_go() { kill $user; wait $user 2> /dev/null || true; }

cp /others/* $image/others/
chroot $image make -C /lib/modules/"$kernel"/build M=/others modules > /run/log 2>&1 || fail "the other modules"
others=$image/others

echo "== nouveau is taken out of the way, unless somebody has it"
insmod $others/nouveau.ko
mknod /dev/nouveau c "$(awk '$2 == "nouveau" {print $1}' /proc/devices)" 0
use /dev/nouveau
stops_at ModuleInUse
told "kernel module nouveau is still in use"
loaded nouveau
lets_go
prepares
gone nouveau

echo "== the host's network driver is waited for by the kernel's word, for a time"
disguise 0000:00:06.1 15b3 1021 020000
stops_at NetworkDriverMissing GPU_DIRECT_RDMA_ENABLED=true USE_HOST_MOFED=true MOFED_TIMEOUT=1s
: > /run/manager
(until grep -q "Waiting for the network driver" /run/manager; do sleep 0.1; done; insmod $others/mlx5_core.ko) &
prepares GPU_DIRECT_RDMA_ENABLED=true USE_HOST_MOFED=true MOFED_TIMEOUT=0s
wait $!
loaded mlx5_core

echo "== a driver that a program uses stays whole under the manager of the next one"
container_comes_up
chroot $image /usr/sbin/modprobe nvidia-drm
container_is_killed
insmod $others/nvidia_fs.ko
use /dev/nvidia0
digest=222
stops_at DriverStillInUse
told "sleep (process $user) has /dev/nvidia0 open"
loaded $driver_modules nvidia_fs
is "$(cat $run/nvidia-driver.state)" 111 "the digest of the loaded driver"
lets_go

echo "== one that a module uses without being seen is loaded again, from its container's files"
insmod $others/looks_up.ko
stops_at DriverStillInUse
told "loaded again: nvidia_uvm, nvidia_modeset, nvidia_drm"
told "could not be loaded again: nvidia_fs"
loaded $driver_modules
rmmod looks_up
is "$(chroot $run/driver /usr/bin/nvidia-smi)" 580.95.05 "the driver of the node"

echo "== a driver that is wanted still is kept"
since=$(stat -c %Z /sys/module/nvidia)
digest=111
prepares
loaded $driver_modules
is "$(stat -c %Z /sys/module/nvidia)" "$since" "the time since which the module is there"

echo "== another one: the old driver goes, with all that it said"
insmod $others/nvidia_fs.ko
digest=222
prepares
gone $driver_modules nvidia_fs
for left in driver/usr nvidia-driver.pid nvidia-driver.state validations/.driver-ctr-ready; do
  [ ! -e $run/$left ] || fail "$left is still there"
done

echo "== its build fails: the node has no driver, and says nothing else; operands wait for one"
version=590.10.01
mv $image/usr/bin/gcc-12 $image/usr/bin/gcc-away
ln -s /bin/false $image/usr/bin/gcc-12
status=0; in_image > /run/log 2>&1 || status=$?
is "$status" 1 "the container's exit status"
grep -q "reason=ProgramFailed\|\"reason\":\"ProgramFailed\"" /run/log || fail "not said: ProgramFailed"
gone $driver_modules
for left in driver/usr nvidia-driver.state validations/.driver-ctr-ready; do
  [ ! -e $run/$left ] || fail "$left is there"
done
node_is_as_before

echo "== the version of before comes back as it was"
version=580.95.05 digest=111
prepares
container_comes_up
container_is_killed

echo "== and the new one when its build can be done: the container starts again, without the manager"
version=590.10.01 digest=222
prepares
gone $driver_modules
mv $image/usr/bin/gcc-away $image/usr/bin/gcc-12
container_comes_up
echo "all is well"
