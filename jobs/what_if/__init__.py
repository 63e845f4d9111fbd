"""What would a change do to the queue? Asked in words, tried with the turns themselves, compared job by job."""
