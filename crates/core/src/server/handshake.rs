//! The handshake of a link: the client says who it is, is challenged, proves it, and is welcomed.

use super::{Server, Site};
use crate::accounts::jobs::attributes;
use crate::links::claims;
use crate::links::clients::Introduction;
use crate::links::link::{Acting, Challenge, Session, Standing};
use crate::links::Reading;
use crate::namespace::errno;
use crate::notices::Notice;
use std::collections::HashMap;
use std::rc::Rc;
use weir_wire::{
    limits, AccountNames, Claims, DelegatedJob, Errno, Identity, IdentityId, Nonce, Proof, Reply, RequestId,
    Role, SessionBinding, UNSEALED,
};

impl Server {
    /// Asks a client to prove who it is.
    ///
    /// # Errors
    /// The link is refused.
    pub(super) fn challenge(
        &mut self,
        index: usize,
        request: RequestId,
        introduction: Introduction,
        claims: Claims,
        theirs: Nonce,
    ) -> Result<(), Reading> {
        let mut ours = [0; 32];
        if self.host.draw(&mut ours).is_err() {
            let reason = "the server has no randomness for a challenge: try again";
            return Err(Reading::Refused(reason.into()));
        }
        if let Some(link) = self.links.get_mut(index) {
            let challenge = Challenge { introduction, claims, theirs, ours };
            *link.standing() = Standing::Challenged(Box::new(challenge));
            let Site { id: server, boot, .. } = self.site;
            self.links.answer(index, request, &Reply::Challenge { server, boot, nonce: ours });
        }
        Ok(())
    }

    /// Welcomes a client that has proved who it is.
    ///
    /// # Errors
    /// The link is closed.
    pub(super) fn welcome(&mut self, index: usize, request: RequestId, proof: &Proof) -> Result<(), Reading> {
        let Some(link) = self.links.get_mut(index) else { return Ok(()) };
        let serial = link.serial();
        let standing = std::mem::replace(link.standing(), Standing::Fresh);
        let Standing::Challenged(challenge) = standing else { return Ok(()) };
        let nonces = (&challenge.theirs, &challenge.ours);
        let proved = SessionBinding::new(self.site.id, self.site.boot, nonces, &link.connection().binding());
        if let Err(reason) = self.check_challenge(&challenge, &proved, proof) {
            self.refuse_credential(index, request, &challenge.claims, reason);
            return Ok(());
        }
        let Challenge { introduction, claims, .. } = *challenge;
        let now = self.clock.now();
        let user = (claims.role == Role::User).then_some(claims.uid);
        if !self.links.admission().prove(serial, user) {
            self.notices.tell(Notice::TurnedAway, now, || {
                format!(
                    "no more room for connections of uid {} (job \"{}\"); one more is turned away; hint: raise \
                     the limit of open files (ulimit -n)",
                    claims.uid, claims.job
                )
            });
            // Without a word: its client tries again within its bound, as after a lost connection.
            return Err(Reading::Closed);
        }
        let job = claims.job_id();
        // A server is no job: it is not listed, and its requests are never queued.
        let account = (claims.role != Role::Server).then(|| self.accounts.jobs().meet(&claims, now));
        let attributes = account.as_ref().map_or_else(|| attributes(&claims), |account| account.attributes());
        let is_known = self.client_connected(introduction, claims.uid, job);
        let server_proof = self.site.key().server_proof(&claims, &proved);
        let who = Identity { uid: claims.uid, gid: claims.gid, groups: claims.groups.clone() };
        let (trusted, expires_seconds) = (claims.role == Role::Mount, claims.expires_seconds);
        let session = Session {
            client: introduction.client,
            slot: introduction.slot,
            role: claims.role,
            own: Rc::new(Acting { who, job, attributes, account, trusted, expires_seconds }),
            identities: HashMap::new(),
            proved,
            user,
            peer: claims::server_named(&claims),
        };
        if let Some(link) = self.links.get_mut(index) {
            *link.standing() = Standing::Ready(Box::new(session));
        }
        if let Some(former) = self.links.take_slot(index) {
            self.close_link(former);
        }
        self.links.note_return(index, introduction.client);
        if !is_known {
            self.links.begin_claims(index);
        }
        let reply = Reply::Welcome { proof: server_proof, is_known };
        self.links.answer(index, request, &reply);
        Ok(())
    }

