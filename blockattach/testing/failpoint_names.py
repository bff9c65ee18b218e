"""Every failpoint that there is, by where it is; read from the code itself."""
import ast
import importlib
import pathlib
import pkgutil
from collections.abc import Iterator

import blockattach
from blockattach import db
from blockattach.db import engine
from blockattach.drivers import base
from blockattach.drivers import capabilities
from blockattach.rpc import attachments
from blockattach.rpc import contract
from blockattach.rpc import processes
from blockattach.rpc import scheduler
from blockattach.rpc import volume

_INTERFACES = (attachments.AttachmentsInterface, processes.ProcessInterface,
               scheduler.SchedulerInterface, volume.VolumeInterface)
_OF_TARGETS = ('daemon', 'host_reservations', 'native_blocks', 'unmap')
_ROOT = pathlib.Path(blockattach.__file__).parent
_LEFT_OUT = ('tests', 'testing')

IN_CODE = 'in the code of a verb'
IN_DATABASE = 'around a verb of the database'
ON_BUS = 'on the bus'
ON_BACKEND = 'around an act on a backend'


def everywhere() -> dict[str, str]:
    """Names, and where each is."""
    found = dict.fromkeys(_written(), IN_CODE)
    found |= dict.fromkeys(_of_database(), IN_DATABASE)
    found |= dict.fromkeys(_of_bus(), ON_BUS)
    found |= dict.fromkeys(_of_backends(), ON_BACKEND)
    return dict(sorted(found.items()))


def _written() -> Iterator[str]:
    """``failpoints.point('name')``, as it stands in the modules."""
    for path in sorted(_ROOT.rglob('*.py')):
        if path.relative_to(_ROOT).parts[0] in _LEFT_OUT:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                    and node.func.attr == 'point' and node.args
                    and isinstance(node.args[0], ast.Constant)):
                yield str(node.args[0].value)


def _of_database() -> Iterator[str]:
    for module in pkgutil.iter_modules(db.__path__, 'blockattach.db.'):
        importlib.import_module(module.name)
    for verb in engine.VERBS:
        # A test may have verbs of its own.
        if hasattr(db, verb.partition('.')[0]):
            yield from (f'db.{verb}.before', f'db.{verb}.after')


def _of_bus() -> Iterator[str]:
    for interface in _INTERFACES:
        for name in contract.methods(interface):
            for moment in ('before_send', 'after_answer', 'before_work', 'before_reply'):
                yield f'rpc.{interface.TOPIC}.{name}.{moment}'


def _of_backends() -> Iterator[str]:
    contracts: list[tuple[str, type]] = [('store', base.VolumeStore),
                                         ('target', base.ExportTarget)]
    contracts += [('target' if name in _OF_TARGETS else 'store', protocol)
                  for name, protocol in capabilities.CAPABILITIES.items()]
    for part, kind in contracts:
        for verb in vars(kind):
            if not verb.startswith('_'):
                yield from (f'backend.{part}.{verb}.before', f'backend.{part}.{verb}.after')
