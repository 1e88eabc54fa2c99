"""Live sessions of each worker, and the space that they are expected to need in its cache.

Agents and conversations come back: a worker's cache must keep what its sessions have computed until they end. A session
is live with the probability that it continues after its present pause. This probability is learned from the pauses of
all sessions. Pauses are measured in requests instead of seconds, so no clock is needed.
"""

from typing import Final

from cache_index import WorkerId
from cache_index.native import mypyc_attr
from cache_index.reuse import Reuse

LEARN_EVERY: Final = 64
"""Number of requests between two updates of the probabilities. Requests between two updates form an epoch."""


@mypyc_attr(acyclic=True)
class Session:
    """A known session: the worker of its last request, and the tokens that it has added to this worker's cache."""

    __slots__ = ("last_use", "tokens", "worker")

    def __init__(self) -> None:
        self.worker: _WorkerSessions | None = None
        """Account of the worker, or None before the first request of the session was sent."""
        self.last_use = 0
        """Number of the last request of the session, counted over all sessions."""
        self.tokens = 0.0


class _WorkerSessions:
    """Sessions of one worker, summed by the epoch of their last request."""

    __slots__ = ("by_epoch", "sessions", "tokens")

    def __init__(self) -> None:
        self.by_epoch: dict[int, tuple[int, float]] = {}
        """Number of sessions and of their tokens."""
        self.sessions = 0.0
        """Expected number of live sessions."""
        self.tokens = 0.0
        """Expected number of tokens of live sessions."""

    def add(self, epoch: int, sessions: int, tokens: float, chance: float) -> None:
        """Add *sessions* sessions with *tokens* tokens, or remove them if the numbers are negative."""
        sessions_before, tokens_before = self.by_epoch.get(epoch, (0, 0.0))
        if sessions_before + sessions > 0:
            self.by_epoch[epoch] = sessions_before + sessions, tokens_before + tokens
        else:
            self.by_epoch.pop(epoch, None)
        self.sessions += sessions * chance
        self.tokens += tokens * chance


class LiveSessions:
    """Expected cache use of the live sessions of each worker.

    Every request and every lookup costs O(1), and an update every 64 requests costs O(epochs of the sessions).
    """

    def __init__(self) -> None:
        self._workers: dict[WorkerId, _WorkerSessions] = {}
        self._waiting = _WorkerSessions()
        """Sessions whose first request waits for a worker."""
        self._reuse = Reuse()
        self._uses = 0

    def arrived(self, session: Session) -> None:
        """Record that the first request of *session* has arrived and waits for a worker."""
        session.last_use = self._uses
        session.worker = self._waiting
        self._add(session, self._waiting, 1)

    def has_begun(self, session: Session) -> bool:
        """Return whether a request of *session* was sent to a worker."""
        return session.worker is not None and session.worker is not self._waiting

    def sent(self, session: Session, worker: WorkerId, *, new_tokens: float, all_tokens: float) -> None:
        """Record that a request of *session* was sent to *worker*, where it adds *new_tokens* tokens to the cache.

        *all_tokens* is the length of its prompt and answer. The session cannot have more tokens in the cache.
        """
        self._uses += 1
        if self._uses % LEARN_EVERY == 0:
            self._learn()
        account = self._workers.get(worker)
        if account is None:
            account = self._workers[worker] = _WorkerSessions()
        before, tokens = session.worker, new_tokens
        if before is not None:
            if before is not self._waiting:
                self._reuse.asked(self._uses - session.last_use, 1)
            self._add(session, before, -1)
            if before is account:
                tokens += session.tokens
        session.tokens = min(tokens, all_tokens)
        session.last_use = self._uses
        session.worker = account
        self._add(session, account, 1)

    def forget_session(self, session: Session) -> None:
        """Remove *session*, which is no longer remembered."""
        if session.worker is not None:
            if self.has_begun(session):
                self._reuse.evicted(self._uses - session.last_use, 1)
            self._add(session, session.worker, -1)
            session.worker = None

    def forget_worker(self, worker: WorkerId) -> None:
        """Remove all sessions of *worker*, whose cache is empty or which has left the fleet."""
        self._workers.pop(worker, None)

    def tokens(self, worker: WorkerId, growth: float) -> float:
        """Return the expected number of tokens of live sessions on *worker*, where each still adds *growth* tokens."""
        account = self._workers.get(worker)
        return 0.0 if account is None else max(0.0, account.tokens + account.sessions * growth)

    def sessions(self, worker: WorkerId) -> float:
        """Return the expected number of live sessions on *worker*."""
        account = self._workers.get(worker)
        return 0.0 if account is None else max(0.0, account.sessions)

    @property
    def waiting(self) -> float:
        """Expected number of live sessions whose first request waits for a worker."""
        return max(0.0, self._waiting.sessions)

    def _add(self, session: Session, account: _WorkerSessions, sessions: int) -> None:
        epoch = session.last_use // LEARN_EVERY
        account.add(epoch, sessions, sessions * session.tokens, self._chance(epoch))

    def _chance(self, epoch: int) -> float:
        """Return the probability that a session whose last request was sent in *epoch* continues. It is 1 before
        anything has been learned.
        """
        if self._uses < LEARN_EVERY:
            return 1.0
        return self._reuse.chance(_age(self._uses // LEARN_EVERY - epoch))

    def _learn(self) -> None:
        epoch_now = self._uses // LEARN_EVERY
        pausing: dict[int, float] = {}
        for account in self._workers.values():
            for epoch, (sessions, _) in account.by_epoch.items():
                age = _age(epoch_now - epoch)
                pausing[age] = pausing.get(age, 0.0) + sessions
        self._reuse.learn(pausing)
        for account in (*self._workers.values(), self._waiting):
            account.sessions = account.tokens = 0.0
            for epoch, (sessions, tokens) in account.by_epoch.items():
                chance = self._reuse.chance(_age(epoch_now - epoch))
                account.sessions += sessions * chance
                account.tokens += tokens * chance


def _age(epochs: int) -> int:
    """Return the mean age in requests of what is *epochs* epochs old."""
    return epochs * LEARN_EVERY + LEARN_EVERY // 2
