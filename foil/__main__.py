"""`python -m foil`: the program `foil`."""

from foil.cluster.__main__ import main

if __name__ == "__main__":
    main()
