"""Filter and goodness expressions of a backend (``filter_function``, ``goodness_function``).

The grammar is that of ``cinder.scheduler.evaluator.evaluator``, so that existing expressions keep
their meaning. An expression consists of numbers, texts, names like ``volume.size``, and the
operators of `LEVELS`. An expression can only read the facts passed to `evaluate`, and the time to
evaluate it depends only on its length.
"""
import functools
import itertools
import math
import operator
import re
from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

Value = float | str | bool
Names = Mapping[str, Mapping[str, Any]]
_Node = Callable[[Names], Value]
_Function = Callable[..., Value]
_Functions = Sequence[_Function]
_Operands = Sequence[Callable[[], Value]]

GROUPS = ('stats', 'capabilities', 'volume', 'extra', 'qos')
"""Allowed groups of facts. A name consists of a group and a key, as in ``volume.size``."""

# For each pair of parentheses, `_Parser.level` recurses through all levels of the grammar.
_MOST_NESTED = 20

_TOKEN = re.compile(r"""\s*(?:
    (?P<number>\d+(?:\.\d+)?)
  | (?P<text>"[^"]*"|'[^']*')
  | (?P<operator><=|>=|==|!=|<>|&&|\|\||[-+*/^<>!&|?:(),]|(?:or|OR|and|AND|not|NOT)(?![\w.]))
  | (?P<name>[A-Za-z_]\w*(?:\.\w+)*)
  | (?P<unreadable>\S.{0,19})
)""", re.VERBOSE | re.ASCII | re.DOTALL)


class ExpressionError(ValueError):
    """Expression that cannot be parsed, or cannot be evaluated with the given facts."""


class _Token(NamedTuple):
    kind: str
    text: str


def check(expression: str) -> None:
    """Parse an expression without evaluating it.

    :raises ExpressionError: if the expression is invalid
    """
    _parse(expression)


def evaluate(expression: str, names: Names) -> Value:
    """Return the value of an expression.

    :param names: facts by group (see `GROUPS`) and key
    :raises ExpressionError: if the expression is invalid, names an unknown fact, or cannot be
        calculated
    """
    node = _parse(expression)
    try:
        return node(names)
    except ExpressionError:
        raise
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ExpressionError(f'cannot be evaluated: {error}') from error


def _of_numbers(function: _Function) -> _Function:
    return lambda *values: function(*map(_number, values))


# Evaluators of the operands and operators of one level. Operands are functions, because an
# evaluator may return without evaluating all of them.

def _left(functions: _Functions, operands: _Operands) -> Value:
    value = operands[0]()
    for function, operand in zip(functions, operands[1:], strict=True):
        value = function(value, operand())
    return value


def _right(functions: _Functions, operands: _Operands) -> Value:
    value, *others = reversed([operand() for operand in operands])
    for function, other in zip(reversed(functions), others, strict=True):
        value = function(other, value)
    return value


def _chain(functions: _Functions, operands: _Operands) -> Value:
    # As in Python and in Cinder, a < b < c compares both pairs.
    pairs = itertools.pairwise(operand() for operand in operands)
    return all(function(*pair) for function, pair in zip(functions, pairs, strict=True))


def _prefix(functions: _Functions, operands: _Operands) -> Value:
    value = operands[0]()
    for function in reversed(functions):
        value = function(value)
    return value


def _choice(functions: _Functions, operands: _Operands) -> Value:
    *pairs, last = operands
    for condition, chosen in zip(pairs[::2], pairs[1::2], strict=True):
        if condition():
            return chosen()
    return last()


class Level(NamedTuple):
    """Operators of equal precedence, and the function that combines their operands."""

    combine: Callable[[_Functions, _Operands], Value]
    operators: Mapping[str, _Function]


# As in Cinder, `and` and `or` have a lower precedence than the condition `a ? b : c`, and a sign
# has a lower precedence than a power.
LEVELS: tuple[Level, ...] = (
    Level(_left, dict.fromkeys(('or', 'OR', '|', '||'), lambda left, right: left or right)),
    Level(_left, dict.fromkeys(('and', 'AND', '&', '&&'), lambda left, right: left and right)),
    Level(_choice, {'?': bool}),
    Level(_chain, {'<': operator.lt, '<=': operator.le, '>': operator.gt, '>=': operator.ge,
                   '==': operator.eq, '!=': operator.ne, '<>': operator.ne}),
    Level(_prefix, dict.fromkeys(('not', 'NOT', '!'), operator.not_)),
    Level(_left, {'+': _of_numbers(operator.add), '-': _of_numbers(operator.sub)}),
    Level(_left, {'*': _of_numbers(operator.mul), '/': _of_numbers(operator.truediv)}),
    Level(_prefix, {'+': _of_numbers(operator.pos), '-': _of_numbers(operator.neg)}),
    # `math.pow` overflows, while a power of integers could have any number of digits.
    Level(_right, {'^': _of_numbers(math.pow)}),
)
"""Grammar by precedence, lowest first.

Numbers, texts, names, functions and parentheses have the highest precedence.
"""

