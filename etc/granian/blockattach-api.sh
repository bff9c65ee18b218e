#!/bin/sh
# The API under granian, with BLOCKATTACH_CONFIG_FILES in its environment. A web server or load
# balancer in front ends TLS and speaks HTTP to it.
set -eu
exec granian --interface wsgi --host "${HOST:-127.0.0.1}" --port "${PORT:-8776}" \
    --workers "${WORKERS:-2}" --blocking-threads "${THREADS:-16}" --backlog 1024 \
    --respawn-failed-workers --workers-kill-timeout 60 --no-ws \
    blockattach.wsgi:application
