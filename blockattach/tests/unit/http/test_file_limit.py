"""Connections of the built-in HTTP server under a low limit of open files."""
import contextlib
import http.client
import socket
import subprocess
import sys
import unittest

from blockattach.tests.fixtures import polling

SECONDS = polling.LIMIT
# Server that shows the number of its open files, of which it may have 640.
_LIMITED = """
import os, resource, sys
from blockattach.platform.conf import api as api_conf
from blockattach.platform.webserver import server

def application(environ, start_response):
    start_response('200 OK', [])
    return [str(len(os.listdir('/proc/self/fd'))).encode()]

resource.setrlimit(resource.RLIMIT_NOFILE, (640, 640))
limited = server.Server(application, '127.0.0.1', 0, api_conf.QueueSettings(
    work_places=2, threads=2, size=2000))
limited.start()
print(limited.port, flush=True)
sys.stdin.read()
limited.stop()
"""


class FileLimitTest(unittest.TestCase):

    def test_connections_leave_open_files_to_the_process(self):
        with subprocess.Popen((sys.executable, '-c', _LIMITED), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            port = int(process.stdout.readline())
            with contextlib.ExitStack() as opened:
                client = http.client.HTTPConnection('127.0.0.1', port, timeout=SECONDS)
                opened.callback(client.close)

                def count():
                    client.request('GET', '/')
                    return int(client.getresponse().read())
                count()
                for _ in range(300):
                    opened.enter_context(socket.create_connection(('127.0.0.1', port), SECONDS))
                polling.until(lambda: count() > 128)
                self.assertLess(count(), 200)
            process.stdin.close()
