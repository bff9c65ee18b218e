"""Settings of an option group: a dataclass in which each field declares the option for its value.

An option, its default and its help are thus defined in one place, and an instance that is created
directly has the defaults of the options.
"""
import dataclasses
import functools
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeVar

from oslo_config import cfg

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_S = TypeVar('_S', bound='DataclassInstance')


def option(kind: Callable[..., cfg.Opt], name: str | None = None, *, default: Any = None,
           required: bool = False, read: Callable[[Any], Any] | None = None, **facts: Any) -> Any:
    """Return a dataclass field that is read from an option.

    :param kind: class of the option
    :param name: name of the option; None for the name of the field
    :param required: True if the field has no default, even if the option has one
    :param read: function that converts the value of the option to the value of the field; None to
        convert only a list to a tuple
    :param facts: further arguments of the option class
    """
    read = read or _frozen
    return dataclasses.field(
        default=dataclasses.MISSING if required else read(default),
        # Settings may be logged, or shown in the text of an exception.
        repr=not facts.get('secret'),
        metadata={'option': functools.partial(kind, default=default, **facts), 'name': name,
                  'read': read})


def part(kind: 'type[DataclassInstance]', default: Any) -> Any:
    """Return a dataclass field for a nested dataclass, whose options are in the same group."""
    return dataclasses.field(default=default, metadata={'part': kind})


def options(kind: 'type[DataclassInstance]') -> tuple[cfg.Opt, ...]:
    """Return the options of a settings dataclass, in the order of its fields."""
    found: list[cfg.Opt] = []
    for field in dataclasses.fields(kind):
        if 'part' in field.metadata:
            found += options(field.metadata['part'])
        elif 'option' in field.metadata:
            found.append(field.metadata['option'](field.metadata['name'] or field.name))
    return tuple(found)


def read(conf: cfg.ConfigOpts, group: str | None, kind: type[_S], **given: Any) -> _S:
    """Read an option group into its settings dataclass.

    Lists become tuples. An empty text becomes None in fields that may be None.

    :param group: name of the group; None for the options without a group
    :param given: values of fields that are not read from an option, by field name
    """
    return kind(**{field.name: _value(conf, group, field)
                   for field in dataclasses.fields(kind) if field.name not in given}, **given)


def _value(conf: cfg.ConfigOpts, group: str | None, field: 'dataclasses.Field[Any]') -> Any:
    if 'part' in field.metadata:
        return read(conf, group, field.metadata['part'])
    options = conf if group is None else conf[group]
    value = field.metadata.get('read', _frozen)(options[field.metadata.get('name') or field.name])
    return None if value == '' and type(None) in typing.get_args(field.type) else value


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
