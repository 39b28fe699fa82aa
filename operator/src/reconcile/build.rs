//! From a validated stack to its child objects. Pure: no client, clock, environment or random source.
