"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in HTML. All texts are escaped."""
    head = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def contents(name: str, of: dict[str, Any]) -> str:
    """The contents of an image."""
    rows = [
        (layer["name"], layer["cell"], f"{layer['input']} → {layer['output']}", f"{layer['macs']:,}")
        for layer in of["layers"]
    ]
    ram = sum(of[f"{part}_bytes"] for part in ("state", "scratch", "front_end", "detector"))
    memory = f"{of['flash_bytes']:,} bytes of flash, {ram:,} bytes of RAM"
    return table(f"{name}: {of['numeric']}, {memory}", ("layer", "cell", "size", "MACs"), rows)
