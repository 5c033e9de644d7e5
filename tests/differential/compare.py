"""What differs between two clusters and is not accepted."""

import json
import re

import normalise


def as_written(value):
    """A value as a rule may write it: without what the API server fills in, and lists of objects in any order."""
    if isinstance(value, dict):
        return {key: as_written(item) for key, item in value.items() if not (key == "apiVersion" and "fieldPath" in value)}
    if isinstance(value, list):
        items = [as_written(item) for item in value]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if all(isinstance(item, dict) for item in items) else items
    return value


def matches(rule, where, ours, theirs):
    """A rule's `where` is a place in which * stands for anything; brackets are plain text. `ours` and `theirs`,
    where it has them, are the only values that it is about."""
    pattern = ".*".join(map(re.escape, rule["where"].split("*")))
    return re.fullmatch(pattern, where, re.DOTALL) is not None and \
        all(as_written(rule[side]) == as_written(value)
            for side, value in (("ours", ours), ("theirs", theirs)) if side in rule)


def is_accepted(where, ours, theirs, accepted, used=None):
    """`used`, where given, gets the places of the rules that were needed."""
    rules = [rule for rule in accepted if matches(rule, where, ours, theirs)]
    if used is not None:
        used.update(rule["where"] for rule in rules)
    return bool(rules)


def differences(ours, theirs, accepted, both_only=False, used=None):
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
            if not is_accepted(where, a, b, accepted, used):
                yield where, a, b


def outcome_difference(ours, theirs, accepted, used=None):
    """The place and both values when one side is ready and the other is not."""
    if ours[0] == theirs[0]:
        return []
    where = f"outcome ours {ours[0]}, theirs {theirs[0]} {theirs[1] or ours[1]}"
    return [] if is_accepted(where, ours[0], theirs[0], accepted, used) else [(where, ours, theirs)]


def lines(found):
    for where, a, b in found:
        yield f"{where}\n      ours:   {a!r}\n      theirs: {b!r}"
