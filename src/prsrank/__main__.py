"""`python -m prsrank` is the command `prsrank`."""

from prsrank.cli import main

if __name__ == "__main__":
    main()
