#!/bin/sh
# An upgrade whose container is killed in each of its steps: the old driver works or the new one does, or neither says that
# it would, and the next container ends well. Each container has a root of its own over the image's, as an engine makes it,
# so that the new driver has all to do: it is not compiled yet, and the old one is loaded.
. /support/driver_container.sh
modprobe overlay
lower=$image
marker=var/lib/nvidia-driver/incomplete

container() {
  image=/containers/$1
  mkdir -p "$image" "/run/layers/$1/upper" "/run/layers/$1/work"
  mount -t overlay -o "lowerdir=$lower,upperdir=/run/layers/$1/upper,workdir=/run/layers/$1/work" overlay "$image"
  mounts "$image"
}
old() { image=/containers/old version=580.95.05 digest=111; }
new() { image=/containers/$1 version=590.10.01 digest=222; }
whole() {
  for module in nvidia nvidia_uvm nvidia_modeset; do
    loaded $module
    is "$(cat /sys/module/$module/version)" "$1" "the driver that $module is of"
  done
}
comes_up() {
  begin nvidia-driver init
  up
  works $version
  whole $version
}
# Killed as soon as it says these words, with what it has started. Steps may take a hundredth of a second.
killed_at() {
  : > /run/log
  mkfifo /run/lines
  begin_into /run/lines nvidia-driver init
  while read -r line; do
    echo "$line" >> /run/log
    case $line in *"$1"*) kill -KILL $driver; break ;; esac
  done < /run/lines
  said "$1"
  killed
  rm /run/lines
}
# Killed while its installer has installed half.
killed_while_installing() {
  mkdir -p $image/run/stand-in
  mkfifo $image/run/stand-in/installer-waits
  begin nvidia-driver init
  until [ -e $image/run/stand-in/installer-is-waiting ]; do runs || fail "it has not installed anything"; sleep 0.1; done
  said "of=install"
  killed
  rm $image/run/stand-in/installer-waits
}
# What has to hold then, at this step of a new driver's container.
after() {
  is "$(cat /run/nvidia/validations/.driver-daemons-status)" NotReady "the daemons' status"
  case $1 in
    preflight | prepare)
      whole 580.95.05
      is "$(chroot /run/nvidia/driver /usr/bin/nvidia-smi)" 580.95.05 "the driver of the node"
      is "$(cat /run/nvidia/nvidia-driver.state)" 111 "the digest" ;;
    unload)
      [ "$(cat /run/nvidia/nvidia-driver.state 2> /dev/null)" != 222 ] || fail "the new driver's digest is there" ;;
    install | load)
      [ ! -e /run/nvidia/nvidia-driver.state ] || fail "a digest is there"
      [ ! -e /run/nvidia/driver/usr ] || fail "a driver's root is shown" ;;
    daemons)
      whole 590.10.01
      [ ! -e /run/nvidia/nvidia-driver.state ] || fail "a digest is there" ;;
    show) whole 590.10.01 ;;
  esac
}

container old
old
comes_up
for step in preflight prepare unload install load daemons show; do
  echo "== killed at $step"
  killed
  container $step
  new $step
  if [ $step = install ]; then killed_while_installing; else killed_at "of=$step"; fi
  after $step
  if [ $step = install ]; then
    all_gone
    [ -e $image/$marker ] || fail "nothing says that the driver is half there"
    # As if some of the modules had been copied, too.
    modules=usr/lib/modules/$kernel/kernel/drivers/video
    mkdir -p $image/$modules
    cp $image/usr/src/nvidia-590.10.01/kernel-open/nvidia.ko $image/$modules/
    chroot $image /usr/sbin/depmod "$kernel"
  fi
  echo "-- and what comes next"
  # A driver that somebody wants back now, for once.
  case $step in preflight | unload | load) old ;; esac
  comes_up
  [ ! -e $image/$marker ] || fail "the driver is said to be half there"
  case $step in
    install)
      said "install the driver's programs"
      said "compile the kernel modules" ;;
    daemons | show) silent "compile the kernel modules" ;;
  esac
  # The old one comes back for the next round.
  killed
  old
  comes_up
done

echo "== killed while modules went: what is left of a driver is not taken for the driver"
killed
rmmod nvidia_uvm
comes_up
silent "it is kept"
down
echo "all is well"
