"""Stand-in for the program ``lvm`` on machines whose kernel has no device-mapper.

`main` is ``lvm VERB ...`` with the folder of a machine before the verb. The state is in
``FOLDER/state`` and the logical volumes are sparse files in ``FOLDER/dev/<group>``. The messages
are those of LVM 2.03. The stand-in imitates the behavior of the real LVM that the tests of the
lab show, and supports only the commands and options of the lvm store.

As on a disk, a new linear volume contains the data that was in its space before.

The program is started thousands of times, so it imports only modules that load at once.
``argparse``, ``json`` and ``contextlib`` would take longer than all the rest.
"""
import fcntl
import marshal
import os
import sys

GIB = 1024 ** 3
EXTENT = 4 * 1024 ** 2
PIECE = 16 * 1024 ** 2

SIGURG = 23

# Approximate space that a copy-on-write snapshot needs beyond the size of its origin.
TABLES = 2 * EXTENT


class Failed(Exception):
    """Failure of a command with a message on standard error and an exit status."""

    def __init__(self, complaint, code=5):
        super().__init__(complaint)
        self.code = code


def new_state():
    """Return the state of a machine with a disk and no volume group."""
    return {'groups': {}, 'pvs': [{'pv_name': '/dev/sdb', 'vg_name': 'vg'}],
            'config': {'global_filter': '["a|^/dev/sdb$|", "r|.*|"]', 'scan_lvs': '0',
                       'use_devicesfile': '0', 'devicesfile': '"system.devices"'},
            'faults': {}}


def new_group(size):
    """Return a volume group of a size in bytes."""
    return {'size': size, 'tags': [], 'missing': 0, 'system_id': '', 'lvs': {}}


def new_volume(kind, size, **facts):
    """Return a logical volume of the kind linear, cow, thin or thin-pool."""
    return {'kind': kind, 'size': size, 'tags': [], 'origin': '', 'pool': '', 'active': True,
            'health': '', 'data_percent': 0.0, 'metadata_percent': 10.0, 'zeroes': True, **facts}


class OpenedState:
    """Context manager of the state, which is locked, and saved unless the command fails."""

    def __init__(self, folder):
        self._path = os.path.join(folder, 'state')

    def __enter__(self):
        self._lock = open(f'{self._path}.lock', 'wb')
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._state = new_state()
        if os.path.exists(self._path):
            with open(self._path, 'rb') as file:
                self._state = marshal.load(file)
        return self._state

    def __exit__(self, kind, *_error):
        with self._lock:
            if kind is None:
                with open(f'{self._path}.new', 'wb') as file:
                    marshal.dump(self._state, file)
                os.rename(f'{self._path}.new', self._path)


