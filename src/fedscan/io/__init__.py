"""Files: table schemas, atomic Parquet, checkpoints and provenance. No maths, no torch."""
