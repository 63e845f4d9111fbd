"""Logs of several tasks as one: in the order of their times, searched, followed and saved together."""
