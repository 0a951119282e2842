"""From text to the clients' token sets."""
