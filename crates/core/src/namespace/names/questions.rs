//! Questions to other servers. This server writes an intent before it asks.

use super::continuation::{Continuation, Grants, Rename, Work};
use super::walk::Place;
use super::Names;
use crate::namespace::change::Change;
use crate::namespace::decision::{Caller, Question, Step, Verdict};
use crate::namespace::draft::Draft;
use crate::namespace::errno::ENOTDIR;
use crate::namespace::files::permission;
use crate::namespace::files::{Birth, BirthNode};
use crate::namespace::intents::{Bytes, Intent, IntentId};
use weir_placement::ServerId;
use weir_wire::{At, ClientId, Errno, Ino, PeerRequest, RenameMode, RequestId};

impl Names {
    pub(crate) fn ask_to_make(
        &self,
        mut draft: Draft<'_>,
        place: &Place,
        server: ServerId,
        birth: Birth,
    ) -> Step<Verdict> {
        let BirthNode::Directory { request: layout } = birth.node.clone() else { return Err(ENOTDIR.into()) };
        let id = draft.intent()?;
        let (parent, name, at) = (place.parent, Bytes::from(place.name.as_slice()), draft.now);
        let request = PeerRequest::MakeDirectory {
            intent: id.0,
            parent,
            name: place.name.clone(),
            permissions: birth.permissions,
            uid: birth.uid,
            gid: birth.gid,
            layout,
            moment: at,
            settled: self.unsettled.first().unwrap_or(&id).0,
        };
        let intent = Intent::MakeDirectory { server, parent, name: name.clone() };
        let work = Work::Make { id, server, parent, name, birth, at };
        Ok(ask(&draft, Some((id, intent)), server, request, work))
    }

    pub(crate) fn ask_to_remove(&self, mut draft: Draft<'_>, place: &Place, ino: Ino) -> Step<Verdict> {
        let asked = Some((draft.caller.client, draft.caller.request));
        let (id, intent, request) = self.removal(&mut draft, place, ino, asked)?;
        let work = Work::Remove { id, parent: place.parent, name: Bytes::from(place.name.as_slice()), ino };
        Ok(ask(&draft, Some((id, intent)), ino.home(), request, work))
    }

    pub(crate) fn ask_to_replace(
        &self,
        mut draft: Draft<'_>,
        place: &Place,
        ino: Ino,
        rename: (&At, &At, RenameMode),
        grants: &Grants,
    ) -> Step<Verdict> {
        let (id, intent, request) = self.removal(&mut draft, place, ino, None)?;
        let (parent, name) = (place.parent, Bytes::from(place.name.as_slice()));
        let work = Work::Replace { id, parent, name, ino, rename: Rename::new(rename, grants) };
        Ok(ask(&draft, Some((id, intent)), ino.home(), request, work))
    }

    /// Asks the home of a directory whether the caller may move the directory's entry out of this place.
    pub(crate) fn ask_to_move(
        &self,
        draft: Draft<'_>,
        (ino, write): (Ino, bool),
        place: &Place,
        rename: (&At, &At, RenameMode),
        grants: &Grants,
    ) -> Step<Verdict> {
        let who = draft.who();
        let owner = permission::sticky_asks_owner(who, self.files.inode(place.parent)?);
        let request = PeerRequest::MayMove { ino, who: who.clone(), owner, write };
        let work = Work::Move { ino, rename: Rename::new(rename, grants) };
        Ok(ask(&draft, None, ino.home(), request, work))
    }

    fn removal(
        &self,
        draft: &mut Draft<'_>,
        place: &Place,
        ino: Ino,
        request: Option<(ClientId, RequestId)>,
    ) -> Result<(IntentId, Intent, PeerRequest), Errno> {
        let id = draft.intent()?;
        let who = draft.who();
        let owner_only =
            permission::sticky_asks_owner(who, self.files.inode(place.parent)?).then_some(who.uid);
        let (parent, name) = (place.parent, Bytes::from(place.name.as_slice()));
        let intent = Intent::RemoveDirectory { ino, parent, name, owner_only, request };
        Ok((id, intent, PeerRequest::RemoveDirectory { ino, owner_only }))
    }
}

fn ask(
    draft: &Draft<'_>,
    intent: Option<(IntentId, Intent)>,
    server: ServerId,
    request: PeerRequest,
    work: Work,
) -> Verdict {
    let Caller { client, request: id, acknowledged, who, job, trusted } = *draft.caller;
    Verdict::Ask(Question {
        changes: intent
            .into_iter()
            .map(|(id, intent)| Change::Intended { id, uid: who.uid, intent })
            .collect(),
        server,
        request,
        continuation: Continuation {
            client,
            request: id,
            acknowledged,
            who: who.clone(),
            job,
            trusted,
            work,
        },
    })
}
