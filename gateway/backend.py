"""The backend of one application: the objects that routes use, limited to the platforms of its callers."""

from tailrace.gateway.access.reach import Reach
from tailrace.gateway.access.tickets import Pouch
from tailrace.gateway.live.history_cache import KeptHistories, Told, told_of
from tailrace.gateway.live.live import Live
from tailrace.gateway.sampler import Sampler
from tailrace.gateway.settings import GatewaySettings
from tailrace.producers import Producer
from tailrace.producers.actions import Actions
from tailrace.producers.policies import Policies
from tailrace.producers.schedules import Schedules
from tailrace.streams import Store, Transitions
from tailrace.streams.history.pages import Histories
from tailrace.streams.keys import PlatformKeys
from tailrace.streams.policies import Platforms
from tailrace.streams.store.fitness import Fitness
from tailrace.streams.views.presence import Presence
from tailrace.streams.waiting.explain import WaitExplainer


class Backend:
    """Every handler gets it first. What a process has once comes from outside; the rest is made for these platforms."""

    def __init__(
        self,
        settings: GatewaySettings,
        store: Store,
        live: Live,
        sampler: Sampler,
        fitness: Fitness,
        platforms: Platforms,
    ) -> None:
        self.settings = settings
        self.store = store
        self.live = live
        self.sampler = sampler
        self.platforms = platforms
        self.reach = Reach(store.keyspace, platforms)
        self.transitions = Transitions(store)
        self.policies = Policies(self.transitions, settings.streams.platforms)
        self.actions = Actions(self.transitions, platforms)
        self.producer = Producer(self.transitions, platforms, fitness, settings.kinds)
        self.schedules = Schedules(self.transitions, platforms, settings.kinds)
        self.presence = Presence(self.transitions, platforms)
        self.explainer = WaitExplainer(self.transitions, platforms, self.presence)
        self.histories = Histories(store)
        self.kept_histories = KeptHistories(self._read_history)
        self.pouch = Pouch(store)

    @property
    def hidden(self) -> set[str]:
        """The platforms that are declared, and not for the caller's key."""
        return self.settings.streams.platforms.keys() - self.platforms.keys()

    async def _read_history(self, keys: PlatformKeys, key: str) -> Told:
        return told_of(await self.histories.whole(keys, key))
