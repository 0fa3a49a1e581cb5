"""What an answer costs, beside what nobody could avoid paying.

`python -m tests.benchmarks` builds its stores and repositories, starts the installed daemon, and
prints one table. Every figure stands beside a floor that was measured in the same run, turn by
turn with it, so that a slow machine or a busy one slows both.
"""