FUNCTIONS: Mapping[str, tuple[_Function, int, float]] = {
    'abs': (_of_numbers(abs), 1, 1),
    'max': (_of_numbers(max), 2, math.inf),
    'min': (_of_numbers(min), 2, math.inf),
}
"""Functions of numbers by name, with the minimum and maximum number of arguments."""


@functools.lru_cache(maxsize=256)
def _parse(expression: str) -> _Node:
    parser = _Parser(expression)
    node = parser.level(0)
    if parser.next.kind != 'end':
        raise parser.unexpected()
    return node


def _tokens(expression: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(expression.strip()):
        token = _Token(str(match.lastgroup), match[str(match.lastgroup)])
        if token.kind == 'unreadable':
            raise ExpressionError(f'syntax error near {token.text!r}')
        yield token
    yield _Token('end', '')


class _Parser:
    """Recursive descent parser, which starts at the operators of the lowest precedence.

    Each token is read once.
    """

    def __init__(self, expression: str) -> None:
        self._following = iter([*_tokens(expression)])
        self.next = next(self._following)
        self._nested = 0

    def level(self, number: int) -> _Node:
        """Parse an expression of the given level and all levels of higher precedence.

        :param number: index of the level in `LEVELS`
        :returns: function from facts to the value
        :raises ExpressionError: if the tokens do not form such an expression
        """
        if number == len(LEVELS):
            return self._operand()
        combine, operators = LEVELS[number]
        functions, nodes = [], []
        while combine is _prefix and (sign := self._take(operators)) is not None:
            functions.append(operators[sign])
        nodes.append(self.level(number + 1))
        while combine is not _prefix and (sign := self._take(operators)) is not None:
            functions.append(operators[sign])
            nodes.append(self.level(number + 1))
            if combine is _choice:
                self._need(':')
                nodes.append(self.level(number + 1))
        if not functions:
            return nodes[0]
        return lambda names: combine(functions,
                                     [functools.partial(node, names) for node in nodes])

    def unexpected(self) -> ExpressionError:
        if self.next.kind == 'end':
            return ExpressionError('unexpected end of expression')
        return ExpressionError(f'unexpected {self.next.text!r}')

    def _take(self, operators: Container[str]) -> str | None:
        """Consume and return the next token if it is one of the operators, else return None."""
        kind, text = self.next
        if kind != 'operator' or text not in operators:
            return None
        self.next = next(self._following)
        return text

    def _need(self, text: str) -> None:
        if self._take((text,)) is None:
            raise ExpressionError(f'missing {text!r}')

    def _operand(self) -> _Node:
        if self._take('(') is not None:
            return self._inside(at_most=1)[0]
        kind, text = self.next
        if kind in ('operator', 'end'):
            raise self.unexpected()
        self.next = next(self._following)
        if kind == 'name':
            return self._name(text)
        constant: Value = text[1:-1] if kind == 'text' else _plain(text)
        return lambda names: constant

    def _inside(self, at_most: float = math.inf) -> list[_Node]:
        """Parse up to ``at_most`` expressions, separated by commas, and the closing parenthesis.
        """
        self._nested += 1
        if self._nested > _MOST_NESTED:
            raise ExpressionError(f'more than {_MOST_NESTED} nested parentheses')
        nodes = [self.level(0)]
        while len(nodes) < at_most and self._take(',') is not None:
            nodes.append(self.level(0))
        self._need(')')
        self._nested -= 1
        return nodes

    def _name(self, text: str) -> _Node:
        group, _, key = text.partition('.')
        if not key and self._take('(') is not None:
            return self._call(text)
        if not key:
            # As in Cinder, a word without quotes and without a group is a text.
            return lambda names: text
        if group not in GROUPS or '.' in key:
            raise ExpressionError(
                f'unknown name {text}: expected a key of {", ".join(GROUPS)}')
        return lambda names: _fact(names, group, key)

    def _call(self, name: str) -> _Node:
        if name not in FUNCTIONS:
            raise ExpressionError(
                f'unknown function {name}: expected one of {", ".join(FUNCTIONS)}')
        apply, least, most = FUNCTIONS[name]
        arguments = self._inside()
        if not least <= len(arguments) <= most:
            raise ExpressionError(
                f'{name} requires {"at least " if most > least else ""}{least} argument(s)')
        return lambda names: apply(*(argument(names) for argument in arguments))


def _number(value: Value) -> float:
    if isinstance(value, str):
        raise ExpressionError(f'{value!r} is not a number')
    return value


def _fact(names: Names, group: str, key: str) -> Value:
    value = names.get(group, {}).get(key)
    if value is None:
        raise ExpressionError(f'{group}.{key} is not available')
    if not isinstance(value, (bool, int, float, str)):
        raise ExpressionError(f'{group}.{key} is neither a number nor a string')
    return _plain(value) if isinstance(value, str) else value


def _plain(text: str) -> Value:
    """Return the number that a text denotes, or the text itself if it denotes none."""
    # Drivers report numbers as texts too, for example max_over_subscription_ratio.
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
