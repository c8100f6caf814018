//! The ends of windows: the devices are sampled, and the work of jobs is taken.

use super::Server;
use crate::accounts::windows::{Window, LINES_MAX};

impl Server {
    /// Takes the samples and closes the windows that have ended. It comes before anything of a turn of the loop, so that a
    /// window has the work of the turns that began in it.
    pub(crate) fn observe(&mut self) {
        while let Some(ended) = self.windows.take_ended(self.clock.now()) {
            self.requests.devices_mut().sample(ended.at);
            if let Some(number) = ended.window {
                self.close_window(number, ended.is_whole);
            }
        }
    }

    fn close_window(&mut self, number: u64, is_whole: bool) {
        self.accounts.account_devices(self.requests.devices_mut().all_mut(), &self.clock);
        let statistics = self.requests.devices_mut().reduce();
        let (lines, left_out) = self.accounts.jobs().take_observed(LINES_MAX);
        let names: Vec<String> = (0..statistics.len()).map(|index| self.device_name(index)).collect();
        let jobs = lines.into_iter().map(|line| line.named(&names)).collect();
        let is_here = |index: &usize| self.targets.get(*index).is_none_or(|target| !target.has_retired());
        let devices = (0..statistics.len()).filter(is_here);
        let devices = devices.map(|index| (names[index].clone(), statistics[index])).collect();
        self.windows.keep(Window { number, is_whole, devices, jobs, left_out });
    }
}
