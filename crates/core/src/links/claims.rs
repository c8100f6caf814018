//! Claims of a credential: whether they are proved, and the claims of a process or a server without a credential of its own.

use weir_placement::ServerId;
use weir_wire::{AccountNames, Claims, Identity, Proof, Role, SessionBinding, SiteKey};

/// A credential may be issued this much later than now: the clocks of two machines differ.
const CLOCK_SKEW_SECONDS: u64 = 300;
const PEER_JOB: &str = "server-";

/// Checks that claims are proved and valid at `now`, in seconds of Unix time.
///
/// # Errors
/// The reason why they are refused, for the log.
pub(crate) fn check(
    key: &SiteKey,
    claims: &Claims,
    proof: &Proof,
    session: &SessionBinding,
    now: u64,
) -> Result<(), &'static str> {
    if !claims.is_well_formed() {
        return Err("a claim is outside its limits");
    }
    if key.expected_proof(claims, session) != *proof {
        return Err("it was forged, altered, or minted with another site key");
    }
    if claims.issued_seconds > now + CLOCK_SKEW_SECONDS {
        return Err("it is not valid yet: are the clocks set?");
    }
    if claims.expires_seconds < now {
        return Err("it has expired");
    }
    Ok(())
}

/// The job of a user's processes without a credential: one node, all of these processes together.
pub(crate) fn of_user(who: &Identity, names: AccountNames) -> Option<Claims> {
    let claims = Claims {
        job: format!("uid-{}", who.uid),
        user: names.user,
        group: names.group,
        uid: who.uid,
        gid: who.gid,
        groups: Vec::new(),
        nodes: 1,
        priority: 1,
        role: Role::User,
        issued_seconds: 0,
        expires_seconds: u64::MAX,
    };
    claims.is_well_formed().then_some(claims)
}

/// The claims of a server, valid for so long from `now`, in seconds of Unix time.
pub(crate) fn of_server(server: ServerId, now: u64, valid_seconds: u64) -> Claims {
    Claims {
        job: format!("{PEER_JOB}{server}"),
        user: "weir".into(),
        group: "weir".into(),
        uid: 0,
        gid: 0,
        groups: Vec::new(),
        nodes: 1,
        priority: 1,
        role: Role::Server,
        issued_seconds: now,
        expires_seconds: now + valid_seconds,
    }
}

/// The server that these claims name; none where they are a client's.
pub(crate) fn server_named(claims: &Claims) -> Option<ServerId> {
    let number = claims.job.strip_prefix(PEER_JOB)?.parse().ok()?;
    (claims.role == Role::Server).then_some(ServerId(number))
}
