"""The guest's end of `Guest.call`: reads what to call, and writes the answer as the last line."""
import importlib
import json
import sys


def main() -> None:
    """Module, name and arguments are JSON on standard input."""
    asked = json.load(sys.stdin)
    function = getattr(importlib.import_module(asked['module']), asked['name'])
    answer = json.dumps(function(*asked['arguments']))
    sys.stdout.write(f'\n{answer}\n')


if __name__ == '__main__':
    main()
