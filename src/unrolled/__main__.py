"""`python -m unrolled` is the command `unrolled`."""

from unrolled.cli import main

if __name__ == "__main__":
    main()
