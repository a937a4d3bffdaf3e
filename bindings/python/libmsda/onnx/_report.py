"""What rewrite() did to a model."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Replaced:
    """An instance that is a node of domain msda now."""

    node: str
    was: str
    levels: tuple[tuple[int, int], ...]
    points: tuple[int, ...]

    def __str__(self) -> str:
        sizes = " ".join(f"{h}x{w}" for h, w in self.levels)
        return f"{self.node}: was {self.was}; levels {sizes}; points {' '.join(map(str, self.points))}"


@dataclasses.dataclass(frozen=True)
class Left:
    """A node that stays as it is, and why."""

    node: str
    operator: str
    reason: str

    def __str__(self) -> str:
        return f"{self.node} ({self.operator}): {self.reason}"


@dataclasses.dataclass
class Report:
    """What was found in a model: `replaced`, and what was `left`."""

    replaced: list[Replaced] = dataclasses.field(default_factory=list)
    left: list[Left] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{len(self.replaced)} replaced, {len(self.left)} left"]
        lines += [f"  replaced {one}" for one in self.replaced] + [f"  left {one}" for one in self.left]
        return "\n".join(lines)
