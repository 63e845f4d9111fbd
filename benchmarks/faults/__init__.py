"""The fault table: everything that can break on a real bed of three nodes is broken once while a job runs there.

``deeds`` breaks and heals, ``stage`` is the portal with its nodes and its witness, ``trial`` measures one fault,
``measure`` prints the table. The witness is that of ``make chaos``: the tasks themselves tell it when they run, so
neither the portal nor an engine is asked how often something ran.
"""
