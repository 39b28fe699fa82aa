//! Conversion of Kubernetes quantities to numbers.

/// Returns the number of bytes in a quantity such as `128Mi` or `1.5G`, rounded up. Returns `None` if it is not a
/// quantity, is negative, or exceeds 2^62.
pub fn bytes(quantity: &str) -> Option<u64> {
    let bytes = amount(quantity)?.ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    (0.0..=2_f64.powi(62))
        .contains(&bytes)
        .then_some(bytes as u64)
}

/// Returns true when two quantities are the same amount, as `0.5` and `500m` are.
pub fn is_same(one: &str, other: &str) -> bool {
    match (amount(one), amount(other)) {
        (Some(one), Some(other)) => (one - other).abs() <= one.abs() * 1e-9,
        _ => false,
    }
}

/// Returns true when a quantity is more than another one.
pub fn is_larger(one: &str, other: &str) -> bool {
    amount(one) > amount(other) && !is_same(one, other)
}

fn amount(quantity: &str) -> Option<f64> {
    let end = quantity
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')))
        .unwrap_or(quantity.len());
    let (number, suffix) = quantity.split_at(end);
    let factor: f64 = match suffix {
        "" => 1.0,
        "Ki" => 2_f64.powi(10),
        "Mi" => 2_f64.powi(20),
        "Gi" => 2_f64.powi(30),
        "Ti" => 2_f64.powi(40),
        "Pi" => 2_f64.powi(50),
        "Ei" => 2_f64.powi(60),
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        exponent => {
            let digits = exponent.strip_prefix(['e', 'E'])?;
            10_f64.powi(digits.parse().ok()?)
        }
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_become_bytes() {
        let table = [
            ("128Mi", Some(134_217_728)),
            ("1.5Gi", Some(1_610_612_736)),
            ("256M", Some(256_000_000)),
            ("1e9", Some(1_000_000_000)),
            ("1E3", Some(1000)),
            ("2E", Some(2_000_000_000_000_000_000)),
            ("1500m", Some(2)),
            ("8388608", Some(8_388_608)),
            ("0", Some(0)),
            ("-1", None),
            ("99Ei", None),
            ("lots", None),
            ("", None),
        ];
        for (quantity, expected) in table {
            assert_eq!(bytes(quantity), expected, "{quantity}");
        }
    }
    #[test]
    fn one_amount_can_be_written_in_many_ways() {
        assert!(is_same("0.5", "500m") && is_same("1Gi", "1024Mi") && is_same("0", "0m"));
        assert!(!is_same("1Gi", "1G") && !is_same("1", "one") && !is_same("lots", "lots"));
    }
}
