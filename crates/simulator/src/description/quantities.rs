//! Sizes, rates, times and fractions as users write them, in the spelling of cluster.toml.

use std::time::Duration;

/// A number of bytes, such as `4GiB` or `64k`; prefixes count in 1,024.
///
/// # Errors
/// The text is not a size; the error says what is.
pub fn parse_size(text: &str) -> Result<u64, String> {
    parse_size::Config::new()
        .with_binary()
        .parse_size(text.trim().as_bytes())
        .map_err(|error| format!("\"{text}\" is not a size ({error}); try \"64k\" or \"1MiB\""))
}

/// Bytes a second, such as `200MB/s`; prefixes count in 1,000 unless written `200MiB/s`.
///
/// # Errors
/// The text is not a rate above 0; the error says what is.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let size = text.trim();
    let size = size.strip_suffix("/s").unwrap_or(size);
    let rate = parse_size::Config::new().with_decimal().parse_size(size.as_bytes()).ok();
    rate.filter(|&rate| rate > 0)
        .map(|rate| rate as f64)
        .ok_or_else(|| format!("\"{text}\" is not a rate above 0; try \"200MB/s\""))
}

/// Seconds, from a text such as `100us` or `1h 30m`.
///
/// # Errors
/// The text is not a time; the error says what is.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    humantime::parse_duration(text.trim())
        .as_ref()
        .map(Duration::as_secs_f64)
        .map_err(|error| format!("\"{text}\" is not a time ({error}); try \"100us\" or \"2s\""))
}

/// A part of the whole, from a text such as `20%`.
///
/// # Errors
/// The text is not a part of the whole; the error says what is.
pub fn parse_fraction(text: &str) -> Result<f64, String> {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    percent
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("\"{text}\" is not a fraction; try 0.2 or \"20%\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_spelled_as_in_a_cluster_file() {
        assert_eq!(parse_size("4GiB"), Ok(4 << 30));
        assert_eq!(parse_size("64k"), Ok(64 << 10));
        assert_eq!(parse_rate("10GB/s"), Ok(1e10));
        assert_eq!(parse_rate("1MiB/s"), Ok(1_048_576.0));
        assert_eq!(parse_seconds("100us"), Ok(1e-4));
        assert_eq!(parse_seconds("1m 30s"), Ok(90.0));
        assert_eq!(parse_fraction("20%"), Ok(0.2));
        assert!(parse_size("much").unwrap_err().contains("try \"64k\""));
        assert!(parse_rate("0").unwrap_err().contains("above 0"));
        assert!(parse_seconds("soon").unwrap_err().contains("try \"100us\""));
        assert!(parse_fraction("120%").unwrap_err().contains("not a fraction"));
    }
}
