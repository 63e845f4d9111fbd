"""A past day played once more: the same jobs, on its nodes or others, under Longshore's turns or another policy."""
