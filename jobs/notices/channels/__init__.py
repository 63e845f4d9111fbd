"""The ways by which notices leave the page, each a module: how a message looks there, and how it is handed over."""
