"""Expressions by which a backend filters requests (``filter_function``) and rates them
(``goodness_function``). They are Cinder's, so that operators' expressions keep their meaning.

Numbers, texts, names like ``volume.size``, and the operators of `LEVELS`. Nothing in it can reach
out of the facts that are handed in, and its cost grows with its length only.
"""
import functools
import math
import operator
import re
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

Value = float | str | bool
Names = Mapping[str, Mapping[str, Any]]
_Node = Callable[[Names], Value]

GROUPS = ('stats', 'capabilities', 'volume', 'extra', 'qos')
"""What a name may begin with."""

_MOST_NESTED = 20

_TOKEN = re.compile(r"""\s*(?:
    (?P<number>\d+(?:\.\d+)?)
  | (?P<text>"[^"]*"|'[^']*')
  | (?P<name>[A-Za-z_]\w*(?:\.\w+)*)
  | (?P<operator><=|>=|==|!=|<>|&&|\|\||[-+*/^<>!&|?:(),])
)""", re.VERBOSE | re.ASCII)


class ExpressionError(ValueError):
    """An expression cannot be read, or not be evaluated with these facts."""


class _Token(NamedTuple):
    kind: str
    text: str


def check(expression: str) -> None:
    """Read an expression without evaluating it.

    :raises ExpressionError: it is none
    """
    _parse(expression)


def evaluate(expression: str, names: Names) -> Value:
    """What an expression comes to.

    :param names: facts by the groups of `GROUPS`
    :raises ExpressionError: it is none, or it asks for what is not there or cannot be calculated
    """
    node = _parse(expression)
    try:
        return node(names)
    except ExpressionError:
        raise
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ExpressionError(f'it cannot be calculated: {error}') from error


def _both(left: Value, right: Value) -> Value:
    return left and right


def _either(left: Value, right: Value) -> Value:
    return left or right


def _power(base: float, exponent: float) -> float:
    # Of integers it could have any number of digits; this one overflows.
    return math.pow(base, exponent)


class Level(NamedTuple):
    """Operators that bind equally. ``kind``: left, right, chain, prefix or choice."""

    kind: str
    operators: Mapping[str, Callable[..., Value]]


LEVELS: tuple[Level, ...] = (
    Level('left', {'or': _either, 'OR': _either, '|': _either, '||': _either}),
    Level('left', {'and': _both, 'AND': _both, '&': _both, '&&': _both}),
    Level('choice', {'?': bool}),
    Level('chain', {'<': operator.lt, '<=': operator.le, '>': operator.gt, '>=': operator.ge,
                    '==': operator.eq, '!=': operator.ne, '<>': operator.ne}),
    Level('prefix', {'not': operator.not_, 'NOT': operator.not_, '!': operator.not_}),
    Level('left', {'+': operator.add, '-': operator.sub}),
    Level('left', {'*': operator.mul, '/': operator.truediv}),
    Level('prefix', {'+': operator.pos, '-': operator.neg}),
    Level('right', {'^': _power}),
)
"""The grammar, from what binds loosest; what binds tightest are numbers, texts, names, functions
and parentheses."""


class Function(NamedTuple):
    """A function of numbers, and how many it takes; ``most`` None: any number."""

    apply: Callable[..., float]
    least: int
    most: int | None


FUNCTIONS: Mapping[str, Function] = {
    'abs': Function(abs, 1, 1),
    'max': Function(max, 2, None),
    'min': Function(min, 2, None),
}

_NUMERIC = frozenset(('+', '-', '*', '/', '^'))
_WORDS = frozenset(('or', 'OR', 'and', 'AND', 'not', 'NOT'))


@functools.lru_cache(maxsize=256)
def _parse(expression: str) -> _Node:
    parser = _Parser(_tokens(expression))
    node = parser.level(0)
    parser.end()
    return node


def _tokens(expression: str) -> list[_Token]:
    found, at, end = [], 0, len(expression.rstrip())
    while at < end:
        match = _TOKEN.match(expression, at)
        if match is None:
            raise ExpressionError(f'it cannot be read from {expression[at:at + 20].strip()!r} on')
        kind = str(match.lastgroup)
        text = match[kind]
        found.append(_Token('operator' if text in _WORDS else kind, text))
        at = match.end()
    return found


