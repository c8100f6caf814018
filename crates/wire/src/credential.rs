//! Credentials and capabilities: the identity of a client, and the operations that an open file allows it.
//!
//! A credential is a set of claims and their tag under the site's key. The tag never travels: client and server both
//! answer a challenge keyed by it, so a claim that was altered, or minted with another key, answers wrongly.

use crate::{decode_body, encode_body, limits, HandleId, Ino, JobId, WireError};
use serde::{Deserialize, Serialize};
use weir_fairshare::{GroupId, JobAttributes, JobName, Priority, UserId};
use weir_placement::ServerId;

/// A challenge: fresh random bytes.
pub type Nonce = [u8; 32];
/// An answer to a challenge.
pub type Proof = [u8; 32];
/// The digest of the handshake of a sealed channel; [`UNSEALED`] on a Unix socket, whose peer the kernel names.
pub type ChannelBinding = [u8; 32];
/// The key that both sides of a sealed channel derive from a credential.
pub type ChannelKey = [u8; 32];

/// The binding of a connection that no channel seals.
pub const UNSEALED: ChannelBinding = [0; 32];

const TAG_CONTEXT: &str = "weir 2026-11 credential tag";
const CAPABILITY_CONTEXT: &str = "weir 2026-11 capability of a description";
const CHANNEL_CONTEXT: &str = "weir 2026-11 channel of a credential";
const SESSION_CONTEXT: &str = "weir 2026-11 session";
const STORE_CONTEXT: &str = "weir 2026-11 identity of a store";
const FILE_VERSION: u32 = 1;

/// The powers of a bearer beyond its own files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Acts as itself.
    User,
    /// Acts for others: may register identities (a mount run by the administrator).
    Mount,
    /// A command of the administrator, at the control API: it holds the site's key, and is no client of files.
    Administrator,
    /// Another server of the cluster.
    Server,
}

/// The claims of a credential about its bearer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Name of the job, unique for its user.
    pub job: String,
    /// Name under which the job is accounted, for user-fair policies.
    pub user: String,
    /// Name of the group under which the job is accounted, for group-fair policies.
    pub group: String,
    /// Numeric user.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Compute nodes of the job, at least 1.
    pub nodes: u32,
    /// Priority of the job, at least 1.
    pub priority: u32,
    /// The powers of the bearer.
    pub role: Role,
    /// Unix time from which it holds, in seconds.
    pub issued_seconds: u64,
    /// Unix time after which it is refused, in seconds.
    pub expires_seconds: u64,
}

/// Claims with their tag; whoever holds the tag is the bearer.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The claims.
    pub claims: Claims,
    tag: [u8; 32],
}

/// The key from which a site's credentials and capabilities are derived.
#[derive(Clone)]
pub struct SiteKey {
    root: [u8; 32],
    tag_key: [u8; 32],
    capability_key: [u8; 32],
}

/// The one session that a proof is made for: at another server, after another start, for other nonces or on another connection the
/// proof is worth nothing. The claims, and the role among them, are in the key of the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionBinding([u8; 32]);

/// The operations on a file's bytes that an open description allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Bytes may be read.
    pub read: bool,
    /// Bytes may be written.
    pub write: bool,
}

/// An open description and the user for whom it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Description {
    /// The file.
    pub ino: Ino,
    /// The description at the file's home.
    pub handle: HandleId,
    /// The user.
    pub uid: u32,
}

/// A token for one open description: made by the file's home, checked by every server.
///
/// A capability is worth nothing to another user, and nothing once its description is closed: the home knows its
/// descriptions, and other servers ask the home about a capability that is older than
/// [`limits::CAPABILITY_FRESH_SECONDS`]. With [`HandleId::NONE`] it is a pass: it lets its user name the inode for
/// [`limits::PASS_SECONDS`], and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// The file.
    pub ino: Ino,
    /// The description at the file's home.
    pub handle: HandleId,
    /// The user for whom it was opened.
    pub uid: u32,
    /// The allowed operations.
    pub rights: Rights,
    /// Unix time of its making, in seconds.
    pub issued_seconds: u64,
    tag: [u8; 16],
}

/// The JSON form of a credential file.
#[derive(Serialize, Deserialize)]
struct CredentialFile {
    version: u32,
    claims: Claims,
    tag: String,
}

/// First bytes of the names by which a mount takes descriptions over.
const CLAIM: &[u8] = b".weir-description-";

