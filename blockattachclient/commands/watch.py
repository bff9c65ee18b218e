"""Command ``openstack volume attachment watch``."""
import argparse
import json
from collections.abc import Mapping
from typing import Any

from blockattachclient import api
from blockattachclient import arguments
from blockattachclient import columns
from blockattachclient import output
from blockattachclient import selection
from blockattachclient import streaming


class WatchAttachments(output.Command):
    """Print the changes of attachments, one per line, until interrupted.

    If the connection is lost, the command reconnects and continues after the last change. Changes
    are missed only if the service no longer keeps them.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('volume', metavar='<volume>', type=arguments.text, nargs='?',
                            help='Watch only attachments of this volume (name or ID)')
        parser.add_argument('--host', metavar='<host>', type=arguments.text,
                            help='Watch only attachments of this host')
        parser.add_argument('--server', metavar='<server>', type=arguments.text,
                            help='Watch only attachments of this server: the ID, or the name, '
                                 'which is looked up in Compute')
        parser.add_argument('--all-projects', action='store_true',
                            help='Watch attachments of all projects (administrators only)')
        parser.add_argument('--after', metavar='<position>', type=arguments.count,
                            help='Start after this position, as printed with --json. 0 starts '
                                 'with the oldest kept change (default: only new changes)')
        parser.add_argument('--count', metavar='<number>', type=arguments.positive,
                            help='Stop after this number of changes')
        parser.add_argument('--json', action='store_true',
                            help='Print one JSON object per line, with its position')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        service = selection.client(self)
        service.require_extension(api.WATCHED)
        query: dict[str, Any] = {
            'host': parsed_args.host,
            'volume_id': service.volume(parsed_args.volume, parsed_args.all_projects).id
            if parsed_args.volume else None,
            'instance_id': selection.server_id(service, parsed_args.server)
            if parsed_args.server else None,
            'all_tenants': 1 if parsed_args.all_projects else None}
        moves = streaming.moves(service, {key: value for key, value in query.items()
                                          if value is not None},
                                parsed_args.after, self.app.stderr)
        try:
            for number, (position, move) in enumerate(moves, 1):
                line = json.dumps({'position': position, **move}) if parsed_args.json \
                    else _line(move)
                self.app.stdout.write(f'{line}\n')
                # Otherwise, a pipe would receive the line only when the buffer is full.
                self.app.stdout.flush()
                if number == parsed_args.count:
                    break
        except (KeyboardInterrupt, BrokenPipeError):
            # Users end the command with Ctrl-C, and readers by closing the pipe.
            pass
        finally:
            moves.close()


def _line(move: Mapping[str, Any]) -> str:
    of = '  '.join(f'{name} {move[key]}' for name, key in columns.WATCHED if move[key])
    reason = f'  ({move["reason"]})' if move['reason'] else ''
    came = f'{move["from"]} -> ' if move['from'] else ''
    return f'{move["at"]}  {move["event"]}: {came}{move["to"]}  {of}{reason}'
