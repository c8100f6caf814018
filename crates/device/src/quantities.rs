//! Sizes, rates and times as users write them in cluster.toml, in topologies and in scenarios.

use std::time::Duration;

/// A number of bytes, such as `4GiB`, `4GB` or `64k`: `GiB` counts in 1,024 and `GB` in 1,000, as written, and a prefix alone in 1,024,
/// as in Slurm and Lustre.
///
/// # Errors
/// The text is not a size; the error says what is.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let size = text.trim();
    let units = parse_size::Config::new();
    // The decimal reader takes `GiB` as it is written, too.
    let units = if size.ends_with(['b', 'B']) { units.with_decimal() } else { units.with_binary() };
    units
        .parse_size(size.as_bytes())
        .map_err(|error| format!("\"{text}\" is not a size ({error}); try \"64k\" or \"1MiB\""))
}

/// Bytes a second, such as `200MB/s`: a size by [`parse_size`], and `/s`, which may be left out.
///
/// # Errors
/// The text is not a rate above 0; the error says what is.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let rate = text.trim();
    let rate = parse_size(rate.strip_suffix("/s").unwrap_or(rate)).ok();
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

    /// A unit means the same in a size and in a rate.
    #[test]
    fn a_unit_counts_as_it_is_written() {
        let of = |base: u64| (1..).map(move |power| base.pow(power));
        for ((prefix, decimal), binary) in ["k", "M", "G", "T", "P", "E"].iter().zip(of(1000)).zip(of(1024)) {
            let spelled = [
                (format!("3{prefix}B"), decimal),
                (format!("3{prefix}iB"), binary),
                (format!("3{prefix}"), binary),
                (format!(" 3.0 {} ", prefix.to_lowercase()), binary),
                (format!("3 {}b", prefix.to_lowercase()), decimal),
            ];
            for (text, unit) in spelled {
                assert_eq!(parse_size(&text), Ok(3 * unit), "{text}");
                assert_eq!(parse_rate(&text), Ok(3 * unit), "{text}");
                assert_eq!(parse_rate(&format!("{}/s", text.trim())), Ok(3 * unit), "{text}/s");
            }
        }
        assert_eq!((parse_size("7"), parse_size("7B"), parse_rate("7B/s")), (Ok(7), Ok(7), Ok(7)));
    }

    #[test]
    fn quantities_have_their_units() {
        assert_eq!(parse_size("4GiB"), Ok(4 << 30));
        assert_eq!(parse_time("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(parse_time("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!((parse_size("900GB"), parse_size("900 GiB")), (Ok(900 * 10_u64.pow(9)), Ok(900 << 30)));
        assert!(parse_size("much").unwrap_err().contains("try \"64k\""));
        assert!(parse_rate("0").unwrap_err().contains("above 0"));
        assert!(parse_time("soon").unwrap_err().contains("try \"100us\""));
    }
}