    fn check_challenge(
        &mut self,
        challenge: &Challenge,
        proved: &SessionBinding,
        proof: &Proof,
    ) -> Result<(), &'static str> {
        let Challenge { introduction, claims, .. } = challenge;
        if claims.role == Role::Administrator {
            return Err("commands of the administrator use the control API");
        }
        claims::check(self.site.key(), claims, proof, proved, self.clock.wall_seconds())?;
        let is_its = self.links.clients().may_be(introduction.client, claims.uid);
        is_its.then_some(()).ok_or("its client is another user's")
    }

    /// Ends a connection whose channel nobody sealed with the key of a credential, or whose records somebody altered. A client
    /// whose records were altered is told nothing: it connects again, as after any broken connection.
    pub(super) fn refuse_channel(&mut self, index: usize, reason: &str) {
        self.links.count_refusal();
        self.notices.tell(Notice::Refused, self.clock.now(), || format!("a connection refused: {reason}"));
        let is_sealed = self.links.get_mut(index).is_some_and(|link| link.connection().binding() != UNSEALED);
        if is_sealed {
            return self.close_link(index);
        }
        let told = format!("{reason}; over TCP a connection begins with a sealed channel to this server");
        self.links.refuse(index, &told);
    }

    /// Answers a refused credential, and closes the link when that is sent.
    fn refuse_credential(&mut self, index: usize, request: RequestId, claims: &Claims, reason: &str) {
        self.links.count_refusal();
        self.notices.tell(Notice::Refused, self.clock.now(), || {
            format!("credential of job \"{}\" of uid {} refused: {reason}", claims.job, claims.uid)
        });
        self.links.answer(index, request, &Reply::Failed(errno::EACCES));
        if let Some(link) = self.links.get_mut(index) {
            link.close_when_sent();
        }
    }

    /// Registers an identity; only a mount may, and a forwarded job must be proved and belong to that user.
    ///
    /// # Errors
    /// The error number of the refusal.
    pub(super) fn identify(
        &mut self,
        index: usize,
        identity: IdentityId,
        who: Identity,
        (names, delegated): (AccountNames, Option<DelegatedJob>),
    ) -> Result<(), Errno> {
        let link = self.links.get_mut(index).ok_or(errno::EIO)?;
        let session = link.session().ok_or(errno::EACCES)?;
        if session.role != Role::Mount || identity == IdentityId(0) {
            return Err(errno::EPERM);
        }
        let is_full = session.identities.len() >= limits::IDENTITIES_PER_CONNECTION;
        if who.groups.len() > limits::GROUPS || is_full && !session.identities.contains_key(&identity) {
            return Err(errno::E2BIG);
        }
        let proved = session.proved;
        let claims = match delegated {
            Some(DelegatedJob { claims, proof }) => {
                let checked =
                    claims::check(self.site.key(), &claims, &proof, &proved, self.clock.wall_seconds());
                if checked.is_err() || claims.uid != who.uid {
                    self.links.count_refusal();
                    return Err(errno::EACCES);
                }
                claims
            }
            None => claims::of_user(&who, names).ok_or(errno::EINVAL)?,
        };
        let account = self.accounts.jobs().meet(&claims, self.clock.now());
        let acting = Rc::new(Acting {
            who,
            job: claims.job_id(),
            attributes: account.attributes(),
            account: Some(account),
            trusted: true,
            expires_seconds: claims.expires_seconds,
        });
        if let Some(Standing::Ready(session)) = self.links.get_mut(index).map(|link| link.standing()) {
            session.identities.insert(identity, acting);
        }
        Ok(())
    }
}
