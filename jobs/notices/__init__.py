"""Who is told what, and that it is told once: made of the ledger, kept as rows, sent by workers."""
