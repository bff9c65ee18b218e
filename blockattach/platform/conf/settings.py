"""Settings of a group: a dataclass whose fields say which options they are read from.

So an option, its default and its help stand in one place, and a class made by hand has the
defaults of the options.
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
    """A field that is read from an option.

    :param kind: the class of the option
    :param name: of the option; None: the field's
    :param required: the class has no default for it, though the option may
    :param read: makes the value of the field from that of the option
    :param facts: what else the class of the option takes
    """
    read = read or _frozen
    return dataclasses.field(
        default=dataclasses.MISSING if required else read(default),
        repr=not facts.get('secret'),
        metadata={'option': functools.partial(kind, default=default, **facts), 'name': name,
                  'read': read})


def part(kind: 'type[DataclassInstance]', default: Any) -> Any:
    """A field whose value is a dataclass itself, of options of the same group."""
    return dataclasses.field(default=default, metadata={'part': kind})


def options(kind: 'type[DataclassInstance]') -> tuple[cfg.Opt, ...]:
    """The options that a dataclass is read from, in the order of its fields."""
    found: list[cfg.Opt] = []
    for field in dataclasses.fields(kind):
        if 'part' in field.metadata:
            found += options(field.metadata['part'])
        elif 'option' in field.metadata:
            found.append(field.metadata['option'](field.metadata['name'] or field.name))
    return tuple(found)


def read(conf: cfg.ConfigOpts, group: str | None, kind: type[_S], **given: Any) -> _S:
    """A group as its dataclass. Lists are tuples there; where a field may be None, an empty text
    is.

    :param group: None: the options without a group
    :param given: values that are no option's own, by field
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
