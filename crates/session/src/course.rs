//! One call of a program, over the requests that it takes: a target that does not know the description, or another fence, has
//! the call made again after a question to the file's home.

use crate::{ClientError, Result};
use rustix::io::Errno as System;
use weir_placement::ServerId;
use weir_wire::Reply;

/// Times that a request is tried again because the home told its target of another fence meanwhile.
const FENCES_MAX: u32 = 8;

/// A call of a program.
#[derive(Debug)]
pub struct Course {
    server: ServerId,
    /// The home of the file whose bytes the call reaches for.
    home: Option<ServerId>,
    has_asked: bool,
    fences: u32,
}

/// The step after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The answer is the call's.
    Done,
    /// The home tells its fence first, over a connection that claims this client's descriptions and locks. Then the call is
    /// made again, as a new request.
    Ask(ServerId),
    /// The call fails: others lost locks all the time.
    Fail,
}

impl Course {
    /// A call to `server`.
    pub fn new(server: ServerId, home: Option<ServerId>) -> Course {
        Course { server, home, has_asked: false, fences: 0 }
    }

    /// Judges an answer. The home of the file may have started anew, or missed this client or others for a while.
    pub fn judge(&mut self, answer: &Result<(Reply, usize)>) -> Verdict {
        let Some(home) = self.home else { return Verdict::Done };
        let is_first = !std::mem::replace(&mut self.has_asked, true);
        match answer {
            Ok((Reply::StaleFence, _)) if self.fences == FENCES_MAX => Verdict::Fail,
            Ok((Reply::StaleFence, _)) => {
                self.fences += 1;
                Verdict::Ask(home)
            }
            Err(ClientError::Failed(errno))
                if i32::from(errno.0) == System::STALE.raw_os_error() && is_first && home != self.server =>
            {
                Verdict::Ask(home)
            }
            _ => Verdict::Done,
        }
    }
}
