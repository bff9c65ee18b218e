"""Command line of `tools/benchmark`: runs the measurements, prints and stores the results."""
import argparse
import json
import os
import pathlib
import platform
import signal
import sys

from bench import client
from bench import cloud as clouds
from bench import curves
from bench import documents
from bench import goals
from bench import profiles
from bench import results
from bench import runs
from bench import scenarios
from bench import session as sessions
from blockattach import version
from blockattach.platform import clock as clocks
from blockattach.testing import stack
from blockattach.tests.fixtures import servers

_ALL = 'all'
_PEER_ERRORS = 10


def parser(description: str) -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = argparse.ArgumentParser(prog='tools/benchmark', description=description,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument('run', nargs='*', metavar='RUN', choices=[*runs.RUNS, _ALL, []],
                     help=f'measurements, of {", ".join(runs.RUNS)} or {_ALL} (default: '
                           f'{" ".join(runs.DEFAULT)})')
    cli.add_argument('--quick', action='store_true',
                     help='shorten the default measurements to five minutes')
    cli.add_argument('--scenario', action='append', choices=list(scenarios.SCENARIOS),
                     help='scenario to measure (can be repeated, default: all)')
    _add_scale(cli)
    cli.add_argument('--server', choices=clouds.SERVERS, default=clouds.GRANIAN,
                     help='WSGI server of the API (default: %(default)s)')
    cli.add_argument('--calls', choices=list(clouds.CALLS), default=clouds.OVER_HTTP,
                     help='transport of calls between the processes (default: %(default)s)')
    cli.add_argument('--threads', type=int, default=0,
                     help='number of threads of each of the two API processes (default: as in '
                           'the files in etc/)')
    cli.add_argument('--keep-connections', action='store_true',
                     help='reuse connections, as sessions do (default: one per request)')
    _add_peer(cli)
    cli.add_argument('--profile', type=pathlib.Path, metavar='FOLDER',
                     help='write a flame graph of each process and measurement to FOLDER '
                           '(requires py-spy)')
    cli.add_argument('--json', type=pathlib.Path, metavar='FILE',
                     help='also write all results to FILE')
    cli.add_argument('--merge', type=pathlib.Path, nargs='+', metavar='FILE', default=[],
                     help='include results that --json wrote before; without RUN, nothing is '
                           'measured')
    cli.add_argument('--docs', type=pathlib.Path, nargs='?', const=documents.FOLDER,
                     metavar='FOLDER', help='write tables and, with matplotlib, curves to FOLDER '
                                             '(default: doc/source/admin/performance)')
    return cli


def _add_scale(cli: argparse.ArgumentParser) -> None:
    cli.add_argument('--seconds', type=float,
                     help='duration of each measurement (default: 8, with --quick: 2)')
    cli.add_argument('--rounds', type=int,
                     help='number of repetitions of each measurement (default: 3)')
    cli.add_argument('--concurrency', type=int, nargs='+', metavar='CLIENTS',
                     help='numbers of concurrent clients, for all scenarios')
    cli.add_argument('--volumes', type=int, nargs='+', metavar='COUNT',
                     help='numbers of volumes in the listed projects (default: 1000 10000, '
                           'for attachments: 10000)')
    cli.add_argument('--crowds', type=int, nargs='+', metavar='COUNT',
                     help='numbers of attachments of one volume, for crowd (default: 1 10 100 '
                           '500 1000 2500)')
    cli.add_argument('--sizes', type=int, nargs='+', metavar='COUNT',
                     help='numbers of volumes in the database, for size (default: 10000 100000 '
                           '1000000)')
    cli.add_argument('--hosts', type=int,
                     help='number of hosts that attach at once, for rush (default: 2500)')
    cli.add_argument('--overload-seconds', type=float,
                     help='duration of overload (default: 60)')
    cli.add_argument('--copied-mib', type=int,
                     help='size of each copy, for copies (default and maximum: 1024)')
    cli.add_argument('--stored', type=int, metavar='COUNT',
                     help='number of volumes of each operation, for store (default: 100)')
    cli.add_argument('--requests', type=int, metavar='COUNT',
                     help='number of requests, for lasting (default: 100000)')


def _add_peer(cli: argparse.ArgumentParser) -> None:
    cli.add_argument('--peer', metavar='URL', help='also measure this Block Storage v3 endpoint '
                                                    '(with project), alternating')
    cli.add_argument('--peer-pids', default='', metavar='NAME=PID,...|FOLDER',
                     help='processes of the peer, for CPU and memory; a folder contains NAME.pid '
                           'files')
    cli.add_argument('--peer-backing-pids', default='', metavar='NAME=PID,...|FOLDER',
                     help='processes of the database and bus of the peer, if different')
    cli.add_argument('--peer-seed', default='', metavar='COMMAND',
                     help='command that creates {volumes} volumes in {project} of the peer '
                           '(default: create up to 1,000 volumes with the API)')


def plan(options: argparse.Namespace) -> sessions.Plan:
    """Return the extent of the measurements."""
    base = sessions.QUICK if options.quick else sessions.FULL
    given = {
        'seconds': options.seconds, 'rounds': options.rounds,
        'warmup': min(base.warmup, options.seconds) if options.seconds else None,
        'clients': {'': tuple(options.concurrency)} if options.concurrency else None,
        'overload_seconds': options.overload_seconds, 'rush': options.hosts,
        'copied_mib': options.copied_mib, 'stored': options.stored,
        'lasting': options.requests,
        'attached': tuple(options.volumes) if options.volumes else None,
        **{name: tuple(getattr(options, name)) for name in ('volumes', 'crowds', 'sizes')
           if getattr(options, name)}}
    return base.but({name: value for name, value in given.items() if value is not None})


def wanted(options: argparse.Namespace) -> list[str]:
    """Return the requested runs, in the order of the table."""
    if options.merge and not options.run:
        return []
    if _ALL in options.run:
        return list(runs.RUNS)
    return [name for name in runs.RUNS if name in (options.run or runs.DEFAULT)]


def main(description: str) -> int:
    """Run the measurements, and return 1 if a measurement failed."""
    options = parser(description).parse_args()
    # Exit with an exception on SIGTERM, so that context managers stop the started processes.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    peer = options.peer and sessions.Peer(
        options.peer, options.peer_pids, options.peer_backing_pids, options.peer_seed)
    session = sessions.Session(plan(options), clocks.Clock(), tuple(options.scenario or ()), peer,
                               options.server, options.keep_connections, options.profile,
                               options.threads, options.calls)
    failed = False
    try:
        if options.profile:
            profiles.program()
        for path in options.merge:
            session.results.merge(json.loads(path.read_text('utf-8')))
        for name in wanted(options):
            runs.RUNS[name](session)
    except (clouds.CannotMeasure, profiles.CannotProfile, servers.CannotStart, stack.StackRefused,
            client.Unexpected, OSError) as exc:
        print(f'Cannot measure: {exc}', file=sys.stderr)
        failed = True
    # Report the results until an error as well.
    write(session, options)
    return 1 if failed or session.results.errors() else 0


