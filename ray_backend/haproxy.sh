#!/bin/sh
# Starts HAProxy with Ray's arguments, `-db -f FILE …`, after changing two of Ray's settings: it
# listens only on this machine's address in the cluster, and only this user may control it.
sed -i \
    -e "s/^\( *bind \)\(\*\|0\.0\.0\.0\)\{0,1\}:/\1$BABELGATE_RAY_ADDRESS:/" \
    -e 's/^\( *stats socket .* mode \)666 /\1600 /' \
    "$3"
exec "$BABELGATE_HAPROXY" "$@"
