#!/bin/sh
# A write to an attribute of sysfs is told to whoever watches its folder through the same sysfs, as with any file: so the
# device plugin for virtual machines hears of vGPUs without mediated devices, of which the kernel announces nothing.
set -e
device=/sys/bus/pci/devices/0000:00:04.0
hears() {
  # What the watcher before has said says nothing about this one.
  rm -f /run/said
  watch_attribute "$1" driver_override > /run/said &
  watcher=$!
  while ! grep -qs watching /run/said; do [ -d /proc/$watcher ] || { echo "FAILED: it does not watch $1"; exit 1; }; done
  cat "$device/driver_override" "$device/vendor" > /run/read
  echo vfio-pci > "$2/driver_override"
  wait $watcher || { echo "FAILED: a write to $2 was not heard at $1"; exit 1; }
  echo "a write to $2 was heard at $1"
}
hears $device $device
# As in a pod: another mount of the same sysfs, and by the device's own path.
mkdir -p /run/host/sys
mount -o bind /sys /run/host/sys
hears /run/host$device $device
hears $device "/run/host$(readlink -f $device)"
echo "all is as it should be"
