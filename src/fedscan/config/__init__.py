"""The typed configuration: sections, rules between keys, reading of files."""
