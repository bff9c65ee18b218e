"""Table of the generated files: documents that the Sphinx build writes, and committed files."""
import functools
import pathlib
import re
import tempfile
from collections.abc import Callable
from collections.abc import Mapping

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

# Options that belong to a library. Their help text depends on the installed version.
LIBRARY_SECTIONS = ('database',)

Generators = Mapping[str, Callable[[], str]]


def config_sample() -> str:
    """Return the sample configuration file with the options of blockattach, commented out."""
    return _sample(lambda path: config_generator.main(
        ['--namespace', 'blockattach', '--wrap-width', '96', '--output-file', path]))


def policy_sample() -> str:
    """Return the sample policy file with every rule and its default, commented out."""
    return _sample(lambda path: policy_generator.generate_sample(
        ['--namespace', 'blockattach', '--output-file', path], cfg.ConfigOpts()))


def _sample(write: Callable[[str], object]) -> str:
    # The generators of oslo write to a file or to standard output only.
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'sample'
        write(str(path))
        return path.read_text(encoding='utf-8')


BUILT: Generators = {
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
    **{f'{print_api_reference.FOLDER}/{name}.rst': functools.partial(
        print_api_reference.REFERENCE.page, name) for name in print_api_reference.GROUPS},
    'doc/source/user/compute_operations.rst': print_compute_reference.REFERENCE.overview,
    **{f'{print_compute_reference.FOLDER}/{name}.rst': functools.partial(
        print_compute_reference.REFERENCE.page, name) for name in print_compute_reference.GROUPS},
    'doc/source/user/openapi.json': print_openapi.document,
    'doc/source/user/served.txt': print_served.document,
    'doc/source/user/versions.rst': print_api.history,
    'doc/source/user/errors.rst': print_errors.document,
}
"""Documents that doc/source/conf.py writes whenever Sphinx starts; .gitignore lists them."""

COMMITTED: Generators = {
    # README.rst shows it, also where nobody runs Sphinx.
    'doc/source/_static/parts.svg': draw_parts.picture,
    # Expected responses: a test sends the requests again and compares the responses.
    print_api_reference.EXAMPLES: print_api_reference.REFERENCE.record,
    print_compute_reference.EXAMPLES: print_compute_reference.REFERENCE.record,
    # The package installs them.
    'etc/blockattach/blockattach.conf.sample': config_sample,
    'etc/blockattach/policy.yaml.sample': policy_sample,
    'etc/grafana/blockattach.json': print_dashboard.document,
}
"""Files that ``tox -e gen`` writes and a commit contains."""


def outdated(generators: Generators) -> dict[str, str]:
    """Return the new text of each file that is missing or differs from the generator's output."""
    texts = {name: generate() for name, generate in generators.items()}
    return {name: text for name, text in texts.items() if _differs(ROOT / name, text)}


def _differs(path: pathlib.Path, text: str) -> bool:
    if not path.exists():
        return True
    committed = path.read_text(encoding='utf-8')
    if path.suffix == '.sample':
        return _own_sections(committed) != _own_sections(text)
    return committed != text


def _own_sections(sample: str) -> str:
    """Return a sample configuration file without the sections of libraries."""
    sections = re.split(r'(?m)^(?=\[)', sample)
    return ''.join(section for section in sections
                   if not section.startswith(tuple(f'[{name}]' for name in LIBRARY_SECTIONS)))


def write(generators: Generators) -> list[str]:
    """Write the outdated files, and return their paths.

    Other files keep their modification time, so that Sphinx does not read them again.
    """
    texts = outdated(generators)
    for name, text in texts.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='utf-8')
    return list(texts)
