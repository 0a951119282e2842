"""How jobs are run, whatever the experiment."""
