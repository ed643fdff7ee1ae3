"""When a row that has changed is written. Pure: sizes and times in, a time out."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """Writing is bounded in requests and in bytes, since every write sends the whole row.

    A row is written at once when it has ended, or when `minimal_chunk` characters have come since it was last
    written; from `long_text` characters on that chunk grows with the text, so that a text of a megabyte is rewritten a
    few dozen times and not two hundred. Smaller changes wait `first_wait` seconds, and for a row that is written over
    and over `wait_growth` times longer each time, up to `longest_wait`: that much a crash can lose. From `long_text`
    on, that grows with the text as well, so that what a slow agent sends in bytes does not grow with its patience.
    """

    minimal_chunk: int = 5_000
    long_text: int = 65_536
    first_wait: float = 1.0
    wait_growth: float = 2.0
    longest_wait: float = 10.0

    def wait(self, *, unsaved: int, stored: int, writes: int, ended: bool) -> float:
        """Seconds from the moment when a row changed to the moment when it is written.

        Args:
            unsaved: characters that came since it was last written.
            stored: characters that are stored of it, and so sent again with it.
            writes: how often it was written.
            ended: whether it has ended.
        """
        chunk = self.minimal_chunk if stored < self.long_text else max(self.minimal_chunk, stored // 4)
        if ended or unsaved >= chunk:
            return 0.0
        # The exponent is bounded before the power is taken: a float overflows where a row is written a thousand times.
        longest = self.longest_wait * max(1.0, stored / self.long_text)
        return min(self.first_wait * self.wait_growth ** min(writes, 16), longest)
