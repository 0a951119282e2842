"""What looks at all experiments: plan, progress, preview."""
