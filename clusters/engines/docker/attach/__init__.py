"""Programs with a terminal in containers of a Docker engine: program (exec), hijack (HTTP), dial (ways to it)."""
