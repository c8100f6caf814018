//! A topology as TOML: groups of alike servers, each with groups of alike targets.

use super::DescriptionError;
use crate::topology::{
    Clients, Fullness, Hop, RouterStage, Server, Side, Target, Topology, Transfer, TARGETS_OF_SERVER_MAX,
};
use serde::{Deserialize, Deserializer};
use std::ops::RangeInclusive;
use toml::Spanned;
use weir_device::{parse_rate, parse_size, parse_time};
use weir_fairshare::parse_fraction;
use weir_placement::LayoutSpecification;

/// Machines of one kind: the identifiers of servers have 16 bits.
const COUNT_MAX: u32 = u16::MAX as u32;
/// Targets of all servers: the answer holds a series for each, so a mistyped count must not take the memory.
const TARGETS_MAX: u64 = 1 << 20;
/// Client nodes: each has a link of its own.
const NODES_MAX: u32 = 1 << 24;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopologyText {
    name: Option<String>,
    layout: Option<Spanned<String>>,
    clients: Spanned<ClientsText>,
    #[serde(default)]
    routers: Vec<RouterText>,
    #[serde(default)]
    servers: Vec<Spanned<ServerText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientsText {
    nodes: Spanned<u32>,
    link: HopText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HopText {
    rate: Rate,
    #[serde(default)]
    latency: Seconds,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouterText {
    name: String,
    count: Spanned<u32>,
    side: Side,
    link: HopText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerText {
    count: Option<Spanned<u32>>,
    link: HopText,
    processor: Option<Rate>,
    #[serde(default)]
    metadata: Seconds,
    #[serde(default)]
    targets: Vec<Spanned<TargetText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetText {
    count: Option<Spanned<u32>>,
    #[serde(default)]
    class: String,
    capacity: Spanned<Size>,
    used: Option<Spanned<Size>>,
    read: TransferText,
    write: TransferText,
    seek_penalty: Option<Spanned<f64>>,
    seek_floor: Option<Spanned<f64>>,
    #[serde(default)]
    fullness: Vec<Spanned<FullnessText>>,
}

/// A rate alone, or with the time of each request.
struct TransferText {
    rate: Rate,
    fixed: Seconds,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FullnessText {
    used: Fraction,
    rate: Fraction,
}

#[derive(Clone, Copy)]
struct Size(u64);
#[derive(Clone, Copy)]
struct Rate(f64);
#[derive(Clone, Copy, Default)]
struct Seconds(f64);
#[derive(Clone, Copy)]
struct Fraction(f64);

/// Reads a topology.
///
/// # Errors
/// The fault with its line and key.
pub fn parse_topology(text: &str) -> Result<Topology, DescriptionError> {
    let described: TopologyText = toml::from_str(text).map_err(|error| {
        let message = error.message().replace('\n', " ");
        match error.span() {
            Some(span) => DescriptionError::at(text, span.start, message),
            None => DescriptionError { line: None, key: None, message },
        }
    })?;
    Reader { text }.topology(described)
}

/// Makes the topology of its text; the text gives faults their lines.
struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn topology(&self, described: TopologyText) -> Result<Topology, DescriptionError> {
        let nodes = self.whole(&described.clients.get_ref().nodes, 1..=NODES_MAX)?;
        let clients = Clients { nodes, link: hop(&described.clients.get_ref().link) };
        let routers = described.routers.iter().map(|stage| self.routers(stage)).collect::<Result<_, _>>()?;
        let mut servers = Vec::new();
        for group in &described.servers {
            let (count, server) = self.servers(group)?;
            let targets = (servers.len() as u64 + u64::from(count)) * server.targets.len() as u64;
            if servers.len() + count as usize > COUNT_MAX as usize || targets > TARGETS_MAX {
                let message = format!("a topology has at most {COUNT_MAX} servers and {TARGETS_MAX} targets");
                return Err(DescriptionError::at(self.text, group.span().start, message));
            }
            servers.extend(std::iter::repeat_n(server, count as usize));
        }
        if servers.iter().all(|server: &Server| server.targets.is_empty()) {
            let message = "the topology has no targets; give [[servers]] with [[servers.targets]]".to_owned();
            return Err(match described.servers.first() {
                Some(group) => DescriptionError::at(self.text, group.span().start, message),
                None => DescriptionError { line: None, key: Some("servers".into()), message },
            });
        }
        let layout = described.layout.as_ref().map(|layout| self.layout(layout)).transpose()?;
        let name = described.name.unwrap_or_else(|| "unnamed".into());
        Ok(Topology { name, layout, clients, routers, servers })
    }

    fn layout(&self, described: &Spanned<String>) -> Result<String, DescriptionError> {
        let text = described.get_ref();
        match text.parse::<LayoutSpecification>() {
            Ok(_) => Ok(text.clone()),
            Err(error) => Err(self.fault(described, error.to_string())),
        }
    }

    fn routers(&self, stage: &RouterText) -> Result<RouterStage, DescriptionError> {
        let count = self.whole(&stage.count, 1..=COUNT_MAX)?;
        Ok(RouterStage { name: stage.name.clone(), count, link: hop(&stage.link), side: stage.side })
    }

    fn servers(&self, group: &Spanned<ServerText>) -> Result<(u32, Server), DescriptionError> {
        let described = group.get_ref();
        let count = self.count(described.count.as_ref())?;
        let mut targets = Vec::new();
        for alike in &described.targets {
            let (count, target) = self.targets(alike.get_ref())?;
            if targets.len() + count as usize > TARGETS_OF_SERVER_MAX {
                let message =
                    format!("a server has at most {TARGETS_OF_SERVER_MAX} targets; give more servers");
                return Err(DescriptionError::at(self.text, alike.span().start, message));
            }
            targets.extend(std::iter::repeat_n(target, count as usize));
        }
        let server = Server {
            link: hop(&described.link),
            processor_bytes_per_second: described.processor.map(|rate| rate.0),
            metadata_seconds: described.metadata.0,
            targets,
        };
        Ok((count, server))
    }

    fn targets(&self, described: &TargetText) -> Result<(u32, Target), DescriptionError> {
        let capacity_bytes = described.capacity.get_ref().0;
        if capacity_bytes == 0 {
            return Err(self.fault(&described.capacity, "a target holds at least one byte, such as \"4GiB\""));
        }
        let used_bytes = described.used.as_ref().map_or(0, |used| used.get_ref().0);
        if let Some(used) = described.used.as_ref().filter(|used| used.get_ref().0 > capacity_bytes) {
            return Err(self.fault(used, format!("more is used than the {capacity_bytes} bytes of capacity")));
        }
        let target = Target {
            class: described.class.clone(),
            capacity_bytes,
            used_bytes,
            read: described.read.transfer(),
            write: described.write.transfer(),
            seek_penalty: self.number(described.seek_penalty.as_ref(), 0.0, 0.0..=1e6)?,
            seek_floor: self.number(described.seek_floor.as_ref(), 1.0, 1e-6..=1.0)?,
            fullness: self.fullness(&described.fullness)?,
        };
        Ok((self.count(described.count.as_ref())?, target))
    }

    fn fullness(&self, points: &[Spanned<FullnessText>]) -> Result<Vec<Fullness>, DescriptionError> {
        let mut curve: Vec<Fullness> = Vec::new();
        for point in points {
            let FullnessText { used: Fraction(used), rate: Fraction(rate) } = *point.get_ref();
            if rate <= 0.0 {
                return Err(self.fault(point, "the rate that is left is above 0 and at most 1"));
            }
            if curve.last().is_some_and(|last| last.used >= used) {
                return Err(self.fault(point, "the points of fullness stand in the order of `used`"));
            }
            curve.push(Fullness { used, rate });
        }
        Ok(curve)
    }

    fn count(&self, count: Option<&Spanned<u32>>) -> Result<u32, DescriptionError> {
        count.map_or(Ok(1), |count| self.whole(count, 1..=COUNT_MAX))
    }

    fn whole(&self, found: &Spanned<u32>, allowed: RangeInclusive<u32>) -> Result<u32, DescriptionError> {
        let value = *found.get_ref();
        if allowed.contains(&value) {
            return Ok(value);
        }
        Err(self.fault(found, format!("{value} is not from {} to {}", allowed.start(), allowed.end())))
    }

    fn number(
        &self,
        found: Option<&Spanned<f64>>,
        default: f64,
        allowed: RangeInclusive<f64>,
    ) -> Result<f64, DescriptionError> {
        match found {
            None => Ok(default),
            Some(value) if allowed.contains(value.get_ref()) => Ok(*value.get_ref()),
            Some(value) => {
                let message =
                    format!("{} is not from {} to {}", value.get_ref(), allowed.start(), allowed.end());
                Err(self.fault(value, message))
            }
        }
    }

    fn fault<T>(&self, value: &Spanned<T>, message: impl Into<String>) -> DescriptionError {
        DescriptionError::at(self.text, value.span().start, message)
    }
}

impl TransferText {
    fn transfer(&self) -> Transfer {
        Transfer { bytes_per_second: self.rate.0, fixed_seconds: self.fixed.0 }
    }
}

fn hop(described: &HopText) -> Hop {
    Hop { bytes_per_second: described.rate.0, latency_seconds: described.latency.0 }
}

/// A quantity is a number in its base unit, or a text with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum Quantity {
    Whole(u64),
    Number(f64),
    Text(String),
}

impl Quantity {
    fn number(
        self,
        what: &str,
        of_text: impl FnOnce(&str) -> Result<f64, String>,
        is_allowed: impl FnOnce(f64) -> bool,
    ) -> Result<f64, String> {
        let number = match self {
            Quantity::Whole(number) => number as f64,
            Quantity::Number(number) => number,
            Quantity::Text(text) => return of_text(&text),
        };
        if number.is_finite() && is_allowed(number) {
            Ok(number)
        } else {
            Err(format!("{number} is not {what}"))
        }
    }
}

fn rate_of(text: &str) -> Result<f64, String> {
    parse_rate(text).map(|rate| rate as f64)
}

fn seconds_of(text: &str) -> Result<f64, String> {
    parse_time(text).map(|time| time.as_secs_f64())
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        match Quantity::deserialize(deserializer)? {
            Quantity::Whole(bytes) => Ok(bytes),
            Quantity::Number(number) => Err(format!("{number} is not a whole number of bytes")),
            Quantity::Text(text) => parse_size(&text),
        }
        .map(Size)
        .map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        let what = "a rate above 0; try \"200MB/s\"";
        let found = Quantity::deserialize(deserializer)?.number(what, rate_of, |rate| rate > 0.0);
        found.map(Rate).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seconds, D::Error> {
        let what = "a time; try \"100us\"";
        let found = Quantity::deserialize(deserializer)?.number(what, seconds_of, |seconds| seconds >= 0.0);
        found.map(Seconds).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fraction, D::Error> {
        let what = "a fraction; try 0.2 or \"20%\"";
        let found = Quantity::deserialize(deserializer)?
            .number(what, parse_fraction, |part| (0.0..=1.0).contains(&part));
        found.map(Fraction).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for TransferText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TransferText, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Whole {
            rate: Rate,
            #[serde(default)]
            fixed: Seconds,
        }
        struct Forms;
        impl<'de> serde::de::Visitor<'de> for Forms {
            type Value = TransferText;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter
                    .write_str("a rate such as \"200MB/s\", or { rate = \"200MB/s\", fixed = \"100us\" }")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<TransferText, E> {
                let rate = rate_of(text).map_err(E::custom)?;
                Ok(TransferText { rate: Rate(rate), fixed: Seconds(0.0) })
            }
            fn visit_i64<E: serde::de::Error>(self, rate: i64) -> Result<TransferText, E> {
                self.visit_f64(rate as f64)
            }
            fn visit_f64<E: serde::de::Error>(self, rate: f64) -> Result<TransferText, E> {
                if rate.is_finite() && rate > 0.0 {
                    return Ok(TransferText { rate: Rate(rate), fixed: Seconds(0.0) });
                }
                Err(E::custom(format!("{rate} is not a rate above 0; try \"200MB/s\"")))
            }
            fn visit_map<M: serde::de::MapAccess<'de>>(self, map: M) -> Result<TransferText, M::Error> {
                let whole = Whole::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                Ok(TransferText { rate: whole.rate, fixed: whole.fixed })
            }
        }
        deserializer.deserialize_any(Forms)
    }
}

#[cfg(test)]
mod tests;
