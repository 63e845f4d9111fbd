"""The logs of tasks: followed while they are written, archived in the store at the end, read and searched."""
