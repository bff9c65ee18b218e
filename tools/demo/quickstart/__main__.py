"""Entry point of `tools/quickstart`, which runs this directory."""
import pathlib
import sys

COMPUTE = '--compute'

if __name__ == '__main__':
    ROOT = pathlib.Path(__file__).resolve().parents[3]
    # Python adds only this directory.
    sys.path[:1] = [str(ROOT), str(ROOT / 'tools')]
    if COMPUTE in sys.argv:
        # Needs more packages than the other demonstration.
        from demo.quickstart import compute
        sys.exit(compute.main([word for word in sys.argv[1:] if word != COMPUTE]))
    from demo.quickstart import command
    sys.exit(command.main(sys.argv[1:]))
