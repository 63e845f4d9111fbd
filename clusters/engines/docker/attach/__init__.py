"""Programs in containers of a Docker engine: with a terminal (program), and to ports (relay)."""
