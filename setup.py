"""What setuptools cannot read from setup.cfg: the tests are in no wheel."""
import os

import setuptools
from setuptools.command import build_py

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


# Of a license in setup.cfg pbr makes the field that has been replaced by an expression.
setuptools.setup(pbr=True, distclass=Distribution, license_expression='Apache-2.0',
                 license_files=['LICENSE'])
