#!/bin/sh
# Stands in for NVIDIA's run file: `-x --target FOLDER` unpacks what follows the last line.
[ "$1" = -x ] && [ "$2" = --target ] || { echo "usage: $0 -x --target FOLDER" >&2; exit 2; }
mkdir "$3" && LC_ALL=C sed '1,/^PAYLOAD$/d' "$0" | tar --extract --gzip --directory "$3"
exit $?
PAYLOAD
