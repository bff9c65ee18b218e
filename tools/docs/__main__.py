#!/usr/bin/env python3
"""Write the committed files that are generated from the code, or check them with --check.

The Sphinx build writes the generated documents (doc/source/conf.py). With --all, this command
writes them, too.
"""
import argparse
import sys
import warnings

import documents


def main() -> int:
    """Run the command, and return 1 if --check finds an outdated file."""
    parser = argparse.ArgumentParser(description=__doc__)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument('--check', action='store_true',
                      help='write nothing, and exit with status 1 if a committed file is outdated')
    mode.add_argument('--all', action='store_true', help='also write the documents for Sphinx')
    arguments = parser.parse_args()
    if arguments.check:
        names = list(documents.outdated(documents.COMMITTED))
        for name in names:
            print(f'{name} is outdated. Run "tox -e gen" and commit the file.')
        return 1 if names else 0
    for name in documents.write(documents.COMMITTED):
        print(f'{name}: written')
    if arguments.all:
        for name in documents.write(documents.BUILT):
            print(f'{name}: written')
    return 0


if __name__ == '__main__':
    warnings.simplefilter('ignore')
    sys.exit(main())
