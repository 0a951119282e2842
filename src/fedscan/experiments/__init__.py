"""The experiments, one room each; the list of them is in ``registry``."""
