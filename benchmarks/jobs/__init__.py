"""Jobs from their submission to their end: how soon they run and how many a second, beside the bare engine."""
