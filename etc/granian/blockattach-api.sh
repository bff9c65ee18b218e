#!/bin/sh
# The API under granian, with BLOCKATTACH_CONFIG_FILES in its environment. A reverse proxy or load
# balancer ends TLS and speaks HTTP to it.
#
# Most threads wait: for a slot, or for a backend; [api] threads says how many requests are
# worked on at the same time. Those for which there is no thread wait within granian.
#
# The code is loaded once, before granian forks: the processes share its memory. What it opens, each
# process opens for itself: connections are never shared.
set -eu
exec python3 -c '
from blockattach import wsgi
from granian import cli
wsgi.load()
cli.entrypoint()' \
    --interface wsgi --host "${HOST:-127.0.0.1}" --port "${PORT:-8776}" \
    --workers "${WORKERS:-2}" --blocking-threads "${THREADS:-1024}" --backlog 4096 --backpressure 4096 \
    --respawn-failed-workers --workers-kill-timeout 60 --no-ws \
    blockattach.wsgi:application
