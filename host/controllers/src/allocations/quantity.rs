//! Kubernetes quantities as numbers: `4`, `100m`, `16Gi`, `1e3`. Compared exactly, as Kubernetes does.

/// Most digits that a quantity may have; more would say nothing.
const MAX_DIGITS: usize = 27;
/// A quantity is kept in units of 10⁻⁹, the finest that Kubernetes knows.
const SCALE: i32 = 9;

/// A quantity, in billionths. What is too large to be kept is the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity(i128);

impl Quantity {
    /// Parses Kubernetes' notation; none for anything else. Digits beyond the ninth decimal are rounded up.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, number) = match text.strip_prefix('-') {
            Some(number) => (true, number),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
        let (digits, suffix) = number.split_at(end);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = format!("{whole}{fraction}");
        if all.is_empty() || all.len() > MAX_DIGITS || fraction.contains('.') {
            return None;
        }
        let (factor, exponent) = factor(suffix)?;
        let mantissa = all.parse::<i128>().ok()?.saturating_mul(factor);
        let shift = SCALE + exponent - i32::try_from(fraction.len()).ok()?;
        let value = shifted(mantissa, shift);
        Some(Self(if negative { -value } else { value }))
    }
}

/// What a suffix multiplies by: a factor, and a power of ten.
fn factor(suffix: &str) -> Option<(i128, i32)> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(step) = BINARY.iter().position(|binary| *binary == suffix) {
        return Some((1 << (10 * (step + 1)), 0));
    }
    let exponent = match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "" => 0,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        other => other.strip_prefix(['e', 'E'])?.parse::<i32>().ok().filter(|e| (-999..=999).contains(e))?,
    };
    Some((1, exponent))
}

/// `value` times ten to the power of `shift`, rounded up.
fn shifted(value: i128, shift: i32) -> i128 {
    let power = 10_i128.checked_pow(shift.unsigned_abs());
    match (shift >= 0, power) {
        (true, Some(power)) => value.saturating_mul(power),
        (true, None) => {
            if value == 0 {
                0
            } else {
                i128::MAX
            }
        }
        (false, Some(power)) => value / power + i128::from(value % power != 0),
        (false, None) => i128::from(value != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|| panic!("{text} is a quantity"))
    }

    #[test]
    fn quantities_are_compared_as_numbers_and_not_as_texts() {
        for (small, large) in [
            ("9", "10"),
            ("999m", "1"),
            ("1500m", "2"),
            ("16G", "16Gi"),
            ("1023Mi", "1Gi"),
            ("1.5Gi", "1537Mi"),
            ("1e3", "1001"),
            ("64", "1k"),
            ("-1", "0"),
            ("8Ei", "1e99"),
        ] {
            assert!(quantity(small) < quantity(large), "{small} < {large}");
        }
        for (one, same) in
            [("1", "1000m"), ("1Gi", "1024Mi"), (".5", "500m"), ("5.", "5"), ("1e3", "1k"), ("1E", "1e18")]
        {
            assert_eq!(quantity(one), quantity(same), "{one} = {same}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_none() {
        for bad in ["", ".", "-", "4 ", "4cpu", "1.2.3", "Gi", "1K", "1gi", "1e", "0x10", "one"] {
            assert_eq!(Quantity::parse(bad), None, "{bad}");
        }
    }
}
