"""The machine's test job as a program of its own, for drills that kill it or send it signals."""

from machine import main

if __name__ == "__main__":
    main()
