#!/bin/sh
# In the place of CRI-O's own program of this name, which is written in C and so is not built with the module: makes the
# namespaces of a pod, and keeps each by a mount. What no test asks for is an error.
set -eu
folder= name= namespaces=
while [ $# -gt 0 ]; do
  case $1 in
    -d) folder=$2; shift ;;
    -f) name=$2; shift ;;
    --ipc|--uts|--net|--ipc=host|--uts=host|--net=host) namespaces="$namespaces ${1#--}" ;;
    *) echo "pinns: $1 is not known to this stand-in" >&2; exit 1 ;;
  esac
  shift
done
for namespace in $namespaces; do
  kind=${namespace%=host}
  file=$folder/${kind}ns/$name
  : > "$file"
  case $namespace in
    *=host) mount --bind "/proc/self/ns/$kind" "$file" ;;
    *) unshare "--$kind=$file" true ;;
  esac
done
