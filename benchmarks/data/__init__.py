"""Rows and logs in large numbers, for measurements that need a full portal."""
