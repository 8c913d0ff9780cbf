"""What Prometheus would read: the samples of an answer, by name and labels."""

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]


class Samples(dict[tuple[str, Labels], float]):
    """Every sample of one answer."""

    def __init__(self, text: str) -> None:
        families = text_string_to_metric_families(text)
        super().__init__(
            {(each.name, frozenset(each.labels.items())): each.value for found in families for each in found.samples}
        )

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples of this name that have these labels."""
        return sum(
            value for (found, has), value in self.items() if found == name and labels.items() <= dict(has).items()
        )

    def names(self) -> set[str]:
        return {name for name, _ in self}
