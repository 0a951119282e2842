"""How long the rest of a job will take."""

import time


class Timer:
    """Estimates the time left from the rounds done since the start."""

    def __init__(self, done: int) -> None:
        """Start after ``done`` rounds."""
        self._start, self._done = time.monotonic(), done

    def left(self, done: int, total: int) -> str:
        """Return the estimated time for the rounds left, h:mm:ss."""
        pace = (time.monotonic() - self._start) / max(done - self._done, 1)
        minutes, seconds = divmod(round(pace * (total - done)), 60)
        return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
