//! What a client accepts (RFC 9110, section 12.5.1).

/// Returns the quality of a media type for a client from 0 to 1, and how closely the client names it: 3 if it names the
/// type, 2 if it names the kind, 1 if it accepts anything, and 0 if no range covers the type. The closest range counts.
pub fn quality(accept: &str, kind: &str, subtype: &str) -> (f32, u8) {
    let mut best = (0.0, 0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().and_then(|name| name.split_once('/'));
        let closeness = match name {
            Some(("*", "*")) => 1,
            Some((found, of)) if found.eq_ignore_ascii_case(kind) => match of {
                "*" => 2,
                of if of.eq_ignore_ascii_case(subtype) => 3,
                _ => continue,
            },
            _ => continue,
        };
        if closeness > best.1 {
            let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
            let weight: f32 = weight.map_or(Ok(1.0), str::parse).unwrap_or(0.0);
            best = (weight.clamp(0.0, 1.0), closeness);
        }
    }
    best
}
