"""The code of a job: packed for its containers, and removed from the store when nobody needs it."""