impl Capability {
    /// The name in the root directory by whose creation a mount takes the description over, for the user of the capability.
    pub fn claim_name(&self) -> Vec<u8> {
        let mut body = Vec::new();
        encode_body(self, &mut body);
        let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
        let digits = body.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        CLAIM.iter().copied().chain(digits).collect()
    }

    /// The capability of such a name. Nobody has vouched for it.
    pub fn of_claim_name(name: &[u8]) -> Option<Capability> {
        let digits = name.strip_prefix(CLAIM)?;
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let byte = |pair: &[u8]| match *pair {
            [high, low] => Some(value(high)? << 4 | value(low)?),
            _ => None,
        };
        let body: Vec<u8> = digits.chunks(2).map(byte).collect::<Option<_>>()?;
        decode_body(&body, "capability").ok()
    }
}

impl Claims {
    /// The job's number: the same for each credential of one user's job of one name.
    pub fn job_id(&self) -> JobId {
        job_number(self.uid, &self.job)
    }

    /// Whether every field is within its limit; a server checks this before it looks at the tag.
    pub fn is_well_formed(&self) -> bool {
        let names = [&self.job, &self.user, &self.group];
        names.iter().all(|name| !name.is_empty() && name.len() <= limits::CLAIM_NAME_BYTES)
            && self.groups.len() <= limits::GROUPS
            && self.nodes >= 1
            && self.priority >= 1
    }

    fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        crate::encode_body(self, &mut bytes);
        bytes
    }
}

impl SessionBinding {
    /// The session of a client and a server, by the challenges of both, on the connection with this binding.
    pub fn new(
        server: ServerId,
        boot: u64,
        (client_nonce, server_nonce): (&Nonce, &Nonce),
        channel: &ChannelBinding,
    ) -> SessionBinding {
        let mut hasher = blake3::Hasher::new_derive_key(SESSION_CONTEXT);
        hasher.update(&server.0.to_le_bytes()).update(&boot.to_le_bytes());
        hasher.update(client_nonce).update(server_nonce).update(channel);
        SessionBinding(*hasher.finalize().as_bytes())
    }
}

impl SiteKey {
    /// The key of these 32 random bytes.
    pub fn new(bytes: [u8; 32]) -> SiteKey {
        SiteKey {
            root: bytes,
            tag_key: blake3::derive_key(TAG_CONTEXT, &bytes),
            capability_key: blake3::derive_key(CAPABILITY_CONTEXT, &bytes),
        }
    }

    /// Reads a key file: 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`WireError::Credential`] for anything else.
    pub fn from_hex(text: &str) -> Result<SiteKey, WireError> {
        parse_hex(text.trim()).map(SiteKey::new)
    }

    /// The key as a key file holds it.
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.root).to_hex().to_string()
    }

    /// Mints a credential.
    pub fn mint(&self, claims: Claims) -> Credential {
        let tag = self.tag(&claims);
        Credential { claims, tag }
    }

    /// The proof of the bearer of `claims` in a session.
    pub fn expected_proof(&self, claims: &Claims, session: &SessionBinding) -> Proof {
        answer(&self.tag(claims), b"client", session)
    }

    /// The proof of a server that holds this key, so that the client knows the server too.
    pub fn server_proof(&self, claims: &Claims, session: &SessionBinding) -> Proof {
        answer(&self.tag(claims), b"server", session)
    }

    /// The key of a channel with the bearer of `claims`.
    pub fn channel_key(&self, claims: &Claims) -> ChannelKey {
        blake3::derive_key(CHANNEL_CONTEXT, &self.tag(claims))
    }

    /// Mints the capability of an open description.
    pub fn capability(&self, of: Description, rights: Rights, issued_seconds: u64) -> Capability {
        let Description { ino, handle, uid } = of;
        let mut capability = Capability { ino, handle, uid, rights, issued_seconds, tag: [0; 16] };
        capability.tag = self.capability_tag(&capability);
        capability
    }

    /// Mints the right of a user to name an inode.
    pub fn pass(&self, ino: Ino, uid: u32, issued_seconds: u64) -> Capability {
        let handle = HandleId::NONE;
        self.capability(
            Description { ino, handle, uid },
            Rights { read: false, write: false },
            issued_seconds,
        )
    }

    /// Whether `capability` was minted with this key. Whether it still holds is another question.
    pub fn admits(&self, capability: &Capability) -> bool {
        same_bytes(&self.capability_tag(capability), &capability.tag)
    }

    /// The name of the store that has this key, which its folders carry. The key cannot be found from it.
    pub fn store_identity(&self) -> String {
        let derived = blake3::derive_key(STORE_CONTEXT, &self.root);
        blake3::Hash::from_bytes(derived).to_hex()[..32].to_string()
    }

    fn tag(&self, claims: &Claims) -> [u8; 32] {
        *blake3::keyed_hash(&self.tag_key, &claims.encoded()).as_bytes()
    }

    fn capability_tag(&self, of: &Capability) -> [u8; 16] {
        let rights = u32::from(of.rights.read) | (u32::from(of.rights.write) << 1);
        // Below 64 bytes the hash is one compression.
        let mut message = [0; 32];
        message[..8].copy_from_slice(&of.ino.0.to_le_bytes());
        message[8..16].copy_from_slice(&of.handle.0.to_le_bytes());
        message[16..24].copy_from_slice(&of.issued_seconds.to_le_bytes());
        message[24..28].copy_from_slice(&of.uid.to_le_bytes());
        message[28..].copy_from_slice(&rights.to_le_bytes());
        let mut tag = [0; 16];
        tag.copy_from_slice(&blake3::keyed_hash(&self.capability_key, &message).as_bytes()[..16]);
        tag
    }
}

