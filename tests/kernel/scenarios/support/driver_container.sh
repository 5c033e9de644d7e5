# What scenarios of driver containers have in common: the node with its mounts, one driver container on it at a time, and
# what has to hold then. They read it first: `. /support/driver_container.sh`.
set -e
image=/image  # another, where a scenario says so
kernel=$(uname -r)
modules=$image/usr/lib/modules/$kernel/kernel/drivers/video

fail() { echo "FAILED: $*"; tail -n 60 /run/log; cat /proc/modules; exit 1; }
is() { [ "$1" = "$2" ] || fail "$3 is '$1' and not '$2'"; }
said() { grep -q "$1" /run/log || fail "not said: $1"; }
silent() { ! grep -q "$1" /run/log || fail "said: $1"; }
refused() { grep -q "$1" /run/refused || { cat /run/refused; fail "not said: $1"; }; }
loaded() { [ -e "/sys/module/$1" ] || fail "$1 is not loaded"; }
gone() { [ ! -e "/sys/module/$1" ] || fail "$1 is still loaded"; }
all_gone() { for module in nvidia nvidia_uvm nvidia_modeset nvidia_drm; do gone $module; done; }

# Mounts as the pod has them: /run/nvidia in both directions.
mounts() {
  mkdir -p "$1/run/nvidia"
  mount -t proc proc "$1/proc"
  mount --rbind /sys "$1/sys"
  mount --rbind /dev "$1/dev"
  mount --rbind /run/nvidia "$1/run/nvidia"
}
mount -t tmpfs tmpfs /run
mkdir -p /run/nvidia
mount -t tmpfs tmpfs /run/nvidia
mount --make-shared /run/nvidia
if [ -d $image ]; then
  mount --bind $image $image
  mounts $image
fi
for minor in 0 1; do mknod /dev/nvidia$minor c 195 $minor; done
mknod /dev/nvidiactl c 195 255

# What the pod sets; options of one call stand before it, as VARIABLE=value.
in_image() {
  chroot $image /usr/bin/unshare --mount --propagation unchanged /usr/bin/env DRIVER_VERSION="$version" DRIVER_CONFIG_DIGEST="$digest" "$@"
}
version=580.95.05 digest=111
# begin_into FILE WORDS: what it says is written there.
begin_into() {
  into=$1; shift
  chroot $image /usr/bin/unshare --mount --propagation unchanged /usr/bin/env DRIVER_VERSION="$version" DRIVER_CONFIG_DIGEST="$digest" \
    "$@" >> "$into" 2>&1 &
  driver=$!
}
begin() {
  : > /run/log  # what is awaited must not be found in the words of the one before
  begin_into /run/log "$@"
}
# A process that has ended and is not waited for yet is still there, as a zombie.
runs() { read -r _ _ state _ < /proc/$driver/stat && [ "$state" != Z ]; }
await() {
  until grep -q "$1" /run/log; do
    runs || { grep -q "$1" /run/log || fail "it ended before it said: $1"; break; }
    sleep 0.1
  done
}
up() { await "The driver is up"; }
# As a container is killed: with all that it has started.
killed() {
  kill -KILL $driver 2> /dev/null || true
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/root" 2> /dev/null)" != "$image" ] || kill -KILL "${process#/proc/}" 2> /dev/null || true
  done
  wait $driver 2> /dev/null || true
}
ends() { wanted=$1; status=0; wait $driver || status=$?; is "$status" "$wanted" "its exit status"; }
# Runs to its end, which has to be a failure for this reason.
refuses() {
  reason=$1; shift
  status=0; in_image "$@" > /run/refused 2>&1 || status=$?
  is "$status" 1 "the exit status"
  refused "reason=$reason"
}
# use DEVICE: a program that has it open.
use() {
  sleep 1000 < "$1" & user=$!
  until [ "$(readlink /proc/$user/fd/0)" = "$1" ]; do sleep 0.1; done
}
use_gpu() { use /dev/nvidia0; }
works() {
  is "$(chroot /run/nvidia/driver /usr/bin/nvidia-smi)" "$1" "the driver of the node"
  is "$(cat /run/nvidia/validations/.driver-daemons-status)" Ready "the daemons' status"
  is "$(cat /run/nvidia/nvidia-driver.state)" "$digest" "the digest"
  is "$(cat /run/nvidia/nvidia-driver.pid)" "$driver" "the process in the PID file"
  persistence=$(cat $image/run/nvidia-persistenced/nvidia-persistenced.pid)
  kill -0 "$persistence" || fail "the persistence daemon does not run"
}
down() {
  kill -TERM $driver
  ends 0
  all_gone
  [ ! -e /run/nvidia/driver/usr ] || fail "the driver's root is still shown"
  for file in nvidia-driver.pid validations/.driver-daemons-status validations/.driver-ctr-ready; do
    [ ! -e /run/nvidia/$file ] || fail "$file is still there"
  done
}
