#!/bin/sh
# The API under granian, with BLOCKATTACH_CONFIG_FILES in its environment. A reverse proxy or load
# balancer ends TLS and speaks HTTP to it.
#
# Most threads wait: for a slot, or for a backend; [api] threads says how many requests are
# worked on at the same time. Those for which there is no thread wait within granian.
set -eu
exec granian --interface wsgi --host "${HOST:-127.0.0.1}" --port "${PORT:-8776}" \
    --workers "${WORKERS:-2}" --blocking-threads "${THREADS:-1024}" --backlog 4096 --backpressure 4096 \
    --respawn-failed-workers --workers-kill-timeout 60 --no-ws \
    blockattach.wsgi:application
