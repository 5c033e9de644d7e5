#!/bin/sh
# The containers beside the driver's: nvidia-gds-driver and nvidia-gdrcopy-driver, which compile their modules against the
# driver that is loaded, load them, and take them out. They share nothing with the driver container but /run/nvidia.
. /support/driver_container.sh
gds=nvidia-gds-driver gdrcopy=nvidia-gdrcopy-driver

# The image of both: as the driver's before anything was compiled there, with the sources of their modules.
side=/run/side
modprobe overlay
mkdir -p $side /run/layers/upper /run/layers/work
mount -t overlay overlay -o lowerdir=$image,upperdir=/run/layers/upper,workdir=/run/layers/work $side
cp -a $side/usr/lib/modules/"$kernel" /run/layers/modules
rm -rf $side/usr/lib/modules/"$kernel" $side/drivers
cp -a /run/layers/modules $side/usr/lib/modules/"$kernel"
cp -r /beside/nvidia-fs $side/usr/src/nvidia-fs-2.28.4
cp -r /beside/gdrdrv $side/usr/src/gdrdrv-2.5.1
mount -t proc proc $side/proc
mount --rbind /sys $side/sys
mount -t tmpfs tmpfs $side/dev
cp -a /dev/null /dev/zero /dev/urandom $side/dev/
mkdir -p $side/run/nvidia
mount --rbind /run/nvidia $side/run/nvidia

# in_side WORDS: with mounts as the pod has them, that come from the node and go nowhere.
in_side() { chroot $side /usr/bin/unshare --mount --propagation slave /usr/bin/env "$@"; }
# start PROGRAM: in the background; its number is in $process.
start() {
  : > /run/log."$1"
  chroot $side /usr/bin/unshare --mount --propagation slave /usr/bin/env "$1" install >> /run/log."$1" 2>&1 &
  process=$!
}
lives() { read -r _ _ state _ < /proc/"$1"/stat && [ "$state" != Z ]; }
# hear PROGRAM PROCESS WORDS: waits until it has said so.
hear() {
  until grep -q "$3" /run/log."$1"; do
    lives "$2" || { cat /run/log."$1"; fail "$1 ended before it said: $3"; }
    sleep 0.1
  done
}
heard() { grep -q "$2" /run/log."$1" || { cat /run/log."$1"; fail "$1 has not said: $2"; }; }
unheard() { ! grep -q "$2" /run/log."$1" || { cat /run/log."$1"; fail "$1 has said: $2"; }; }
# leaves PROGRAM PROCESS: told to end, it ends well.
leaves() {
  kill -TERM "$2"
  status=0; wait "$2" || status=$?
  [ "$status" = 0 ] || cat /run/log."$1"
  is "$status" 0 "the exit status of $1"
}
# fails PROGRAM REASON
fails() {
  status=0; in_side "$1" install > /run/log."$1" 2>&1 || status=$?
  is "$status" 1 "the exit status of $1"
  heard "$1" "reason=$2"
}
numbers() { stat -c %t:%T "$1"; }

echo "== they wait for the driver, told by the kernel"
start $gds; storage=$process
start $gdrcopy; copy=$process
hear $gds $storage "Waiting for the driver"
hear $gdrcopy $copy "Waiting for the driver"
gone nvidia_fs
begin nvidia-driver init
up
hear $gds $storage "The module is up"
hear $gdrcopy $copy "The module is up"
loaded nvidia_fs
loaded gdrdrv
[ -e /sys/module/nvidia/holders/nvidia_fs ] && [ -e /sys/module/nvidia/holders/gdrdrv ] || fail "they are not linked to nvidia"
gone nv_p2p_dummy
heard $gdrcopy "KBUILD_EXTRA_SYMBOLS=/run/nvidia/driver/usr/src/nvidia-580.95.05/kernel-open/Module.symvers"

