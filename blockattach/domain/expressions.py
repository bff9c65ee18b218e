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
_Operators = Mapping[str, Callable[..., Value]]
_Signs = Sequence[str]
_Operands = Sequence[Callable[[], Value]]

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


_END = _Token('end', '')


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


def _apply(sign: str, function: Callable[..., Value], *values: Value) -> Value:
    return function(*map(_number, values)) if sign in _NUMERIC else function(*values)


# How the operands between operators of one level come to a value; they are evaluated as needed.

def _left(operators: _Operators, signs: _Signs, operands: _Operands) -> Value:
    value = operands[0]()
    for sign, operand in zip(signs, operands[1:], strict=True):
        value = _apply(sign, operators[sign], value, operand())
    return value


def _right(operators: _Operators, signs: _Signs, operands: _Operands) -> Value:
    value, *others = reversed([operand() for operand in operands])
    for sign, other in zip(reversed(signs), others, strict=True):
        value = _apply(sign, operators[sign], other, value)
    return value


def _chain(operators: _Operators, signs: _Signs, operands: _Operands) -> Value:
    left = operands[0]()
    for sign, operand in zip(signs, operands[1:], strict=True):
        right = operand()
        if not operators[sign](left, right):
            return False
        left = right
    return True


def _prefix(operators: _Operators, signs: _Signs, operands: _Operands) -> Value:
    value = operands[0]()
    for sign in reversed(signs):
        value = _apply(sign, operators[sign], value)
    return value


def _choice(operators: _Operators, signs: _Signs, operands: _Operands) -> Value:
    *pairs, last = operands
    for condition, chosen in zip(pairs[::2], pairs[1::2], strict=True):
        if condition():
            return chosen()
    return last()


class Level(NamedTuple):
    """Operators that bind equally, and how their operands come to a value."""

    combine: Callable[[_Operators, _Signs, _Operands], Value]
    operators: _Operators


LEVELS: tuple[Level, ...] = (
    Level(_left, {'or': _either, 'OR': _either, '|': _either, '||': _either}),
    Level(_left, {'and': _both, 'AND': _both, '&': _both, '&&': _both}),
    Level(_choice, {'?': bool}),
    Level(_chain, {'<': operator.lt, '<=': operator.le, '>': operator.gt, '>=': operator.ge,
                   '==': operator.eq, '!=': operator.ne, '<>': operator.ne}),
    Level(_prefix, {'not': operator.not_, 'NOT': operator.not_, '!': operator.not_}),
    Level(_left, {'+': operator.add, '-': operator.sub}),
    Level(_left, {'*': operator.mul, '/': operator.truediv}),
    Level(_prefix, {'+': operator.pos, '-': operator.neg}),
    Level(_right, {'^': _power}),
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
    parser = _Parser([*_tokens(expression), _END])
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
        combine, operators = LEVELS[number]
        signs, nodes = [], []
        if combine is _prefix:
            while (sign := self._take(*operators)) is not None:
                signs.append(sign)
        nodes.append(self.level(number + 1))
        while combine is not _prefix and (sign := self._take(*operators)) is not None:
            signs.append(sign)
            nodes.append(self.level(number + 1))
            if combine is _choice:
                self._need(':')
                nodes.append(self.level(number + 1))
        if not signs:
            return nodes[0]
        return lambda names: combine(operators, signs,
                                     [functools.partial(node, names) for node in nodes])

    def end(self) -> None:
        """Nothing may follow."""
        if self._tokens[self._at] is not _END:
            raise ExpressionError(f'{self._tokens[self._at].text!r} is not expected there')

    def _take(self, *operators: str) -> str | None:
        """The operator that stands here, if it is one of these."""
        kind, text = self._tokens[self._at]
        if kind != 'operator' or text not in operators:
            return None
        self._at += 1
        return text

    def _need(self, text: str) -> None:
        if self._take(text) is None:
            raise ExpressionError(f'{text!r} is missing')

    def _operand(self) -> _Node:
        if self._take('(') is not None:
            return self._inside(at_most=1)[0]
        kind, text = self._tokens[self._at]
        if kind == 'end':
            raise ExpressionError('it ends too early')
        if kind == 'operator':
            raise ExpressionError(f'{text!r} is not expected there')
        self._at += 1
        if kind == 'name':
            return self._name(text)
        constant: Value = text[1:-1] if kind == 'text' else _plain(text)
        return lambda names: constant

    def _inside(self, at_most: float = math.inf) -> list[_Node]:
        """What stands between parentheses, with commas between."""
        self._nested += 1
        if self._nested > _MOST_NESTED:
            raise ExpressionError(f'more than {_MOST_NESTED} parentheses stand inside each other')
        nodes = [self.level(0)]
        while len(nodes) < at_most and self._take(',') is not None:
            nodes.append(self.level(0))
        self._need(')')
        self._nested -= 1
        return nodes

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
        arguments = self._inside()
        if len(arguments) < least or most is not None and len(arguments) > most:
            raise ExpressionError(f'{name} takes {least} values{"" if most else " or more"}')
        return lambda names: apply(*(_number(argument(names)) for argument in arguments))


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
