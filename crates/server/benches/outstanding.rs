//! Memory of a server with 1,000 connections and 10,000 requests of 64 KiB outstanding on a slow target.
//!
//! The last line on stdout is one JSON object.

use weir_testing::flood;

const CONNECTIONS: usize = 1_000;
const OUTSTANDING: usize = 10;
/// Slow enough that nearly all requests are sent before many are answered.
const RATE: &str = "100MB/s";

fn main() {
    // `cargo test` runs benchmarks too, without this flag, only to see that they are built.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let cluster = flood::slow_server(RATE);
    let flood = flood::run(&cluster, CONNECTIONS, OUTSTANDING);
    let mebibytes = flood.growth_kib as f64 / 1024.0;
    let requests = CONNECTIONS * OUTSTANDING;
    println!(
        "{CONNECTIONS} connections sent {OUTSTANDING} requests each, half writes and half reads of 64 KiB"
    );
    println!("target of {RATE}: all answered and checked after {:.1} s", flood.seconds);
    println!("requests that the server had in hand at once: {}", flood.outstanding_max);
    println!("payloads of the writes: {} MiB", requests / 2 * 64 / 1024);
    println!("resident memory of the server grew by {mebibytes:.0} MiB at its peak");
    println!("{{\"memory_mib_at_10000_requests\": {mebibytes:.1}}}");
}
