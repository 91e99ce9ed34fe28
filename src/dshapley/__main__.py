"""`python -m dshapley`."""

from dshapley.start import main

if __name__ == "__main__":
    main()
