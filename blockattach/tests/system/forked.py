"""Commands in processes of their own that need not import anything: each is forked off one that
has. What happens from the first line of the command on is the same.
"""
import json
import os
import subprocess
import sys
import tempfile
import threading
import types

# A line of its input is what to run, one of its output the exit status. No thread has begun yet.
PARENT = """
import importlib, json, os, runpy, sys, traceback
for name in {modules!r}:
    importlib.import_module(name)
for line in sys.stdin:
    program, arguments, told, said = json.loads(line)
    pid = os.fork()
    if pid == 0:
        for number, path in ((0, os.devnull), (1, told), (2, said)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), number)
        status = 0
        sys.argv = [program, *arguments]
        try:
            runpy.run_module('blockattach.cmd.' + program, run_name='__main__')
        except SystemExit as exc:
            status = exc.code
        except BaseException:
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status or 0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
MODULES = ('blockattach', 'pymysql', 'psycopg2', 'alembic.command', 'kombu.transport.pyamqp',
           'oslo_messaging._drivers.impl_rabbit', 'blockattach.wiring.allinone',
           'blockattach.wiring.api', 'blockattach.wiring.control',
           'blockattach.wiring.http_service', 'blockattach.wiring.processes',
           'blockattach.wiring.scheduler', 'blockattach.wiring.volume')


class Forks:
    """Runs one command after the other; `close` ends it."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self._lock = threading.Lock()
        self._parent = subprocess.Popen(
            [sys.executable, '-c', PARENT.format(modules=MODULES)], text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, program, *arguments):
        """What `subprocess.run` would tell of it."""
        with self._lock:
            paths = [os.path.join(self._folder.name, name) for name in ('stdout', 'stderr')]
            for path in paths:
                with open(path, 'w', encoding='utf-8'):
                    pass
            self._parent.stdin.write(json.dumps([program, arguments, *paths]) + '\n')
            status = int(self._parent.stdout.readline())
            texts = []
            for path in paths:
                with open(path, encoding='utf-8') as file:
                    texts.append(file.read())
        return types.SimpleNamespace(returncode=status, stdout=texts[0], stderr=texts[1])

    def close(self):
        """Run nothing more."""
        self._parent.stdin.close()
        self._parent.wait()
        self._parent.stdout.close()
        self._folder.cleanup()
