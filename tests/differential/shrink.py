"""Makes a failing policy small: fields are taken away as long as the same places differ."""


def smaller(value):
    """Variants of a value with one thing less, the biggest steps first."""
    if isinstance(value, dict):
        for key in value:
            yield {k: v for k, v in value.items() if k != key}
        for key, member in value.items():
            for less in smaller(member):
                yield value | {key: less}
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value[:index] + value[index + 1:]
            for less in smaller(item):
                yield value[:index] + [less] + value[index + 1:]


def shrink(spec, required, still_fails, limit):
    """The smallest spec that `still_fails` says yes to, after at most `limit` trials. `required` members
    of the spec are emptied, not taken away."""
    trials = 0
    progress = True
    while progress:
        progress = False
        for candidate in smaller(spec):
            candidate = {name: {} for name in required} | candidate
            if candidate == spec:
                continue
            if trials == limit:
                return spec
            trials += 1
            if still_fails(candidate):
                spec = candidate
                progress = True
                break
    return spec
