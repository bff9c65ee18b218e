"""Entry point of `tools/devcloud`, which runs this directory."""
import pathlib
import sys

if __name__ == '__main__':
    ROOT = pathlib.Path(__file__).resolve().parents[3]
    # Python adds only this directory.
    sys.path[:1] = [str(ROOT), str(ROOT / 'tools')]
    from demo.devcloud import command
    sys.exit(command.main())
