"""How soon pages and API answer, by clients and by processes, and what the portal costs at rest."""