class Lvm:
    """Commands of LVM on an opened state."""

    def __init__(self, folder, state):
        self.folder = folder
        self.state = state

    # ---- reports ----

    def fullreport(self, options):
        name = options.names[0]
        group = self._group(name)
        given = dict(zip(options.configreport, options.o, strict=True))
        self._say({
            'vg': fields(given['vg'], {
                'vg_name': name, 'vg_size': str(group['size']), 'vg_free': str(self._free(group)),
                'vg_tags': ','.join(group['tags']),
                'vg_missing_pv_count': str(group['missing'])}),
            'lv': fields(given['lv'], *(self._row(name, found, facts)
                                        for found, facts in group['lvs'].items()))})

    def lvs(self, options):
        group = options.names[0].partition('/')[0]
        wanted = [name.partition('/')[2] for name in options.names]
        self._say({'lv': fields(options.o[0], *(
            self._row(group, name, self._volume(group, name)) for name in wanted
            if self._selected(self._volume(group, name), options.select)))})

    def pvs(self, options):
        self._say({'pv': fields(options.o[0], *self.state['pvs'])})

    def lvmconfig(self, options):
        for name in options.names:
            key = name.partition('/')[2]
            print(f'{key}={self.state["config"][key]}')

    # ---- changes ----

    def lvcreate(self, options):
        if options.snapshot:
            group, _, origin = options.names[0].partition('/')
            self._changeable(group)
            self._new_snapshot(group, origin, options)
        else:
            group = options.names[0]
            self._changeable(group)
            self._is_free(group, options.name)
            if options.thinpool:
                pool = self._group(group)['lvs'].get(options.thinpool)
                if pool is None:
                    raise Failed(f'Pool {options.thinpool} not found in Volume group {group}.')
                self._new_thin(group, options, bytes_of(options.virtualsize), '')
            else:
                self._new_linear(group, options)

    def lvextend(self, options):
        group, _, name = options.names[0].partition('/')
        self._changeable(group)
        found = self._volume(group, name)
        size = bytes_of(options.size)
        if size <= found['size']:
            raise Failed(f'New size given ({size // EXTENT} extents) not larger than existing '
                         f'size ({found["size"] // EXTENT} extents)')
        if found['kind'] == 'linear':
            if self._snapshots_of(group, name):
                raise Failed('Snapshot origin volumes can be resized only while inactive: try '
                             'lvchange -an.')
            self._take(group, size - found['size'])
        found['size'] = size
        os.truncate(self._path(group, name), size)

    def lvreduce(self, options):
        group, _, name = options.names[0].partition('/')
        found, size = self._volume(group, name), bytes_of(options.size)
        # LVM zeroes the space of a thin volume before reuse, but not that of a linear one.
        if found['kind'] == 'linear' and not is_zero(self._path(group, name), size):
            raise Failed('what is given back still holds data')
        found['size'] = size
        os.truncate(self._path(group, name), size)

    def lvremove(self, options):
        group, _, name = options.names[0].partition('/')
        found = self._volume(group, name)
        tag, _, roles = options.select.partition(' && ')
        if not self._selected(found, tag) or roles and self._snapshots_of(group, name):
            return
        self._not_in_use(group, name)
        for hanging in self._snapshots_of(group, name):
            self._drop(group, hanging)
        self._drop(group, name)
        print(f'  Logical volume "{name}" successfully removed.')

    def lvrename(self, options):
        group, name, new_name = options.names
        self._changeable(group)
        self._volume(group, name)
        self._is_free(group, new_name)
        volumes = self._group(group)['lvs']
        volumes[new_name] = volumes.pop(name)
        os.rename(self._path(group, name), self._path(group, new_name))
        for facts in volumes.values():
            if facts['origin'] == name:
                facts['origin'] = new_name

    def lvchange(self, options):
        group, _, name = options.names[0].partition('/')
        found = self._volume(group, name)
        found['tags'] = list(dict.fromkeys((*found['tags'], *options.addtag)))
        if options.activate is None:
            return
        if options.activate == 'y' and found['health'] == 'partial':
            raise Failed(f'Refusing activation of partial LV {group}/{name}.  Use '
                         f"'--activationmode partial' to override.")
        if options.activate == 'n':
            self._not_in_use(group, name)
        found['active'] = options.activate == 'y'

    def lvconvert(self, options):
        group, _, name = options.names[0].partition('/')
        found = self._volume(group, name)
        self._not_in_use(group, name)
        found.update(kind='linear', origin='')
        # The space of the new volume contains the data that the origin has overwritten.
        with open(self._path(group, name), 'wb') as file:
            file.write(b'\xcc' * EXTENT)
            file.truncate(found['size'])

    # ---- shared by the commands ----

    def _new_snapshot(self, group, origin, options):
        found = self._group(group)['lvs'].get(origin)
        if found is None:
            raise Failed(f'Snapshot origin LV {origin} not found in Volume group {group}.')
        self._is_free(group, options.name)
        if found['kind'] == 'thin':
            self._new_thin(group, options, found['size'], origin)
        else:
            size = min(bytes_of(options.size), found['size'] + TABLES)
            self._take(group, size)
            self._add(group, options, new_volume('cow', size, origin=origin))
        copy(self._path(group, origin), self._path(group, options.name))

    def _new_thin(self, group, options, size, origin):
        volumes = self._group(group)['lvs']
        pool = volumes[origin]['pool'] if origin else options.thinpool
        if volumes[pool]['data_percent'] >= 100:
            raise Failed(f'WARNING: Thin pool {group}/{pool} is out of data space.\n  Cannot '
                         f'create new thin volume, free space in thin pool {group}/{pool} '
                         f'reached threshold.')
        self._add(group, options, new_volume('thin', size, pool=pool, origin=origin))
        with open(self._path(group, options.name), 'wb') as file:
            file.truncate(size)

    def _new_linear(self, group, options):
        size = bytes_of(options.size)
        self._take(group, size)
        self._add(group, options, new_volume('linear', size))
        freed = self._freed()
        path = self._path(group, options.name)
        if freed:
            os.rename(freed[0], path)
        with open(path, 'ab') as file:
            file.truncate(size)

    def _add(self, group, options, facts):
        facts['tags'] = list(options.addtag)
        self._group(group)['lvs'][options.name] = facts
        os.makedirs(os.path.join(self.folder, 'dev', group), exist_ok=True)

    def _drop(self, group, name):
        path, found = self._path(group, name), self._group(group)['lvs'].pop(name)
        if found['kind'] in ('linear', 'cow'):
            os.rename(path, os.path.join(self.folder, f'freed-{len(self._freed())}'))
        else:
            os.unlink(path)
        for facts in self._group(group)['lvs'].values():
            if facts['origin'] == name:
                facts['origin'] = ''

    def _group(self, name):
        group = self.state['groups'].get(name)
        if group is None:
            raise Failed(f'Volume group "{name}" not found\n  Cannot process volume group {name}')
        if group['system_id']:
            raise Failed(f'Cannot access VG {name} with system ID {group["system_id"]} with '
                         f'unknown local system ID.')
        return group

    def _changeable(self, name):
        if self._group(name)['missing']:
            raise Failed(f'Cannot change VG {name} while PVs are missing.\n  See vgreduce '
                         f'--removemissing and vgextend --restoremissing.')

    def _volume(self, group, name):
        found = self._group(group)['lvs'].get(name)
        if found is None:
            raise Failed(f'Failed to find logical volume "{group}/{name}"')
        return found

    def _is_free(self, group, name):
        if name in self._group(group)['lvs']:
            raise Failed(f'Logical Volume "{name}" already exists in volume group "{group}"')

    def _free(self, group):
        return group['size'] - sum(facts['size'] for facts in group['lvs'].values()
                                   if facts['kind'] != 'thin')

    def _take(self, group, size):
        free = self._free(self._group(group))
        if size > free:
            raise Failed(f'Volume group "{group}" has insufficient free space ({free // EXTENT} '
                         f'extents): {-(-size // EXTENT)} required.')

    def _snapshots_of(self, group, name):
        return [found for found, facts in self._group(group)['lvs'].items()
                if facts['origin'] == name and facts['kind'] == 'cow']

    def _not_in_use(self, group, name):
        if is_open(self._path(group, name)):
            raise Failed(f'Logical volume {group}/{name} in use.')

    def _path(self, group, name):
        return os.path.join(self.folder, 'dev', group, name)

    def _freed(self):
        return sorted(os.path.join(self.folder, name) for name in os.listdir(self.folder)
                      if name.startswith('freed-'))

    def _row(self, group, name, facts):
        pool, path = facts['kind'] == 'thin-pool', self._path(group, name)
        layout = {'thin-pool': 'thin,pool', 'thin': 'thin,sparse'}.get(facts['kind'], 'linear')
        percent = '' if facts['kind'] == 'linear' else f'{self._data_percent(path, facts):.2f}'
        return {
            'lv_name': name, 'lv_path': '' if pool else path, 'lv_size': str(facts['size']),
            'lv_attr': f'----a-t{"z" if facts["zeroes"] else "-"}--', 'lv_layout': layout,
            'lv_tags': ','.join(facts['tags']), 'lv_active': 'active' if facts['active'] else '',
            'lv_device_open': '1' if not pool and is_open(path) else '0',
            'lv_health_status': facts['health'], 'origin': facts['origin'],
            'pool_lv': facts['pool'], 'data_percent': percent,
            'metadata_percent': f'{facts["metadata_percent"]:.2f}' if pool else ''}

    def _data_percent(self, path, facts):
        """Return how full a volume is in percent. A thin volume is as full as its file."""
        if facts['kind'] != 'thin':
            return facts['data_percent']
        blocks = os.stat(path).st_blocks if os.path.exists(path) else 0
        return max(facts['data_percent'], 100 * blocks * 512 / facts['size'])

    def _selected(self, facts, select):
        return not select or select.removeprefix('lv_tags=') in facts['tags']

    def _say(self, tables):
        """Print a report as JSON. No name or text needs to be escaped."""
        said = ', '.join(
            f'"{table}": [' + ', '.join('{' + ', '.join(
                f'"{name}": "{text}"' for name, text in row.items()) + '}' for row in rows) + ']'
            for table, rows in tables.items())
        print(f'{{"report": [{{{said}}}]}}')


