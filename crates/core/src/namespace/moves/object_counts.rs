//! Numbers of objects by target.

use weir_placement::TargetId;

/// Objects by server and by number of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectCounts(Vec<Vec<u64>>);

impl ObjectCounts {
    pub(super) fn of(&self, target: TargetId) -> u64 {
        let server = self.0.get(usize::from(target.server.0));
        server.and_then(|targets| targets.get(target.number())).copied().unwrap_or(0)
    }

    pub(super) fn count(&mut self, target: TargetId) -> &mut u64 {
        let (server, number) = (usize::from(target.server.0), target.number());
        if self.0.len() <= server {
            self.0.resize(server + 1, Vec::new());
        }
        let targets = &mut self.0[server];
        if targets.len() <= number {
            targets.resize(number + 1, 0);
        }
        &mut targets[number]
    }
}
