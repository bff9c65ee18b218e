"""The levels of the logs of running processes, as operators ask for them and set them."""
from typing import Any

from blockattach import errors
from blockattach import log
from blockattach.api import answers
from blockattach.api import services as api_services
from blockattach.control import log_levels
from blockattach.domain import binaries
from blockattach.http import operation
from blockattach.http import schema
from blockattach.policy import services as policies

_SINCE = operation.V(3, 32)
_ALL = (None, '', '*')


def show(handed: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """What the loggers let through, process by process."""
    found = handed.logs.get(call.context, _choice(call.body))
    return {'log_levels': [{'binary': one.binary, 'host': one.host, 'levels': one.levels}
                           for one in found]}


def update(handed: api_services.ApiServices, call: operation.Call) -> operation.Answer:
    """Let more or less through, until the process ends."""
    level = call.body['level']
    if level.upper() not in log.LEVELS:
        raise errors.InvalidInput(
            reason=f'Invalid input received: {errors.shortened(level)} is not a valid log level.')
    handed.logs.set(call.context, _choice(call.body), level.upper())
    return operation.Answer(None)


def _choice(body: dict[str, Any]) -> log_levels.Choice:
    asked = {name: '' if body.get(name) in _ALL else body[name]
             for name in ('binary', 'server', 'prefix')}
    return log_levels.Choice(**asked)


_TEXT: schema.Schema = {'type': ['string', 'null'], 'maxLength': 255}
_ASKED = schema.obj({
    # The last one has no process here, and clients may name it.
    'binary': {'enum': [*_ALL, binaries.API, binaries.VOLUME, binaries.SCHEDULER,
                        'cinder-backup']},
    'server': _TEXT,
    'prefix': _TEXT,
})
_SET = schema.extend(_ASKED, {'level': {'type': 'string', 'maxLength': 255}}, required=['level'])
_LEVELS = answers.whole({
    'binary': answers.TEXT,
    'host': answers.TEXT,
    'levels': {'type': 'object', 'additionalProperties': {'type': 'string'}},
})

OPERATIONS = (
    operation.Operation(
        'PUT', '/os-services/get-log', show, since=_SINCE, policy=policies.UPDATE,
        body={_SINCE: _ASKED},
        answer={_SINCE: schema.wrapped('log_levels', schema.array(_LEVELS))},
        summary='List the levels of the loggers of running processes.'),
    operation.Operation(
        'PUT', '/os-services/set-log', update, since=_SINCE, policy=policies.UPDATE, status=202,
        body={_SINCE: _SET},
        summary='Set the levels of loggers of running processes, until they end.'),
)
