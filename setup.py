"""What setuptools cannot read from setup.cfg: the tests are in no wheel."""
import email
import os
import pathlib
import subprocess
import urllib.parse

import setuptools
from setuptools.command import build_py

HERE = pathlib.Path(__file__).resolve().parent
TESTS = os.path.join('blockattach', 'tests', '')


class BuildWithoutTests(build_py.build_py):
    """Leaves out modules and files of the tests; pbr has every package and all that git knows."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        return [found for found in super().find_package_modules(package, package_dir)
                if not found[2].startswith(TESTS)]

    def find_data_files(self, package: str, src_dir: str) -> list[str]:
        return [path for path in super().find_data_files(package, src_dir)
                if not path.startswith(TESTS)]


class Distribution(setuptools.Distribution):
    """pbr replaces a cmdclass that is given to setup()."""

    def get_command_class(self, command: str) -> type[setuptools.Command]:
        return BuildWithoutTests if command == 'build_py' else super().get_command_class(command)


def project_urls() -> dict[str, str]:
    """Return the web address from which this tree was cloned, or that its archive contains."""
    archive = HERE / 'PKG-INFO'
    if archive.is_file():
        # Not a clone, although a parent folder may be one.
        named = email.message_from_string(archive.read_text('utf-8')).get_all('Project-URL', [])
        return {name: url for name, _, url in (line.partition(', ') for line in named)}
    try:
        origin = subprocess.run(['git', 'remote', 'get-url', 'origin'], cwd=HERE, text=True,
                                capture_output=True, check=False).stdout.strip()
    except OSError:
        return {}
    place = urllib.parse.urlsplit(origin)
    if place.scheme != 'https' or not place.hostname:
        return {}
    # Without credentials in the address of the clone.
    bare = place._replace(netloc=place.netloc.rpartition('@')[2], query='', fragment='')
    return {'Source': bare.geturl().removesuffix('.git')}


# Of a license in setup.cfg pbr makes the field that has been replaced by an expression.
setuptools.setup(pbr=True, distclass=Distribution, project_urls=project_urls(),
                 license_expression='Apache-2.0', license_files=['LICENSE'])
