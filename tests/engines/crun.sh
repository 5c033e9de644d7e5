#!/bin/sh
# Debian's crun 1.8 before CRI-O: it refuses a specification of a newer version than its own, whatever is in it. So it
# is told an older one.
bundle=
previous=
for word in "$@"; do
  case $previous in -b|--bundle) bundle=$word ;; esac
  case $word in --bundle=*) bundle=${word#--bundle=} ;; esac
  previous=$word
done
[ -z "$bundle" ] || sed -i 's/"ociVersion": *"1\.[1-9]\.[0-9]*"/"ociVersion":"1.0.2"/' "$bundle/config.json" || exit 1
exec "$0-1.8" "$@"
