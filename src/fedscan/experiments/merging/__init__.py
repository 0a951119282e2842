"""One-shot merging of task specialists."""
