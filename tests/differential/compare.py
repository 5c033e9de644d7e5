"""What differs between two clusters and is not accepted."""

import re

import normalise


def is_accepted(where, accepted):
    """A rule's `where` is a place in which * stands for anything; brackets are plain text."""
    return any(re.fullmatch(".*".join(map(re.escape, rule["where"].split("*"))), where, re.DOTALL)
               for rule in accepted)


def differences(ours, theirs, accepted, both_only=False):
    """Pairs of a place ("Kind/name path") and both values. `both_only`: objects that one side lacks do not
    count: an operator that has stopped at a mistake has not made the rest."""
    for name in sorted(set(ours) | set(theirs)):
        if name in ours and name in theirs:
            found = normalise.differences(ours[name], theirs[name])
        elif both_only:
            continue
        else:
            found = [("", "present" if name in ours else "missing", "present" if name in theirs else "missing")]
        for path, a, b in found:
            where = f"{name} {path}".strip()
            if not is_accepted(where, accepted):
                yield where, a, b


def outcome_difference(ours, theirs, accepted):
    """The place and both values when one side is ready and the other is not."""
    if ours[0] == theirs[0]:
        return []
    where = f"outcome ours {ours[0]}, theirs {theirs[0]} {theirs[1] or ours[1]}"
    return [] if is_accepted(where, accepted) else [(where, ours, theirs)]


def lines(found):
    for where, a, b in found:
        yield f"{where}\n      ours:   {a!r}\n      theirs: {b!r}"
