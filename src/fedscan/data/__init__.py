"""From records to client token sets: pure functions of text, arrays and named random streams."""
