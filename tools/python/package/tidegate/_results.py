"""Results of listening and verifying."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import _plot, _table
from ._arrays import Floats


@dataclass(frozen=True)
class Event:
    """A detected label.

    >>> import tidegate
    >>> tidegate.Event(1.5, "yes", 0.9).label
    'yes'
    """

    seconds: float
    label: str
    score: float


@dataclass(frozen=True)
class Heard:
    """What a model hears in a sound: a row of posteriors for every decision, and the events.

    >>> import numpy as np, tidegate
    >>> heard = tidegate.Heard(["yes"], np.ones(1, "f4"), np.ones((1, 1), "f4"), [], 0.8, 2.0)
    >>> heard.posteriors.shape
    (1, 1)
    """

    labels: list[str]
    times: Floats
    """Time of each decision in seconds, `[n]`."""
    posteriors: Floats
    """`[n, classes]`"""
    events: list[Event]
    threshold: float | None
    seconds: float
    """Length of the sound."""

    def plot(self, axes: Any = None) -> Any:
        """Draws posteriors and events with matplotlib. Returns the axes.

        >>> import numpy as np, tidegate
        >>> heard = tidegate.Heard(["yes"], np.ones(1, "f4"), np.ones((1, 1), "f4"), [], 0.8, 2.0)
        >>> try:
        ...     drawn = heard.plot()
        ... except ImportError:
        ...     pass  # matplotlib is not installed
        """
        return _plot.posteriors(self, axes)

    def _repr_html_(self) -> str:
        rows = [(f"{event.seconds:.2f} s", event.label, f"{event.score:.3f}") for event in self.events]
        return _table.table(f"{self.seconds:.1f} s, {len(self.times)} decisions", ("time", "label", "score"), rows)


@dataclass(frozen=True)
class Verification:
    """Differences of an image from its model in f32. A ratio of `None` stands for equal values.

    >>> import tidegate
    >>> tidegate.Verification(0.0, None, 1, [], []).snr_db is None
    True
    """

    max_abs_error: float
    snr_db: float | None
    steps: int
    layers: list[dict[str, Any]]
    states: list[dict[str, Any]]
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict, repr=False)
    """For each value, points of a step and the signal-to-noise ratio around it in dB."""

    def plot(self, axes: Any = None) -> Any:
        """Draws the signal-to-noise ratios over the steps with matplotlib: whether errors accumulate. Returns the axes.

        >>> import tidegate
        >>> try:
        ...     drawn = tidegate.Verification(0.0, None, 1, [], [], {"output": [(1, 40)]}).plot()
        ... except ImportError:
        ...     pass  # matplotlib is not installed
        """
        return _plot.drift(self, axes)

    def _repr_html_(self) -> str:
        output = {"name": "output", "max_abs_error": self.max_abs_error, "snr_db": self.snr_db}
        rows = [
            (of["name"], f"{of['max_abs_error']:.3e}", "equal" if of["snr_db"] is None else f"{of['snr_db']:.1f} dB")
            for of in [*self.layers, *self.states, output]
        ]
        return _table.table(f"{self.steps} steps", ("value", "worst error", "signal to noise"), rows)
