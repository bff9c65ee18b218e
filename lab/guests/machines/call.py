"""Guest side of `Guest.call`: call a function and print the result as the last line."""
import importlib
import json
import sys


def main() -> None:
    """Read module, name and arguments as JSON from standard input, and print the result."""
    asked = json.load(sys.stdin)
    function = getattr(importlib.import_module(asked['module']), asked['name'])
    answer = json.dumps(function(*asked['arguments']))
    sys.stdout.write(f'\n{answer}\n')


if __name__ == '__main__':
    main()
