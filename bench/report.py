"""How results are told: a line a measurement, and a ratio with what it should be."""


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def line(name: str, value: object) -> None:
    print(f"  {name:<46} {value}", flush=True)


def ratio(name: str, value: float, *, at_least: float | None = None, at_most: float | None = None) -> None:
    """Tell a ratio, and whether it keeps its promise."""
    if at_least is not None:
        verdict = f"{'ok' if value >= at_least else 'MISSED'}, at least {at_least:g}"
    else:
        verdict = f"{'ok' if value <= (at_most or 0) else 'MISSED'}, at most {at_most:g}"
    line(name, f"{value:10.2f}   ({verdict})")
