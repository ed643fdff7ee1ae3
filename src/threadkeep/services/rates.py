"""The rate limit of tokens, as this process sees them; other processes count for themselves."""

from threadkeep import clock
from threadkeep.domain import rate
from threadkeep.domain.rate import Bucket
from threadkeep.errors import RateLimited

_REMEMBERED = 10_000
"""Tokens whose buckets are kept before those that are full again are forgotten."""


class Rates:
    """`limit` is in requests per second and token; 0 is no limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buckets: dict[str, Bucket] = {}

    def check(self, token_id: str) -> None:
        """Count a request of the token. Raises RateLimited."""
        if not self._limit:
            return
        now = clock.now()
        if len(self._buckets) >= _REMEMBERED and token_id not in self._buckets:
            self._buckets = {
                known: bucket for known, bucket in self._buckets.items() if not rate.is_full(bucket, self._limit, now)
            }
        bucket = self._buckets.get(token_id) or rate.full(self._limit, now)
        self._buckets[token_id], wait = rate.take(bucket, self._limit, now)
        if wait:
            raise RateLimited(wait)
