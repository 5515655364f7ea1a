"""The program `lynxbench`, which `python -m lynxbench` is too."""

import gc


def main() -> None:
    """The command line, loaded without looking for garbage among what is just being made; a command puts that on."""
    gc.disable()
    from lynxbench.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