class _Parser:
    """Reads tokens once, from the loosest level down."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._nested = 0

    def level(self, number: int) -> _Node:
        """What stands here, with operators of this level and tighter ones."""
        if number == len(LEVELS):
            return self._operand()
        kind, operators = LEVELS[number]
        read: Callable[[int, Mapping[str, Any]], _Node] = getattr(self, f'_{kind}')
        return read(number, operators)

    def end(self) -> None:
        """Nothing may follow."""
        if self._at < len(self._tokens):
            raise ExpressionError(f'{self._tokens[self._at].text!r} is not expected there')

    def _take(self, *operators: str) -> str | None:
        """The operator that stands here, if it is one of these."""
        if self._at < len(self._tokens):
            kind, text = self._tokens[self._at]
            if kind == 'operator' and text in operators:
                self._at += 1
                return text
        return None

    def _need(self, text: str) -> None:
        if self._take(text) is None:
            raise ExpressionError(f'{text!r} is missing')

    def _series(self, number: int, operators: Mapping[str, Any],
                ) -> tuple[_Node, list[tuple[str, _Node]]]:
        first, rest = self.level(number + 1), []
        while (sign := self._take(*operators)) is not None:
            rest.append((sign, self.level(number + 1)))
        return first, rest

    def _left(self, number: int, operators: Mapping[str, Callable[..., Value]]) -> _Node:
        first, rest = self._series(number, operators)

        def node(names: Names) -> Value:
            value = first(names)
            for sign, operand in rest:
                value = _apply(sign, operators[sign], value, operand(names))
            return value
        return node if rest else first

    def _right(self, number: int, operators: Mapping[str, Callable[..., Value]]) -> _Node:
        first, rest = self._series(number, operators)

        def node(names: Names) -> Value:
            values = [first(names), *(operand(names) for _, operand in rest)]
            value = values.pop()
            for sign, _ in reversed(rest):
                value = _apply(sign, operators[sign], values.pop(), value)
            return value
        return node if rest else first

    def _chain(self, number: int, operators: Mapping[str, Callable[..., Value]]) -> _Node:
        first, rest = self._series(number, operators)

        def node(names: Names) -> Value:
            left = first(names)
            for sign, operand in rest:
                right = operand(names)
                if not operators[sign](left, right):
                    return False
                left = right
            return True
        return node if rest else first

    def _prefix(self, number: int, operators: Mapping[str, Callable[..., Value]]) -> _Node:
        signs = []
        while (sign := self._take(*operators)) is not None:
            signs.append(sign)
        inner = self.level(number + 1)

        def node(names: Names) -> Value:
            value = inner(names)
            for sign in reversed(signs):
                value = _apply(sign, operators[sign], value)
            return value
        return node if signs else inner

    def _choice(self, number: int, operators: Mapping[str, Callable[..., Value]]) -> _Node:
        pairs, last = [], self.level(number + 1)
        while self._take(*operators) is not None:
            chosen = self.level(number + 1)
            self._need(':')
            pairs.append((last, chosen))
            last = self.level(number + 1)

        def node(names: Names) -> Value:
            for condition, chosen in pairs:
                if condition(names):
                    return chosen(names)
            return last(names)
        return node if pairs else last

    def _operand(self) -> _Node:
        if self._take('(') is not None:
            return self._inside()
        if self._at == len(self._tokens):
            raise ExpressionError('it ends too early')
        kind, text = self._tokens[self._at]
        if kind == 'operator':
            raise ExpressionError(f'{text!r} is not expected there')
        self._at += 1
        if kind == 'name':
            return self._name(text)
        constant: Value = text[1:-1] if kind == 'text' else _plain(text)
        return lambda names: constant

    def _inside(self) -> _Node:
        self._nested += 1
        if self._nested > _MOST_NESTED:
            raise ExpressionError(f'more than {_MOST_NESTED} parentheses stand inside each other')
        node = self.level(0)
        self._need(')')
        self._nested -= 1
        return node

    def _name(self, text: str) -> _Node:
        group, *keys = text.split('.')
        if not keys and self._take('(') is not None:
            return self._call(text)
        if not keys:
            # A bare word is a text.
            return lambda names: text
        if group not in GROUPS or len(keys) > 1:
            raise ExpressionError(f'{text} is no name; they begin with one of: '
                                  f'{", ".join(GROUPS)}')
        return lambda names: _fact(names, group, keys[0])

    def _call(self, name: str) -> _Node:
        if name not in FUNCTIONS:
            raise ExpressionError(f'{name} is no function; known are: {", ".join(FUNCTIONS)}')
        apply, least, most = FUNCTIONS[name]
        self._nested += 1
        if self._nested > _MOST_NESTED:
            raise ExpressionError(f'more than {_MOST_NESTED} parentheses stand inside each other')
        arguments = [self.level(0)]
        while self._take(',') is not None:
            arguments.append(self.level(0))
        self._need(')')
        self._nested -= 1
        if len(arguments) < least or most is not None and len(arguments) > most:
            raise ExpressionError(f'{name} takes {least} values{"" if most else " or more"}')
        return lambda names: apply(*(_number(argument(names)) for argument in arguments))


def _apply(sign: str, function: Callable[..., Value], *values: Value) -> Value:
    return function(*map(_number, values)) if sign in _NUMERIC else function(*values)


def _number(value: Value) -> float:
    if isinstance(value, str):
        raise ExpressionError(f'{value!r} is not a number')
    return value


def _fact(names: Names, group: str, key: str) -> Value:
    value = names.get(group, {}).get(key)
    if value is None:
        raise ExpressionError(f'{group}.{key} is not known')
    if not isinstance(value, (bool, int, float, str)):
        raise ExpressionError(f'{group}.{key} is neither a number nor a text')
    return _plain(value) if isinstance(value, str) else value


def _plain(text: str) -> Value:
    """A text that is a number counts as that number."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
