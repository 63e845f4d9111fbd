"""A trial by chaos: random jobs on three real Docker nodes while everything that can break is broken, then healed.

    make chaos ARGS="--jobs 300 --faults 60 --seed 7 --database postgres"

``plan`` throws the dice, ``jobs`` says what each job does and how it must end, ``faults`` breaks and heals, ``witness``
sees what ran, ``judge`` compares, ``trial`` runs it all. A small one is part of the tests.
"""
