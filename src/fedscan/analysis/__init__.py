"""Analysis: tables in, tables and figures out. No torch, no files."""
