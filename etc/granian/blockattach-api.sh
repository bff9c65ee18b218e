#!/bin/sh
# Run the API under granian. Set BLOCKATTACH_CONFIG_FILES in the environment. Terminate TLS at a
# reverse proxy or load balancer in front of it.
#
# Most threads wait for a slot or for a backend. [api] threads limits how many requests are
# processed concurrently. If no thread is free, requests wait in granian.
#
# The code is loaded once before granian forks, so the processes share its memory. Each process
# opens its own connections. Connections are never shared.
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
