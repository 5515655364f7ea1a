"""`python -m lynxbench` is the same program as `lynxbench`."""

from lynxbench.cli.main import main

if __name__ == "__main__":
    main()