impl Credential {
    /// The bearer's proof in a session.
    pub fn prove(&self, session: &SessionBinding) -> Proof {
        answer(&self.tag, b"client", session)
    }

    /// Whether `proof` is that of a server that holds the site's key, in a session.
    pub fn server_is_genuine(&self, session: &SessionBinding, proof: &Proof) -> bool {
        same_bytes(&answer(&self.tag, b"server", session), proof)
    }

    /// The key of a channel between the bearer and a server.
    pub fn channel_key(&self) -> ChannelKey {
        blake3::derive_key(CHANNEL_CONTEXT, &self.tag)
    }

    /// The text of a credential file.
    pub fn to_json(&self) -> String {
        let file = CredentialFile {
            version: FILE_VERSION,
            claims: self.claims.clone(),
            tag: blake3::Hash::from_bytes(self.tag).to_hex().to_string(),
        };
        serde_json::to_string_pretty(&file).unwrap_or_default() + "\n"
    }

    /// Reads a credential file.
    ///
    /// # Errors
    /// [`WireError::Credential`] saying what is wrong with the text.
    pub fn from_json(text: &str) -> Result<Credential, WireError> {
        let file: CredentialFile =
            serde_json::from_str(text).map_err(|error| WireError::Credential(error.to_string()))?;
        if file.version != FILE_VERSION {
            let message = format!("file version {} where this program reads {FILE_VERSION}", file.version);
            return Err(WireError::Credential(message));
        }
        Ok(Credential { claims: file.claims, tag: parse_hex(&file.tag)? })
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credential").field("claims", &self.claims).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SiteKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SiteKey(..)")
    }
}

fn answer(tag: &[u8; 32], side: &[u8], session: &SessionBinding) -> Proof {
    let mut hasher = blake3::Hasher::new_keyed(tag);
    hasher.update(side).update(&session.0);
    *hasher.finalize().as_bytes()
}

/// Whether a secret that somebody shows is the one that is kept. Digests are compared, so the time tells nothing of it.
pub fn same_secret(shown: &str, kept: &str) -> bool {
    same_bytes(blake3::hash(shown.as_bytes()).as_bytes(), blake3::hash(kept.as_bytes()).as_bytes())
}

/// Compares without a data-dependent branch.
fn same_bytes(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

fn parse_hex(text: &str) -> Result<[u8; 32], WireError> {
    blake3::Hash::from_hex(text)
        .map(|hash| *hash.as_bytes())
        .map_err(|error| WireError::Credential(format!("expected 64 hexadecimal digits: {error}")))
}

/// The number of a user's job of this name.
pub fn job_number(uid: u32, name: &str) -> JobId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&uid.to_le_bytes());
    hasher.update(name.as_bytes());
    JobId(first_word(&hasher.finalize()))
}

/// The number that stands for a job's, user's or group's name where names are compared.
pub fn name_number(name: &str) -> u64 {
    first_word(&blake3::hash(name.as_bytes()))
}

/// The attributes of a job of these names, for the policy.
pub fn job_attributes(
    id: JobId,
    (job, user, group): (&str, &str, &str),
    nodes: u32,
    priority: u32,
) -> JobAttributes {
    JobAttributes {
        job: id,
        name: JobName(name_number(job)),
        user: UserId(name_number(user)),
        group: GroupId(name_number(group)),
        nodes,
        priority: Priority(priority),
    }
}