def write(session: sessions.Session, options: argparse.Namespace) -> None:
    """Print the tables, and write the requested files."""
    report(session.results)
    if options.json:
        options.json.write_text(json.dumps(stored(session.results), indent=1) + '\n', 'utf-8')
    if options.docs:
        drawn = curves.draw(session.results, options.docs)
        if drawn is None:
            session.say('matplotlib is not installed, skipping the curves')
        documents.write(session.results, options.docs)


def stored(measured: results.Results) -> dict[str, object]:
    """Return all results as a dictionary for JSON."""
    return {'version': version.version_string(), 'python': platform.python_version(),
            'cpus': os.cpu_count(), 'facts': measured.facts, 'rows': measured.rows,
            'goals': [verdict._asdict() for verdict in goals.verdicts(measured)]}


def report(measured: results.Results) -> None:
    """Print the tables of ratios and goals, the facts, and the errors."""
    compared = measured.comparison()
    if compared:
        print()
        print(results.table(results.COMPARED, compared))
    for name, value in measured.facts.items():
        print(f'{name}: {value}')
    found = list(goals.verdicts(measured))
    if found:
        print()
        print(results.table(goals.HEADINGS, found))
    for text in measured.errors():
        print(f'error: {text}', file=sys.stderr)
    # Errors of the peer are printed, but do not affect the exit status.
    for text in measured.errors(of_peer=True)[:_PEER_ERRORS]:
        print(text, file=sys.stderr)
