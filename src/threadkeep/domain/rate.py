"""How often a token may call: a bucket of permits that fills steadily, and from which each request takes one."""

from dataclasses import dataclass

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Bucket:
    """Permits that were there at a moment, in microseconds since 1970."""

    permits: float
    at: int


def full(rate: int, now: int) -> Bucket:
    """A bucket that was not used yet. It holds the permits of one second, so that many requests may come at once."""
    return Bucket(rate, now)


def take(bucket: Bucket, rate: int, now: int) -> tuple[Bucket, int]:
    """The bucket after one request, and the whole seconds after which to try again: 0 where the request may pass.

    `rate` is in requests per second. A request that may not pass takes nothing.
    """
    # A clock that is set back gives nothing and takes nothing.
    passed = max(0, now - bucket.at)
    permits = min(float(rate), bucket.permits + passed * rate / _SECOND)
    if permits >= 1:
        return Bucket(permits - 1, now), 0
    missing = 1 - permits
    return Bucket(permits, now), max(1, -int(-missing // rate))


def is_full(bucket: Bucket, rate: int, now: int) -> bool:
    """Whether nothing would be lost by forgetting the bucket."""
    return bucket.permits + (now - bucket.at) * rate / _SECOND >= rate
