//! Sizes, rates and times as users write them in cluster.toml, in topologies and in scenarios.

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

/// Bytes a second, such as `200MB/s`. Prefixes count in 1,000, as vendors state speeds, unless written `200MiB/s`.
///
/// # Errors
/// The text is not a rate above 0; the error says what is.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let size = text.trim();
    let size = size.strip_suffix("/s").unwrap_or(size);
    let rate = parse_size::Config::new().with_decimal().parse_size(size.as_bytes()).ok();
    rate.filter(|&rate| rate > 0).ok_or_else(|| format!("\"{text}\" is not a rate above 0; try \"200MB/s\""))
}

/// A time, such as `100us` or `1h 30m`.
///
/// # Errors
/// The text is not a time; the error says what is.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim())
        .map_err(|error| format!("\"{text}\" is not a time ({error}); try \"100us\" or \"2s\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_their_units() {
        assert_eq!(parse_size("4GiB"), Ok(4 << 30));
        assert_eq!(parse_size(" 64k "), Ok(64 << 10));
        assert_eq!(parse_rate("10GB/s"), Ok(10_000_000_000));
        assert_eq!(parse_rate("1MiB/s"), Ok(1 << 20));
        assert_eq!(parse_time("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(parse_time("1m 30s"), Ok(Duration::from_secs(90)));
        assert!(parse_size("much").unwrap_err().contains("try \"64k\""));
        assert!(parse_rate("0").unwrap_err().contains("above 0"));
        assert!(parse_time("soon").unwrap_err().contains("try \"100us\""));
    }
}
