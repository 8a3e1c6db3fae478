#!/bin/sh
# HAProxy as Ray starts it, `-db -f FILE …`, with two of Ray's choices changed: it listens on
# this machine's address in the cluster instead of on all, and only this user may command it.
sed -i \
    -e "s/^\( *bind \)\(\*\|0\.0\.0\.0\)\{0,1\}:/\1$BABELGATE_RAY_ADDRESS:/" \
    -e 's/^\( *stats socket .* mode \)666 /\1600 /' \
    "$3"
exec "$BABELGATE_HAPROXY" "$@"
