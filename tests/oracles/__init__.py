"""Independent re-derivations: they import nothing from the unit they judge."""
