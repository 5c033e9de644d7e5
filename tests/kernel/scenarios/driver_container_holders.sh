#!/bin/sh
# What else holds the driver's modules when its container is asked to end: modules of the containers of GPUDirect Storage
# and GDRCopy, which go with it when nobody uses them, other modules, and daemons that do not end.
. /support/driver_container.sh
sources=/usr/src/nvidia-580.95.05/kernel-open

# compile MODULE: from its sources in /beside, against the driver's.
compile() {
  cp -r "/beside/$1" $image/usr/src/
  chroot $image /usr/bin/env PWD="/usr/src/$1" make -C "/usr/src/$1" NVIDIA_SRC_DIR=$sources \
    KBUILD_EXTRA_SYMBOLS=$sources/Module.symvers > /run/log.make 2>&1 ||
    { cat /run/log.make; fail "$1 is not compiled"; }
}
insert() { chroot $image /usr/sbin/insmod "/usr/src/$1/$1.ko"; }
starts() { grep -c "A daemon of the driver runs" /run/log; }
stays_whole() {
  kill -0 "$persistence" || fail "the persistence daemon was ended"
  is "$(starts)" 1 "how often a daemon was started"
  is "$(chroot /run/nvidia/driver /usr/bin/nvidia-smi)" 580.95.05 "the driver of the node"
}

echo "== modules of GPUDirect Storage and GDRCopy go with the driver that they hold (driver-lifecycle.md #112)"
begin nvidia-driver init
up
works 580.95.05
compile gdrdrv
compile nvidia-fs
insert gdrdrv
insert nvidia-fs
down
gone gdrdrv
gone nvidia_fs

echo "== while a program uses one of them all stays, and nothing ends (driver-lifecycle.md #112)"
begin nvidia-driver init
up
works 580.95.05
insert nvidia-fs
insert gdrdrv
number=$(sed -n 's/ gdrdrv$//p' /proc/devices)
mknod /dev/gdrdrv c "${number##* }" 0
use /dev/gdrdrv
kill -TERM $driver
await "DriverInUse"
said "(process $user)"
stays_whole
for module in nvidia nvidia_uvm nvidia_modeset nvidia_fs gdrdrv; do loaded $module; done
kill $user
ends 0
all_gone
gone gdrdrv
gone nvidia_fs

echo "== a module that belongs to nobody here keeps the driver, and its daemons, until it goes"
cp -r /beside/gdrdrv /beside/foreign
mv /beside/foreign/gdrdrv.c /beside/foreign/foreign.c
rm /beside/foreign/nv-p2p-dummy.c
sed -i 's/nv-p2p-dummy.o //' /beside/foreign/Makefile
sed -i 's/gdrdrv/foreign/g' /beside/foreign/*
begin nvidia-driver init
up
works 580.95.05
compile foreign
insert foreign
kill -TERM $driver
await "nvidia is held by foreign"
stays_whole
rmmod foreign
ends 0
all_gone

echo "== a daemon that does not end: those that have ended before it run again"
cat > $image/usr/bin/nvidia-gridd <<'END'
#!/bin/sh
mkdir -p /var/run/nvidia-gridd
(
  trap '' TERM
  exec > /dev/null 2>&1 4<> /run/stand-in/never
  sh -c 'echo $PPID' > /var/run/nvidia-gridd/nvidia-gridd.pid
  read -r _ <&4
) &
END
chmod 755 $image/usr/bin/nvidia-gridd
begin DRIVER_TYPE=vgpu nvidia-driver init
up
works 580.95.05
licensing=$(cat $image/run/nvidia-gridd/nvidia-gridd.pid)
kill -TERM $driver
await "DaemonStays"
! kill -0 "$persistence" 2> /dev/null || fail "the persistence daemon has not ended before the other"
until kill -0 "$(cat $image/run/nvidia-persistenced/nvidia-persistenced.pid)" 2> /dev/null; do
  runs || fail "it ended, and has not started the persistence daemon again"
  sleep 0.1
done
kill -0 "$licensing" || fail "the licensing daemon has ended"
is "$(starts)" 3 "how often a daemon was started"
for module in nvidia nvidia_uvm nvidia_modeset; do loaded $module; done
kill -KILL "$licensing"
ends 0
all_gone
echo "all is well"
