"""Plots with matplotlib, which is optional."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._results import Heard, Verification


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'tidegate[plot]'") from error
    return pyplot.subplots(figsize=(10, 3), layout="constrained")[1]


def posteriors(heard: Heard, axes: Any) -> Any:
    """A line for each label, the threshold, and a mark for each event."""
    axes = _axes(axes)
    for label, row in zip(heard.labels, heard.posteriors.T, strict=True):
        axes.plot(heard.times, row, label=label, linewidth=1)
    if heard.threshold is not None:
        axes.axhline(heard.threshold, color="gray", linestyle="--", linewidth=1)
    for event in heard.events:
        axes.axvline(event.seconds, color="gray", linewidth=0.5)
        axes.annotate(event.label, (event.seconds, 1.0), rotation=90, va="top", ha="right", fontsize=8)
    axes.set(xlabel="seconds", ylabel="posterior", xlim=(0, heard.seconds), ylim=(0, 1))
    axes.legend(fontsize=7, ncols=2)
    return axes


def drift(verification: Verification, axes: Any) -> Any:
    """A line for each layer, each cell state and the output."""
    axes = _axes(axes)
    for name, points in verification.curves.items():
        axes.plot([step for step, _ in points], [ratio for _, ratio in points], label=name, linewidth=1)
    axes.set(xlabel="steps", ylabel="signal to noise, dB")
    axes.legend(fontsize=7)
    return axes
