#!/usr/bin/env python3
"""Write every document that follows from the code, or with --check say which ones are stale."""
import argparse
import functools
import pathlib
import re
import sys
import tempfile
import warnings
from collections.abc import Callable

from oslo_config import cfg
from oslo_config import generator as config_generator
from oslo_policy import generator as policy_generator

import draw_lifecycle
import draw_parts
import print_api
import print_api_reference
import print_bounds
import print_carried_over
import print_commands
import print_compute_reference
import print_consumers
import print_dashboard
import print_errors
import print_failpoints
import print_import
import print_openapi
import print_planted_bugs
import print_rpc
import print_served
import print_telemetry

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Options that belong to a library: their text follows its version, not our code.
LIBRARY_SECTIONS = ('database',)


def config_sample() -> str:
    """The service's own options, each with its help, commented out."""
    return _written(lambda path: config_generator.main(
        ['--namespace', 'blockattach', '--wrap-width', '96', '--output-file', path]))


def policy_sample() -> str:
    """Every rule with its default, commented out."""
    return _written(lambda path: policy_generator.generate_sample(
        ['--namespace', 'blockattach', '--output-file', path], cfg.ConfigOpts()))


def _written(write: Callable[[str], object]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'sample'
        write(str(path))
        return path.read_text(encoding='utf-8')


DOCUMENTS: dict[str, Callable[[], str]] = {
    'doc/source/_static/parts.svg': draw_parts.picture,
    'doc/source/contributor/lifecycle.svg': draw_lifecycle.picture,
    'doc/source/contributor/lifecycle.rst': draw_lifecycle.document,
    **{f'doc/source/admin/{name.replace("-", "_")}.rst': functools.partial(
        print_commands.page, name) for name in print_commands.NAMES},
    'doc/source/admin/bus_defaults.txt': print_rpc.rabbit_defaults,
    'doc/source/admin/call_ends.txt': print_rpc.call_ends,
    'doc/source/admin/carried_over_options.txt': print_carried_over.document,
    'doc/source/admin/import_findings.txt': print_import.document,
    'doc/source/admin/log_fields.txt': print_telemetry.log_fields,
    'doc/source/admin/metrics.txt': print_telemetry.metrics_tables,
    'doc/source/admin/spans.txt': print_telemetry.spans,
    'doc/source/contributor/failpoints.rst': print_failpoints.document,
    'doc/source/contributor/interfaces.rst': print_rpc.interfaces,
    'doc/source/contributor/planted_bugs.txt': print_planted_bugs.document,
    'doc/source/user/bounds.rst': print_bounds.document,
    'doc/source/user/bus_methods.txt': print_rpc.consumer_methods,
    'doc/source/user/consumers.txt': print_consumers.document,
    'doc/source/user/operations.rst': print_api_reference.REFERENCE.overview,
    print_api_reference.EXAMPLES: print_api_reference.REFERENCE.examples_document,
    **{f'{print_api_reference.FOLDER}/{name}.rst': functools.partial(
        print_api_reference.REFERENCE.page, name) for name in print_api_reference.GROUPS},
    'doc/source/user/compute_operations.rst': print_compute_reference.REFERENCE.overview,
    print_compute_reference.EXAMPLES: print_compute_reference.REFERENCE.examples_document,
    **{f'{print_compute_reference.FOLDER}/{name}.rst': functools.partial(
        print_compute_reference.REFERENCE.page, name) for name in print_compute_reference.GROUPS},
    'doc/source/user/openapi.json': print_openapi.document,
    'doc/source/user/served.txt': print_served.document,
    'doc/source/user/versions.rst': print_api.history,
    'doc/source/user/errors.rst': print_errors.document,
    'etc/blockattach/blockattach.conf.sample': config_sample,
    'etc/blockattach/policy.yaml.sample': policy_sample,
    'etc/grafana/blockattach.json': print_dashboard.document,
}


def own(text: str) -> str:
    """A document without what libraries say in it."""
    sections = re.split(r'(?m)^(?=\[)', text)
    return ''.join(section for section in sections
                   if not section.startswith(tuple(f'[{name}]' for name in LIBRARY_SECTIONS)))


def main() -> int:
    """Write or check; 1 if a document is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--check', action='store_true', help='write nothing')
    check = parser.parse_args().check
    stale = []
    for name, generate in DOCUMENTS.items():
        path = ROOT / name
        before = path.read_text(encoding='utf-8') if path.exists() else ''
        after = generate()
        if own(before) != own(after):
            stale.append(name)
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(after, encoding='utf-8')
    for name in stale:
        print(f'{name}: {"is stale; write it anew with: tox -e gen" if check else "written"}')
    return 1 if check and stale else 0


if __name__ == '__main__':
    warnings.simplefilter('ignore')
    sys.exit(main())
