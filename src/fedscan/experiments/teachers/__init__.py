"""Frozen selective SSMs that generate datasets, and the criteria a dataset must meet."""
