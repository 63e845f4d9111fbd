"""``make bench ARGS=packing``: the openb cluster filled with its own tasks, by Longshore's placement and by rules of
others. ``trace`` has nodes and tasks, ``rules`` the others, ``measure`` prints.
"""
