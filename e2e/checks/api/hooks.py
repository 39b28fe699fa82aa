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
