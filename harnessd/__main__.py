"""`python -m harnessd` is the command line."""

from harnessd.cli.main import main

if __name__ == "__main__":
    main()
