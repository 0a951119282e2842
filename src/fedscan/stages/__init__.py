"""Stages: read inputs, call the core, write tables. Configuration stops here."""
