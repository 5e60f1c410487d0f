"""What a client's process is told, and what it tells: both JSON."""

import json
from dataclasses import asdict, dataclass
from typing import Final

from tests.load.plan import Attack
from tests.load.resources import Resources

ADDRESS: Final = "127.0.0.1"
NAME: Final = "origin.example"
"""The host that the engine asks for; the others are given the address, and pay for no look-up."""

SITES_OF_TLS: Final = ("tls", "stalled", "healthy-tls")

BEFORE, OPENING, HELD, ENDING, AFTER = STAGES = ("before", "opening", "held", "ending", "after")
"""Of an attack: alone, connections being opened, all open, from the first deadline to the last end, alone."""


@dataclass(frozen=True, slots=True)
class Job:
    """One attack on one client.

    Attributes:
        attack: how many holds, for how long.
        ports: of the origins, by site.
        ca_file: PEM of the one authority to trust.
        core: the processor to stay on; None for any.
        calm: seconds of healthy fetches alone, before and after.
    """

    attack: Attack
    ports: dict[str, int]
    ca_file: str
    core: int | None
    calm: float

    def to_json(self) -> str:
        """For the command line of the process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        """The reverse."""
        values = json.loads(text)
        return cls(**values | {"attack": Attack(**values["attack"])})

    def url(self, site: str, path: str, host: str = ADDRESS) -> str:
        """The URL of a path of a site."""
        scheme = "https" if site in SITES_OF_TLS else "http"
        return f"{scheme}://{host}:{self.ports[site]}{path}"

    @property
    def healthy_ports(self) -> set[int]:
        """The ports of the healthy origin."""
        return {self.ports["healthy"], self.ports["healthy-tls"]}

    def healthy_url(self, host: str = ADDRESS) -> str:
        """What healthy fetches ask for: 1 KB, over the scheme of the attack."""
        site = "healthy" if self.attack.scheme == "http" else "healthy-tls"
        return self.url(site, "/content?size=1024", host)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an attack did to one client.

    Attributes:
        overshoots: seconds past the deadline, by the title of the hold.
        phases: in which the deadlines struck, by title of the hold; only of clients that tell.
        endings: of holds that ended otherwise than by their deadline: how many, by what they said.
        latencies: seconds of each healthy fetch from the moment it was due, by stage.
        failures: of healthy fetches: how many, by what they said.
        before, after: the process, at rest.
        held: resident bytes with every hold open.
    """

    overshoots: dict[str, list[float]]
    phases: dict[str, dict[str, int]]
    endings: dict[str, int]
    latencies: dict[str, list[float]]
    failures: dict[str, int]
    before: Resources
    held: int
    after: Resources

    def to_json(self) -> str:
        """For the process that asked."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Outcome":
        """The reverse."""
        values = json.loads(text)
        resources = {name: Resources(**values[name]) for name in ("before", "after")}
        return cls(**values | resources)