def fields(names, *rows):
    """Return the requested fields of each row."""
    return [{name: row[name] for name in names.split(',')} for row in rows]


def bytes_of(text):
    """Return a size in bytes, rounded up to whole extents."""
    return -(-int(text.removesuffix('b')) // EXTENT) * EXTENT


def copy(source, destination):
    """Copy the data of a file and keep its holes."""
    with open(source, 'rb') as read, open(destination, 'wb') as write:
        write.truncate(os.fstat(read.fileno()).st_size)
        for start, end in extents(read.fileno()):
            read.seek(start)
            write.seek(start)
            while read.tell() < end:
                write.write(read.read(min(PIECE, end - read.tell())))


def extents(file):
    """Yield the ranges of a file that contain data."""
    offset, size = 0, os.fstat(file).st_size
    while offset < size:
        try:
            start = os.lseek(file, offset, os.SEEK_DATA)
        except OSError:
            return
        offset = os.lseek(file, start, os.SEEK_HOLE)
        yield start, offset


def is_zero(path, offset):
    """Return True if the file has only zeros from the offset on."""
    with open(path, 'rb') as file:
        for start, end in extents(file.fileno()):
            file.seek(max(start, offset))
            while file.tell() < end:
                if any(file.read(min(PIECE, end - file.tell()))):
                    return False
    return True


def is_open(path):
    """Return True if another process has the file open.

    The kernel grants a write lease only if no other process has the file open.
    """
    if not os.path.exists(path):
        return False
    with open(path, 'rb') as file:
        try:
            fcntl.fcntl(file, fcntl.F_SETSIG, SIGURG)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except BlockingIOError:
            return True
    return False


class Options:
    """Options that the lvm store uses, as attributes. Other options are an error."""

    FLAGS = ('nosuffix', 'binary', 'yes', 'snapshot', 'splitsnapshot', 'force',
             'ignoreactivationskip')
    VALUES = ('reportformat', 'units', 'select', 'typeconfig', 'type', 'thinpool', 'virtualsize',
              'size', 'name', 'setactivationskip', 'autobackup', 'activate')
    LISTS = ('addtag', 'configreport', 'o')

    def __init__(self, words):
        vars(self).update(dict.fromkeys(self.FLAGS, False), names=[],
                          **dict.fromkeys(self.VALUES), **{name: [] for name in self.LISTS})
        rest = iter(words)
        for word in rest:
            name = word.lstrip('-')
            if name == word:
                self.names.append(word)
            elif name in self.FLAGS:
                setattr(self, name, True)
            elif name in self.VALUES:
                setattr(self, name, next(rest))
            elif name in self.LISTS:
                getattr(self, name).append(next(rest))
            else:
                raise Failed(f'Unrecognised option {word}.', 3)


def main(folder, verb, *words):
    """Run ``lvm VERB ...`` and return its exit status."""
    hangs = False
    try:
        with OpenedState(folder) as state:
            state['environment'] = {name: value for name, value in os.environ.items()
                                    if name not in ('PATH', 'PWD')}
            fault = state['faults'].get(verb)
            hangs = fault == 'hang'
            state['hung'] = os.getpid() if hangs else None
            if not hangs and fault:
                raise Failed(fault)
            if not hangs:
                getattr(Lvm(folder, state), verb)(Options(words))
    except Failed as failure:
        print(f'  {failure}', file=sys.stderr)
        return failure.code
    while hangs:
        os.read(os.pipe()[0], 1)
    return 0
