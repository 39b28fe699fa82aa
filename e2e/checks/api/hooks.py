"""Values for formats whose rules no schema can express."""

from datetime import datetime, timedelta, timezone

import schemathesis
from hypothesis import strategies

# The rules for destinations are those of URL parsers. Hosts of other kinds are tested by the app's own tests.
destinations = strategies.from_regex(r"https?://[a-z]{1,20}\.example(/[A-Za-z0-9?&=._~-]{0,60})?", fullmatch=True)
schemathesis.openapi.format("url", destinations)

# Links end between a minute and five years from now.
now = datetime.now(timezone.utc).replace(microsecond=0)
ends = strategies.integers(min_value=1, max_value=1800).map(
    lambda days: (now + timedelta(days=days)).isoformat().replace("+00:00", "Z")
)
schemathesis.openapi.format("date-time", ends)


# One link is one line, and a file with one line.
schemathesis.serializer.alias("application/x-ndjson", "application/json")


@schemathesis.hook
def before_call(context, case, kwargs):
    """Renews the expiry that a sequence of requests took from an earlier answer, because it may have passed, gives a zero
    vector a length, because the metric decides whether it has to have one, and transfers links to another client."""
    if not isinstance(case.body, dict):
        return
    if has_passed(case.body.get("expires_at")):
        case.body["expires_at"] = (now + timedelta(days=1)).isoformat().replace("+00:00", "Z")
    if is_zero(case.body.get("vector")):
        case.body["vector"][0] = 1
    if "from" in case.body and case.body.get("to") == case.body["from"]:
        case.body["to"] = "another-client"


def is_zero(vector):
    """Returns true for a list of numbers that are all zero in single precision."""
    if not isinstance(vector, list) or not vector:
        return False
    return all(isinstance(value, (int, float)) and abs(value) < 1e-45 for value in vector)


def has_passed(time):
    try:
        return datetime.fromisoformat(time) < now + timedelta(hours=1)
    except (TypeError, ValueError):
        return False
