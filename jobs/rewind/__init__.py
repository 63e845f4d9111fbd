"""What a failed task had in its container, opened again: a job of one task with the image that was kept
(docs/use/rewind.md)."""
