"""Filters and weighers of other packages."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

PLUGIN = """
def refuse(request, pool):
    return 'not on a Monday'

def measure(request, pool):
    return 7.0
"""
ENTRY_POINTS = """
[blockattach.scheduler.filters]
weekday = somebodys_plugin:refuse
broken = somebodys_plugin:nothing_of_this_name
[blockattach.scheduler.weighers]
luck = somebodys_plugin:measure
"""
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from blockattach.platform import errors
from blockattach.storage.scheduler import plugins
print(plugins.load_filters(['alive', 'weekday'])['weekday'](None, None))
print(plugins.load_weighers([('luck', 2.0)])[0].weigher(None, None))
try:
    plugins.load_filters(['broken'])
except errors.ConfigurationError as error:
    print(error)
"""


class PluginTest(unittest.TestCase):
    def test_plugins_loaded_from_entry_points(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / 'somebodys_plugin.py').write_text(PLUGIN)
            info = root / 'somebodys_plugin-1.0.dist-info'
            info.mkdir()
            (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: somebodys-plugin\n'
                                           'Version: 1.0\n')
            (info / 'entry_points.txt').write_text(ENTRY_POINTS)
            done = subprocess.run([sys.executable, '-c', PROGRAM, folder], text=True,
                                  capture_output=True, env={'XDG_CACHE_HOME': folder,
                                                            'PYTHONWARNINGS': 'ignore'})
        self.assertEqual(0, done.returncode, done.stderr)
        weekday, luck, broken = done.stdout.splitlines()
        self.assertEqual(('not on a Monday', '7.0'), (weekday, luck))
        self.assertIn('cannot load broken from entry point group', broken)
