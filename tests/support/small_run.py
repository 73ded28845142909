"""The machine's test job as a program of its own, for drills that kill it or send it signals."""

from tests.support.small_parts import main

if __name__ == "__main__":
    main()
