"""How long tests wait, in one place. What comes true, or ends by itself, ends a wait: only a failure pays for it."""

LEAST = 60.0  # seconds a wait for what others do may take at least
LIMIT = 300.0  # seconds for what ends by itself: an answer, a command, a thread; for what a test does not measure
