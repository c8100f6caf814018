//! Several requests at once: all are sent, then all replies are taken.

use crate::connect::{prepare, Unreached};
use crate::exchange::{again_if_unknown, call, lease, succeeded, wait_for_any, Call, Exchange, Progress};
use crate::pool::{Lease, Link};
use crate::session::Environment;
use crate::transfer::Sink;
use crate::{Caller, ClientError, Result};
use weir_session::{Delivery, Tries};
use weir_wire::Reply;

/// Longest `poll` list: the calls of one round over all lanes of a usual number of servers.
const POLLED: usize = 64;

/// Sends all requests, then takes all replies. The answers have the order of the calls.
///
/// Only the first call of a round waits for a busy lane, so that no thread holds one slot and waits for another.
pub(crate) fn call_all(
    environment: Environment<'_>,
    caller: &Caller,
    calls: &mut [Call<'_, '_>],
) -> Vec<Result<(Reply, usize)>> {
    if let [one] = calls {
        let empty = Call {
            server: one.server,
            lane: one.lane,
            message: one.message,
            payload: one.payload,
            sink: std::mem::replace(&mut one.sink, Sink::None),
        };
        return vec![call(environment, caller, empty)];
    }
    let mut answers: Vec<Option<Result<(Reply, usize)>>> = calls.iter().map(|_| None).collect();
    let mut tries = Tries::new(environment.bounds());
    while answers.iter().any(Option::is_none) {
        round(environment, caller, calls, &mut answers, &mut tries);
        tries.go_round();
    }
    let lost = || Err(ClientError::number(libc::EIO));
    let answers = answers.into_iter().map(|answer| answer.unwrap_or_else(lost));
    answers.zip(calls).map(|(answer, one)| again_if_unknown(environment, caller, one, answer)).collect()
}

/// Connects a slot. Answers false where the next round tries the server again.
fn try_in_turn(
    environment: Environment<'_>,
    link: &Link,
    lease: &mut Lease<'_>,
    caller: &Caller,
    tries: &mut Tries,
) -> Result<bool> {
    let began = environment.now();
    match prepare(environment, link, lease, caller, tries.approach(&link.standing, began)) {
        Ok(()) => Ok(true),
        Err(Unreached::Final(error)) => Err(error),
        Err(Unreached::Yet(waited)) => {
            if tries.unreached(&link.standing, (began, environment.now()), waited) {
                return Ok(false);
            }
            Err(environment.lose(link, waited))
        }
    }
}

/// One round of [`call_all`]: begins each call that finds a slot and reaches its server, and finishes these calls.
fn round(
    environment: Environment<'_>,
    caller: &Caller,
    calls: &mut [Call<'_, '_>],
    answers: &mut [Option<Result<(Reply, usize)>>],
    tries: &mut Tries,
) {
    let mut exchanges = Vec::new();
    for (index, call) in calls.iter_mut().enumerate() {
        if answers[index].is_some() || exchanges.len() == POLLED {
            continue;
        }
        let begun = environment.link(call.server).and_then(|link| {
            environment.check_silent(link)?;
            let mut found = match link.try_lease(call.lane) {
                Some(found) => found,
                None if exchanges.is_empty() => lease(environment, link, call.lane)?,
                None => return Ok(None),
            };
            let delivery = Delivery::new(environment.bounds(), environment.now());
            if !try_in_turn(environment, link, &mut found, caller, tries)? {
                return Ok(None);
            }
            let mut exchange = Exchange::begin(environment, link, found, caller, call, delivery)?;
            let progress = exchange.step(environment, caller, call, false)?;
            Ok(Some((exchange, progress)))
        });
        match begun {
            Ok(None) => {}
            Ok(Some((_, Progress::Replied(reply, bytes)))) => {
                answers[index] = Some(succeeded(reply, bytes));
            }
            Ok(Some((exchange, Progress::Waiting { .. }))) => exchanges.push((index, exchange)),
            Err(error) => answers[index] = Some(Err(error)),
        }
    }
    while !exchanges.is_empty() {
        let alone = exchanges.len() == 1;
        let mut moved_any = false;
        exchanges.retain_mut(|(index, exchange)| {
            match exchange.step(environment, caller, &mut calls[*index], alone) {
                Ok(Progress::Waiting { moved, .. }) => {
                    moved_any |= moved;
                    return true;
                }
                Ok(Progress::Replied(reply, bytes)) => answers[*index] = Some(succeeded(reply, bytes)),
                Err(error) => answers[*index] = Some(Err(error)),
            }
            moved_any = true;
            false
        });
        if !moved_any && !alone {
            wait_for_any(environment, &exchanges);
        }
    }
}