echo "== their devices have nodes in their container and in the driver's"
number=$(sed -n 's/ gdrdrv$//p' /proc/devices)
for node in $side/dev/gdrdrv /run/nvidia/driver/dev/gdrdrv; do
  is "$(numbers $node)" "$(printf %x "${number##* }"):0" "$node"
  is "$(stat -c %a $node)" 666 "the mode of $node"
done
number=$(sed -n 's/ nvidia-fs$//p' /proc/devices)
for node in $side/dev/nvidia-fs0 /run/nvidia/driver/dev/nvidia-fs0; do
  is "$(numbers $node)" "$(printf %x "${number##* }"):0" "$node"
done

echo "== told to end, one takes its module out, and the driver stays"
leaves $gds $storage
gone nvidia_fs
[ ! -e $side/dev/nvidia-fs0 ] || fail "the node is still there"
loaded nvidia
works 580.95.05

echo "== a module that a killed container has left is kept"
same=$(stat -c %i /sys/module/gdrdrv)
kill -KILL $copy
wait $copy 2> /dev/null || true
start $gdrcopy; copy=$process
hear $gdrcopy $copy "The module is up"
heard $gdrcopy "it is kept"
unheard $gdrcopy "is compiled"
is "$(stat -c %i /sys/module/gdrdrv)" "$same" "which module it is"

echo "== a driver that is kept by a new container gets the nodes again"
killed
rm /dev/gdrdrv
begin nvidia-driver init
up
said "it is kept"
until [ -e /run/nvidia/driver/dev/gdrdrv ]; do
  lives $copy || { cat /run/log.$gdrcopy; fail "its container has ended"; }
  sleep 0.1
done
works 580.95.05

echo "== one that somebody uses stays, and its container leaves"
use $side/dev/gdrdrv
leaves $gdrcopy $copy
heard $gdrcopy "The module stays until the driver goes"
loaded gdrdrv
echo "== another version of it takes its place only when nobody uses it"
mv $side/usr/src/gdrdrv-2.5.1 $side/usr/src/gdrdrv-2.6
sed -i 's/"2.5"/"2.6"/' $side/usr/src/gdrdrv-2.6/gdrdrv.c
fails $gdrcopy ModuleInUse
is "$(cat /sys/module/gdrdrv/version)" 2.5 "the version that is loaded"
kill $user
wait $user 2> /dev/null || true
start $gdrcopy; copy=$process
hear $gdrcopy $copy "The module is up"
is "$(cat /sys/module/gdrdrv/version)" 2.6 "the version that is loaded"

echo "== with the driver the module goes, and with the next one it comes back"
down
gone gdrdrv
lives $copy || { cat /run/log.$gdrcopy; fail "its container has ended"; }
: > /run/log.$gdrcopy
begin nvidia-driver init
up
hear $gdrcopy $copy "The module is up"
loaded gdrdrv
leaves $gdrcopy $copy
gone gdrdrv

echo "== an nvidia_fs that looks the driver's symbols up, as before 2.17.5, goes with it (driver-lifecycle.md #112)"
cp -r /others $image/
chroot $image make -C /lib/modules/"$kernel"/build M=/others modules > /run/log.make 2>&1 || { cat /run/log.make; fail "the other modules"; }
insmod $image/others/nvidia_fs.ko
[ ! -e /sys/module/nvidia/holders/nvidia_fs ] || fail "it is among the holders"
down
gone nvidia_fs

echo "== what is missing is named"
begin nvidia-driver init
up
mv $side/usr/src/gdrdrv-2.6 /run/layers/
fails $gdrcopy ModuleSourcesMissing
mv $image/usr/src/nvidia-580.95.05/kernel-open/Module.symvers /run/layers/
fails $gds DriverSourcesMissing
mv /run/layers/Module.symvers $image/usr/src/nvidia-580.95.05/kernel-open/
mv $side/usr/bin/make $side/usr/bin/make-away
fails $gds CompilerMissing
gone nvidia_fs
down
echo "all is well"
