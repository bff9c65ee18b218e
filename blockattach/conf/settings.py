"""Settings of a group, read by the names of their fields: option and field are called alike."""
import dataclasses
import typing
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeVar

from oslo_config import cfg

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_S = TypeVar('_S', bound='DataclassInstance')


def read(conf: cfg.ConfigOpts, group: str | None, kind: type[_S], **given: Any) -> _S:
    """A group as its dataclass. Lists are tuples there; where a field may be None, an empty text
    is.

    :param group: None: the options without a group
    :param given: values that are no option's own, by field
    """
    options = conf if group is None else conf[group]
    return kind(**{field.name: _value(options[field.name], field.type)
                   for field in dataclasses.fields(kind) if field.name not in given}, **given)


def _value(value: Any, kind: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return None if value == '' and type(None) in typing.get_args(kind) else value