fn first_word(digest: &blake3::Hash) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&digest.as_bytes()[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            job: "checkpoint".into(),
            user: "alice".into(),
            group: "physics".into(),
            uid: 1000,
            gid: 1000,
            groups: vec![1000, 44],
            nodes: 4,
            priority: 1,
            role: Role::User,
            issued_seconds: 1,
            expires_seconds: 2,
        }
    }

    #[test]
    fn a_proof_holds_for_its_bearer_and_its_session_alone() {
        let key = SiteKey::new([7; 32]);
        let credential = key.mint(claims());
        let session = |server, boot, client, ours, channel| {
            SessionBinding::new(ServerId(server), boot, (&[client; 32], &[ours; 32]), &[channel; 32])
        };
        let here = session(1, 9, 1, 2, 3);
        assert_eq!(credential.prove(&here), key.expected_proof(&claims(), &here));
        assert!(credential.server_is_genuine(&here, &key.server_proof(&claims(), &here)));
        assert_ne!(key.server_proof(&claims(), &here), key.expected_proof(&claims(), &here), "another side");
        assert_eq!(credential.channel_key(), key.channel_key(&claims()));

        let others = [
            ("server", session(0, 9, 1, 2, 3)),
            ("start", session(1, 8, 1, 2, 3)),
            ("challenge of the client", session(1, 9, 0, 2, 3)),
            ("challenge of the server", session(1, 9, 1, 0, 3)),
            ("connection", session(1, 9, 1, 2, 0)),
        ];
        for (what, other) in others {
            assert_ne!(credential.prove(&other), key.expected_proof(&claims(), &here), "another {what}");
            assert!(
                !credential.server_is_genuine(&here, &key.server_proof(&claims(), &other)),
                "another {what}"
            );
        }

        let altered = [
            ("nodes", Claims { nodes: 400, ..claims() }),
            ("role", Claims { role: Role::Server, ..claims() }),
            ("user", Claims { uid: 0, ..claims() }),
        ];
        for (what, claims) in altered {
            let forged = Credential { claims: claims.clone(), ..credential.clone() };
            assert_ne!(forged.prove(&here), key.expected_proof(&claims, &here), "{what}");
            assert_ne!(forged.channel_key(), key.channel_key(&claims), "{what}");
        }
        let foreign = SiteKey::new([8; 32]).mint(claims());
        assert_ne!(foreign.prove(&here), key.expected_proof(&claims(), &here));
        assert_ne!(foreign.channel_key(), key.channel_key(&claims()));
    }

    #[test]
    fn a_credential_survives_its_file() {
        let credential = SiteKey::new([7; 32]).mint(claims());
        assert_eq!(Credential::from_json(&credential.to_json()), Ok(credential));
        assert!(Credential::from_json("{}").is_err());
    }

    #[test]
    fn the_longest_claim_fits_a_name() {
        let of = Description { ino: Ino(u64::MAX), handle: HandleId(u64::MAX), uid: u32::MAX };
        let longest = SiteKey::new([7; 32]).capability(of, Rights { read: true, write: true }, u64::MAX);
        let name = longest.claim_name();
        assert!(name.len() <= limits::NAME_BYTES);
        assert_eq!(Capability::of_claim_name(&name), Some(longest));
        for other in
            [&name[1..], &name[..name.len() - 1], b".weir-description-", b".weir-description-0g", b"file"]
        {
            assert_eq!(Capability::of_claim_name(other), None);
        }
    }

    #[test]
    fn no_field_of_a_capability_can_be_altered() {
        let key = SiteKey::new([7; 32]);
        let of = Description { ino: Ino(42), handle: HandleId(7), uid: 1000 };
        let good = key.capability(of, Rights { read: true, write: false }, 100);
        assert!(key.admits(&good));
        let altered = [
            Capability { ino: Ino(43), ..good },
            Capability { handle: HandleId(8), ..good },
            Capability { uid: 0, ..good },
            Capability { rights: Rights { read: true, write: true }, ..good },
            Capability { rights: Rights { read: false, write: false }, ..good },
            Capability { issued_seconds: 101, ..good },
        ];
        for capability in altered {
            assert!(!key.admits(&capability), "{capability:?}");
        }
        assert!(!SiteKey::new([8; 32]).admits(&good));
    }

    #[test]
    fn a_job_is_known_by_user_and_name() {
        let mut other = claims();
        assert_eq!(other.job_id(), claims().job_id());
        other.uid = 1001;
        assert_ne!(other.job_id(), claims().job_id());
    }
}
